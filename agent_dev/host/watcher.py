"""The process beside a sandbox that hears of each command, decides by the policy, and writes the log.

A process of its own, forked before the sandbox is built: it sees every execve, and nothing starts while it does not answer.
When it is gone, nothing starts any more. It holds nothing of the launcher's but the session's folder by its path.
"""

import gc
import os
import select

from agent_dev.errors import BadConfiguration
from agent_dev.host import callers, kernel, load, signals
from agent_dev.value import Value

_CONTROL, _TOLD = 3, 4  # the only descriptors that are kept
_READY = b"+"
_EPERM = 1
_IDLE, _LOOK = 100, 200  # ms until rows are written, ms between looks at answers
_AGAIN = 1.0  # seconds
_MANY_TRANSACTIONS = 256
_LONGEST_CAUSE = 200  # characters of a command line that a checkpoint is called by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.core.policy import Decision
    from agent_dev.host.notify import Call, Listener
    from agent_dev.host.rows import Row, Rows

    Told = tuple[int, int, int, int, int]


class Watch(Value):
    """The set of rules that decides, where the log lies, the user's home and environment, how many seconds a question waits.

    `roll_back` brings the running session back to a checkpoint of that number, and returns what could not be done.
    """

    policy: str
    folder: str
    home: str
    environ: dict[str, str]
    patience: int
    roll_back: "Callable[[int], str]"


class Tally(Value):
    """How far the log goes, as session.json has it (`chain` empty: nothing was written), and how many were denied."""

    count: int = 0
    chain: str = ""
    dropped: int = 0
    denied: int = 0
    digest: str = ""  # of the rules


class Watcher:
    """The launcher's end of the process. `follow` it to a sandbox, then `finish` or `dismiss` it."""

    def __init__(self, watch: Watch) -> None:
        control, self._control = os.pipe()
        self._told, told = os.pipe()
        self.is_watching = False
        launcher = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                gc.disable()  # nothing here goes round in circles, and each pause would hold a command
                _part(launcher, control, told)
                _Service(watch).run()
            finally:
                os._exit(1)
        os.close(control)
        os.close(told)

    def follow(self, pid: int, listener: int) -> None:
        """Tell it whose descriptor to borrow; a negative one: there is nothing to watch. Raises BadConfiguration."""
        said = os.read(self._told, 1 << 16)
        if said != _READY:
            raise BadConfiguration(message=said.decode() or "what watches the commands ended")
        self.is_watching = listener >= 0
        os.write(self._control, b"%d %d\n" % (pid, listener))

    def finish(self, *, is_kept: bool) -> Tally:
        """Have the log written to its end, unless the session `is_kept` by nobody, and return what it came to."""
        if not self.pid:
            return Tally()
        try:
            os.write(self._control, b"write\n" if is_kept else b"leave\n")
        except BrokenPipeError:
            pass  # it has ended, and so nothing could start since
        said = b""
        while not said.endswith(b"\n") and (piece := os.read(self._told, 4096)):
            said += piece
        self.pid = 0  # it ends by itself, and holds nothing: not waited for
        count, chain, dropped, denied, digest = said.decode().split() or ("0", "-", "0", "0", "-")
        return Tally(int(count), chain.strip("-"), int(dropped), int(denied), digest.strip("-"))

    def dismiss(self) -> None:
        """End it: there is nothing to write."""
        if self.pid:
            os.kill(self.pid, signals.KILL)
            self._leave()

    def _leave(self) -> None:
        os.waitpid(self.pid, 0)
        self.pid = 0
        os.close(self._control)
        os.close(self._told)


def _part(launcher: int, control: int, told: int) -> None:
    """Leave the terminal and every descriptor of the launcher's: its locks, its pipes, its standard streams."""
    os.setsid()
    kernel.die_with_parent()
    if os.getppid() != launcher:
        os._exit(1)
    for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM):
        signals.default(number)
    signals.ignore(signals.PIPE)
    kept = (os.dup(control), os.dup(told), os.open(os.devnull, os.O_RDWR))
    high = max(kept) + 1
    copies = [os.dup2(fd, high + number, inheritable=False) for number, fd in enumerate(kept)]
    os.dup2(copies[0], _CONTROL, inheritable=False)
    os.dup2(copies[1], _TOLD, inheritable=False)
    for standard in range(3):
        os.dup2(copies[2], standard)
    os.closerange(5, 4096)


class _Question(Value):
    """A command that waits for the user: the call, its row, and until when."""

    call: "Call"
    row: "Row"
    until: float


class _Service:
    """Answers calls until the sandbox is over."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.init = 0
        self.questions: dict[int, _Question] = {}
        self.transactions: dict[int, Row] = {}  # by pidfd: the rows of commands that are rolled back if they fail
        self.asked = self.denied = 0
        self.last_denied: tuple[int, tuple[str, ...], float] = (0, (), 0.0)
        self.has_begun = False

    def run(self) -> None:
        """Serve. Never returns."""
        import time  # the clock of this process; what else it needs comes while the sandbox is built

        from agent_dev.core import policy, wall
        from agent_dev.host import notify, rows

        self.time, self.rules, self.step, self.most = time, policy, wall.SCRIPT, rows.MOST
        self.rows: Rows = rows.Rows(f"{self.watch.folder}/commands.jsonl")
        try:
            self.policy = load.policy(self.watch.policy, self.watch.home, self.watch.environ)
        except BadConfiguration as error:
            os.write(_TOLD, error.message.encode())
            os._exit(1)
        os.write(_TOLD, _READY)
        words = os.read(_CONTROL, 256).split()
        if len(words) < 2 or int(words[1]) < 0:
            self._tell_end()
        self.init = int(words[0])
        pidfd = os.pidfd_open(self.init)
        self.listener: Listener = notify.Listener(kernel.borrow(pidfd, int(words[1])))
        os.close(pidfd)
        self.poll = select.poll()
        self.poll.register(self.listener.fd, select.POLLIN)
        self.poll.register(_CONTROL, select.POLLIN)
        while True:
            self._turn(self.poll.poll(self._pause()))

    def _pause(self) -> int | None:
        if self.questions:
            return _LOOK
        return _IDLE if self.rows else None

    def _turn(self, ready: list[tuple[int, int]]) -> None:
        for fd, event in ready:
            if fd == _CONTROL:
                self._tell_end()
            elif fd in self.transactions:
                self._end_transaction(fd)
            elif event & select.POLLIN:
                told = self.listener.receive()
                if told is not None:
                    self._hear(told)
            else:
                self._tell_end()  # no process of the sandbox is left
        if self.questions:
            self._look_for_answers()
        if not ready or len(self.rows) >= self.most:
            self.rows.write()

    # a call

    def _hear(self, told: "Told") -> None:
        if told[1] == self.init:
            self.listener.go_on(told[0])  # bubblewrap itself
            return
        try:
            call = self.listener.words(told)
            if self._is_our_step(call):
                self.listener.go_on(told[0])
                return
            is_of_interest = self._is_of_interest(call)
            if is_of_interest and call.is_cut:
                call = self.listener.words(told, all_of_it=True)
            row, before = self._row(call)
        except OSError:
            if self.listener.is_valid(told[0]):
                self.listener.refuse(told[0], _EPERM)  # it cannot be read: closed
            return
        if not is_of_interest:
            self._allow(call, row, before)
        elif self.listener.is_valid(call.id):
            self._do(call, self._decide(call, row), row, before)

    def _is_our_step(self, call: "Call") -> bool:
        """Whether a call is the first, and the step of ours that puts Landlock on before the agent."""
        is_first, self.has_begun = not self.has_begun, True
        return is_first and self.step in call.argv[:5]

    def _is_of_interest(self, call: "Call") -> bool:
        policy = self.policy
        return policy.is_of_interest(call.program) or (bool(call.argv) and policy.is_of_interest(call.argv[0]))

    def _row(self, call: "Call") -> "tuple[Row, Row | None]":
        """Return what is known of a call, and the row of the place before where it looks along its PATH."""
        now = self.time.time_ns()
        before = self.rows.before(call, now)
        row = {
            "time": now,
            "pid": call.pid,
            "parent": callers.parent(call.pid) if before is None else before["parent"],
            "cwd": os.readlink(f"/proc/{call.pid}/cwd"),
            "program": call.program,
            "argv": call.argv,
        }
        return ({**row, "cut": True} if call.is_cut else row), before

    def _decide(self, call: "Call", row: "Row") -> "Decision":
        return self.rules.decide(self.policy, self.rules.Command(call.program, call.argv, row["cwd"], self.watch.home))

    def _allow(self, call: "Call", row: "Row", before: "Row | None") -> None:
        if self.listener.go_on(call.id):
            row["decision"] = self.rules.ALLOW
            self.rows.allowed(row, before)

    def _do(self, call: "Call", found: "Decision", row: "Row", before: "Row | None") -> None:
        if found.decision != self.rules.ALLOW and not callers.is_there(call, row["cwd"]):
            self.listener.go_on(call.id)  # a place on its PATH where there is none: it will fail by itself
            return
        if self._was_denied(call):
            self.listener.refuse(call.id, _EPERM)
            return
        row["decision"] = found.decision
        if found.rule:
            row["rule"] = found.rule
        if found.decision == self.rules.ALLOW:
            self._allow(call, row, before)
        elif found.decision == self.rules.ASK:
            self._ask(call, found, row)
        elif found.decision == self.rules.DENY:
            self._deny(call, found.message or f"the rule {found.rule} denies it", row)
            self.rows.add(row)
        else:
            self._keep(call, row)
            if found.decision == self.rules.TRANSACT and "checkpoint" in row:
                self._begin_transaction(call, row)
            self.listener.go_on(call.id)
            self.rows.add(row)

    def _keep(self, call: "Call", row: "Row") -> None:
        """Take a checkpoint before a command; one that fails is noted, and stops nothing."""
        from agent_dev.core.mask import masked  # from here on: only when a rule asks for it
        from agent_dev.errors import AgentDevError
        from agent_dev.host import checkpoints, store

        session = store.Session(self.watch.folder.rpartition("/")[2], self.watch.folder)
        try:
            words = " ".join(masked(call.argv))
            taken = checkpoints.take(session, store.read(session), words[:_LONGEST_CAUSE])
            row["checkpoint"] = taken.number
        except (AgentDevError, OSError) as error:
            row["problem"] = f"no checkpoint: {error}"
        row["held"] = self._held(row)

    def _was_denied(self, call: "Call") -> bool:
        """Whether this is a shell that tries the next place on its PATH, having been denied the one before."""
        pid, argv, when = self.last_denied
        return (pid, argv) == (call.pid, call.argv) and self.time.monotonic() - when < _AGAIN

    def _deny(self, call: "Call", why: str, row: "Row") -> None:
        self.denied += 1
        name = call.program.rpartition("/")[2]
        callers.tell(call.pid, f"agent-dev: {name} was not started: {why} You are in a sandbox of agent-dev's.\n")
        self.last_denied = (call.pid, call.argv, self.time.monotonic())
        self.listener.refuse(call.id, _EPERM)
        row["held"] = self._held(row)

    def _begin_transaction(self, call: "Call", row: "Row") -> None:
        if len(self.transactions) < _MANY_TRANSACTIONS:
            try:
                fd = os.pidfd_open(call.pid)
            except OSError:
                return  # a thread that is not its process's first: its end cannot be waited for
            self.transactions[fd] = row
            self.poll.register(fd, 0)  # hung up when it has ended and was waited for: then its exit code is known

    def _end_transaction(self, fd: int) -> None:
        """Roll back what a command changed that ended with another code than 0, and write down how it ended."""
        self.poll.unregister(fd)
        begun = self.transactions.pop(fd)
        row = {name: begun[name] for name in ("pid", "argv", "checkpoint")}
        code = kernel.exit_code(fd)
        os.close(fd)
        if code:
            try:
                row["problem"] = self.watch.roll_back(begun["checkpoint"])
                row["rolled_back"] = True
            except Exception as error:  # noqa: BLE001  (whatever it is: nothing would start any more without us)
                row["problem"] = f"not rolled back: {error}"
        self.rows.add({"time": self.time.time_ns(), "exit": code, **row})

    def _held(self, row: "Row") -> int:
        """Return for how many ms a command was held."""
        return int(self.time.time_ns() - row["time"]) // 1_000_000

    # questions

    def _ask(self, call: "Call", found: "Decision", row: "Row") -> None:
        from agent_dev.host import questions  # only when something is asked

        self.asked += 1
        number = self.asked
        until = self.time.monotonic() + self.watch.patience
        questions.put(self.watch.folder, number, {**row, "until": self.time.time() + self.watch.patience})
        self.questions[number] = _Question(call, {**row, "message": found.message}, until)
        name = call.program.rpartition("/")[2]
        callers.tell(
            call.pid, f"agent-dev: {name} waits for the user's answer (agent-dev approve), {self.watch.patience} s at most\n"
        )

    def _look_for_answers(self) -> None:
        from agent_dev.host import questions  # as above

        for number, one in [*self.questions.items()]:
            answer = questions.answer(self.watch.folder, number)
            is_late = answer is None and self.time.monotonic() >= one.until
            if answer is None and not is_late and self.listener.is_valid(one.call.id):
                continue
            del self.questions[number]
            questions.remove(self.watch.folder, number)
            row = {**one.row, "answer": "none" if answer is None else ("yes" if answer else "no")}
            message = row.pop("message")
            row["held"] = self._held(row)
            if answer:
                self.listener.go_on(one.call.id)
            else:
                why = "nobody answered in time." if is_late else "the user said no."
                self._deny(one.call, f"{why} {message}".strip(), row)
            self.rows.add(row)

    # the log

    def _tell_end(self) -> None:
        """Do as the launcher says, tell how far the log goes, and end."""
        is_kept = os.read(_CONTROL, 16).startswith(b"write")
        if is_kept:
            self.rows.write_all()
        digest = load.digest(self.policy) if is_kept else "-"  # of what decided, whatever the file says by now
        count, chain, dropped = self.rows.head()
        os.write(_TOLD, f"{count} {chain or '-'} {dropped} {self.denied} {digest}\n".encode())
        os._exit(0)
