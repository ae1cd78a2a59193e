"""Each command that starts inside: heard of, decided by the policy, answered, and written to the log."""

import os
import select
import time

from agent_dev.config import load
from agent_dev.errors import BadConfiguration
from agent_dev.linux import process as callers
from agent_dev.linux import syscalls as kernel
from agent_dev.policy import command_rules as policy
from agent_dev.policy.watcher import CONTROL, READY, TOLD, Watch
from agent_dev.sandbox import landlock as wall
from agent_dev.supervisor import log_buffer as rows
from agent_dev.supervisor.notify import Listener
from agent_dev.value import Value

_EPERM = 1
_IDLE, _LOOK = 100, 200  # ms until rows are written, ms between looks at answers
_AGAIN = 1.0  # seconds
_MANY_ENDS, _MANY_NAMES = 64, 4096  # whose ends are waited for: each makes every wait a little longer
_LONGEST_CAUSE = 200  # characters of a command line that a checkpoint is called by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.supervisor.log_buffer import Row
    from agent_dev.supervisor.notify import Call, Told


class _Question(Value):
    """A command that waits for the user: the call, its row, and until when."""

    call: "Call"
    row: "Row"
    until: float


class Service:
    """Answers calls until the sandbox is over."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.init = 0
        self.questions: dict[int, _Question] = {}
        self.ends: dict[int, Row] = {}  # by pidfd: the rows of commands whose end is to be written down
        self.asked = self.denied = 0
        self.dull: dict[bytes, bool] = {}  # names, and whether no rule can be about what is called so
        self.last_denied: tuple[int, tuple[str, ...], float] = (0, (), 0.0)
        self.has_begun = False

    def run(self) -> None:
        """Serve. Never returns."""
        self.rows = rows.Rows(f"{self.watch.folder}/commands.jsonl")
        try:
            self.policy = load.policy(self.watch.policy, self.watch.home, self.watch.environ)
        except BadConfiguration as error:
            os.write(TOLD, error.message.encode())
            os._exit(1)
        os.write(TOLD, READY)
        words = os.read(CONTROL, 256).split()
        if len(words) < 2 or int(words[1]) < 0:
            self._tell_end()
        self.init = int(words[0])
        pidfd = os.pidfd_open(self.init)
        self.listener = Listener(kernel.borrow(pidfd, int(words[1])))
        os.close(pidfd)
        os.write(TOLD, READY)
        self.poll = select.poll()
        self.poll.register(self.listener.fd, select.POLLIN)
        self.poll.register(CONTROL, select.POLLIN)
        while True:
            self._turn(self.poll.poll(self._pause()))

    def _pause(self) -> int | None:
        if self.questions:
            return _LOOK
        return _IDLE if self.rows else None

    def _turn(self, ready: list[tuple[int, int]]) -> None:
        for fd, event in ready:
            if fd == CONTROL:
                self._tell_end()
            elif fd in self.ends:
                self._end(fd)
            elif event & select.POLLIN:
                told = self.listener.receive()
                if told is not None:
                    self._hear(told)
            else:
                self._tell_end()  # no process of the sandbox is left
        if self.questions:
            self._look_for_answers()
        if not ready or len(self.rows) >= rows.MOST:
            self._write()

    def _write(self) -> None:
        """Write rows; of what runs still, the end is waited for: not before, since the command would wait for that."""
        for call in self.rows.allowed_last():
            self._watch_end(call.row(), _MANY_ENDS)
        self.rows.write()

    # a call

    def _hear(self, told: "Told") -> None:
        now = time.time_ns()
        before = self.rows.before(told[1], now)
        if before is not None and self._looks_on(told, before, now):
            return
        try:
            if told[1] == self.init or (not self.has_begun and self._is_our_step(told)):
                self.listener.go_on(told[0])
            else:
                self._answer(self._read(told, now), before)
        except OSError:
            if self.listener.is_valid(told[0]):
                self.listener.refuse(told[0], _EPERM)  # it cannot be read: closed

    def _read(self, told: "Told", now: int) -> "Call":
        call = self.listener.call(told)
        if call.words.is_cut and not self._is_dull(call):
            call = self.listener.call(told, all_of_it=True)
        call.time = call.last = now
        call.parent = callers.parent(call.pid)
        call.cwd = os.readlink(f"/proc/{call.pid}/cwd")
        return call

    def _answer(self, call: "Call", before: "Call | None") -> None:
        if before is not None and before.argv != call.argv:
            before = None
        if self._is_dull(call):
            self._allow(call, before)
        elif self.listener.is_valid(call.id):
            self._do(call, self._decide(call), before)

    def _looks_on(self, told: "Told", before: "Call", now: int) -> bool:
        """Let go on who looks for the same at the next place on its PATH; return whether it was that.

        Most calls of a build are such, and each waits: as few steps as can be.
        """
        path = self.listener.again(told, before)
        if not path or not (self._is_name_dull(path) and self._is_name_dull(before.words.first)):
            return False
        if self.listener.go_on(told[0]):
            before.path, before.last = path, now
        return True

    def _is_our_step(self, told: "Told") -> bool:
        """Whether a call is the first, and the step of ours that puts Landlock on before the agent."""
        self.has_begun = True
        return wall.SCRIPT in self.listener.call(told).argv[:5]

    def _is_dull(self, call: "Call") -> bool:
        """Whether no rule can be about a call, by its path and by what it calls itself."""
        return self._is_name_dull(call.path) and self._is_name_dull(call.words.first)

    def _is_name_dull(self, name: bytes) -> bool:
        known = self.dull.get(name)
        if known is None:
            known = not self.policy.is_of_interest(os.fsdecode(name))
            if len(self.dull) < _MANY_NAMES:  # they are the agent's: not as many as it likes
                self.dull[name] = known
        return known

    def _decide(self, call: "Call") -> policy.Decision:
        return policy.decide(self.policy, policy.Command(call.program, call.argv, call.cwd, self.watch.home))

    def _allow(self, call: "Call", before: "Call | None") -> None:
        if self.listener.go_on(call.id):
            self.rows.allowed(call, before)

    def _do(self, call: "Call", found: policy.Decision, before: "Call | None") -> None:
        if found.decision != policy.ALLOW and not callers.is_there(call, call.cwd):
            self.listener.go_on(call.id)  # a place on its PATH where there is none: it will fail by itself
            return
        if self._was_denied(call):
            self.listener.refuse(call.id, _EPERM)
            return
        call.rule = found.rule
        if found.decision == policy.ALLOW:
            self._allow(call, before)
            return
        row = {**call.row(), "decision": found.decision, "rule": found.rule}
        if found.decision == policy.ASK:
            self._ask(call, found, row)
        elif found.decision == policy.DENY:
            self._deny(call, found.message or f"the rule {found.rule} denies it", row)
            self.rows.add(row)
        else:
            self._keep(call, row)
            self._watch_end(row, 4 * _MANY_ENDS)
            self.listener.go_on(call.id)
            self.rows.add(row)

    def _keep(self, call: "Call", row: "Row") -> None:
        """Take a checkpoint before a command; one that fails is noted, and stops nothing."""
        from agent_dev.checkpoint import checkpoint_store as checkpoints
        from agent_dev.errors import AgentDevError
        from agent_dev.redact import masked  # from here on: only when a rule asks for it
        from agent_dev.session import store

        session = store.Session(self.watch.folder.rpartition("/")[2], self.watch.folder)
        try:
            words = " ".join(masked(call.argv))
            # Not stopped: who calls waits for us and cannot stand still; before Linux 5.19 it would call anew, without an end.
            taken = checkpoints.take(session, store.read(session), words[:_LONGEST_CAUSE], stop=False)
            row["checkpoint"] = taken.number
        except (AgentDevError, OSError) as error:
            row["problem"] = f"no checkpoint: {error}"
        row["held"] = self._held(row)

    def _was_denied(self, call: "Call") -> bool:
        """Whether this is a shell that tries the next place on its PATH, having been denied the one before."""
        pid, argv, when = self.last_denied
        return (pid, argv) == (call.pid, call.argv) and time.monotonic() - when < _AGAIN

    def _deny(self, call: "Call", why: str, row: "Row") -> None:
        self.denied += 1
        name = call.program.rpartition("/")[2]
        callers.tell(call.pid, f"agent-dev: {name} was not started: {why} You are in a sandbox of agent-dev's.\n")
        self.last_denied = (call.pid, call.argv, time.monotonic())
        self.listener.refuse(call.id, _EPERM)
        row["held"] = self._held(row)

    def _watch_end(self, row: "Row", most: int) -> None:
        """Wait for the end of a command beside all else, where there are not too many."""
        for fd, other in self.ends.items():
            if other["pid"] == row["pid"]:  # it became another program; what it is rolled back by stays
                if other.get("decision") != policy.TRANSACT:
                    self.ends[fd] = row
                return
        if len(self.ends) >= most:
            return
        try:
            fd = os.pidfd_open(row["pid"])
        except OSError:
            return  # it has ended; or it is a thread that is not its process's first
        self.ends[fd] = row
        self.poll.register(fd, 0)  # hung up when it has ended and was waited for: then its exit code is known

    def _end(self, fd: int, *, is_over: bool = False) -> None:
        """Write down how a command ended; roll back what it changed, where the policy says so and it failed.

        `is_over`: the sandbox is, and nothing can be rolled back through it.
        """
        self.poll.unregister(fd)
        begun = self.ends.pop(fd)
        code = kernel.exit_code(fd)
        os.close(fd)
        now = time.time_ns()
        row = {
            "time": now,
            "pid": begun["pid"],
            "argv": begun["argv"],
            "exit": code,
            "duration": (now - begun["time"]) // 1_000_000,
        }
        if begun.get("decision") == policy.TRANSACT and "checkpoint" in begun:
            row["checkpoint"] = begun["checkpoint"]
            if code and is_over:
                row["problem"] = "not rolled back: the session ended with it"
            elif code:
                row |= self._rolled_back(begun["checkpoint"])
        self.rows.add(row)

    def _rolled_back(self, number: int) -> "Row":
        try:
            return {"problem": self.watch.roll_back(number), "rolled_back": True}
        except Exception as error:  # noqa: BLE001  (whatever it is: nothing would start any more without us)
            return {"problem": f"not rolled back: {error}"}

    def _held(self, row: "Row") -> int:
        """Return for how many ms a command was held."""
        return int(time.time_ns() - row["time"]) // 1_000_000

    # questions

    def _ask(self, call: "Call", found: policy.Decision, row: "Row") -> None:
        from agent_dev.session import approvals as questions  # only when something is asked

        self.asked += 1
        number = self.asked
        until = time.monotonic() + self.watch.patience
        questions.put(self.watch.folder, number, {**row, "until": time.time_ns() + self.watch.patience * 10**9})
        self.questions[number] = _Question(call, {**row, "message": found.message}, until)
        name = call.program.rpartition("/")[2]
        callers.tell(
            call.pid, f"agent-dev: {name} waits for the user's answer (agent-dev approve), {self.watch.patience} s at most\n"
        )

    def _look_for_answers(self) -> None:
        from agent_dev.session import approvals as questions  # as above

        for number, one in [*self.questions.items()]:
            answer = questions.answer(self.watch.folder, number)
            is_late = answer is None and time.monotonic() >= one.until
            if answer is None and not is_late and self.listener.is_valid(one.call.id):
                continue
            del self.questions[number]
            questions.remove(self.watch.folder, number)
            row = {**one.row, "answer": "none" if answer is None else ("yes" if answer else "no")}
            message = row.pop("message")
            row["held"] = self._held(row)
            if answer:
                self._watch_end(row, 4 * _MANY_ENDS)
                self.listener.go_on(one.call.id)
            elif answer is not None or is_late:  # else the caller is gone
                why = "nobody answered in time." if is_late else "the user said no."
                self._deny(one.call, f"{why} {message}".strip(), row)
            self.rows.add(row)

    # the log

    def _tell_end(self) -> None:
        """Do as the launcher says, tell how far the log goes, and end."""
        is_kept = os.read(CONTROL, 16).startswith(b"write")
        if is_kept:
            for fd in [*self.ends]:
                self._end(fd, is_over=True)
            self.rows.write_all()
        digest = load.digest(self.policy) if is_kept else "-"  # of what decided, whatever the file says by now
        count, chain, dropped = self.rows.head()
        os.write(TOLD, f"{count} {chain or '-'} {dropped} {self.denied} {digest}\n".encode())
        os._exit(0)
