"""Supervise each command that starts in the sandbox: decide by the policy, answer the call, write the log."""

import os
import select
import time

from agent_dev.config import decisions as config_words
from agent_dev.errors import InvalidConfiguration
from agent_dev.linux import pid_namespace, process, syscalls
from agent_dev.policy import command_rules
from agent_dev.policy import load as policy_load
from agent_dev.sandbox import landlock
from agent_dev.sandbox.joining import step as joining_step
from agent_dev.session.store import QUESTIONS
from agent_dev.supervisor import log_buffer, notify
from agent_dev.supervisor.directory_renames import RenameHandler
from agent_dev.supervisor.notify import Listener, LookupCall, RenameCall
from agent_dev.supervisor.protocol import CONTROL, READY, REPORT, SupervisorOptions, read_sandbox
from agent_dev.value import Value

_EPERM = 1
_SHELL = os.fsencode(joining_step.STEP[0])
_IDLE_WRITE, _ANSWER_INTERVAL = 100, 200  # ms of idle time before rows are written, ms between checks for answers
_RETRY_WINDOW = 1.0  # seconds
_MAX_AWAITED, _MAX_NAMES = 64, 4096  # processes whose end is awaited (each slows down every poll); cached names
_MAX_CAUSE = 200  # characters of the command line in a checkpoint's cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.session.alerts import Alerts
    from agent_dev.supervisor.findings import Findings
    from agent_dev.supervisor.log_buffer import Row
    from agent_dev.supervisor.notify import ExecCall, Notification


class _Question(Value):
    """A command that waits for the user's answer: the call, its row, and the deadline."""

    call: "ExecCall"
    row: "Row"
    until: float


class ExecService:
    """Answers calls until the sandbox has ended."""

    def __init__(self, watch: SupervisorOptions) -> None:
        self.options = watch
        self.init = 0
        self.renames: RenameHandler | None = None
        self.questions: dict[int, _Question] = {}
        self.awaited: dict[int, Row] = {}  # by pidfd: rows of commands whose end is awaited
        self.relay_pid = 0
        self.alerts: Alerts | None = None  # created for the first question
        self.denied = 0
        self.uninteresting: dict[bytes, bool] = {}  # by program name: whether no rule can match it
        self.last_denied: tuple[int, tuple[str, ...], float] = (0, (), 0.0)
        self.has_started = False
        self.findings: Findings | None = None  # only for `learn`
        self.entered: set[tuple[int, str]] = set()  # pid and start time of the user's commands that joined the sandbox

    def run(self) -> None:
        """Serve. Never returns."""
        self.rows = log_buffer.LogBuffer(f"{self.options.folder}/commands.jsonl")
        if os.path.isdir(f"{self.options.folder}/{QUESTIONS}"):
            from agent_dev.session import approvals  # only if something was asked before

            approvals.remove_all(self.options.folder)
        try:
            self.policy = policy_load.load_policy(self.options.policy, self.options.home, self.options.environ)
        except InvalidConfiguration as error:
            os.write(REPORT, error.message.encode())
            os._exit(1)
        if self.options.findings:
            from agent_dev.supervisor import findings  # only for `learn`

            self.findings = findings.Findings(self.options.findings)
        os.write(REPORT, READY)
        order = read_sandbox()
        if order.listener < 0:
            self._report_end()
        self.init = order.init_pid
        pidfd = os.pidfd_open(self.init)
        self.listener = Listener(syscalls.pidfd_getfd(pidfd, order.listener))
        os.close(pidfd)
        os.write(REPORT, READY)
        self.relay_pid = order.relay_pid
        self.poll = select.poll()
        self.poll.register(self.listener.fd, select.POLLIN)
        self.poll.register(CONTROL, select.POLLIN)
        self.renames = RenameHandler(self.listener, self.poll, order)
        while True:
            self._handle_events(self.poll.poll(self._pause()))

    def _pause(self) -> int | None:
        if self.questions:
            return _ANSWER_INTERVAL
        return _IDLE_WRITE if self.rows else None

    def _handle_events(self, ready: list[tuple[int, int]]) -> None:
        for fd, event in ready:
            if fd == CONTROL:
                self._report_end()
            elif fd in self.awaited:
                self._record_end(fd)
            elif self.renames and fd in self.renames.workers:
                self.renames.finish(fd)
            elif event & select.POLLIN:
                self._receive()
            else:
                self._report_end()  # the sandbox has ended
        if self.questions:
            self._check_answers()
        if not ready or len(self.rows) >= log_buffer.MAX_ROWS:
            self._write()

    def _receive(self) -> None:
        call = self.listener.receive()
        if isinstance(call, RenameCall):
            if self.renames:
                self.renames.handle(call)
        elif isinstance(call, LookupCall):
            if self.findings:
                self.findings.handle(call, self.listener)
        elif call is not None:
            self._handle_call(call)

    def _write(self) -> None:
        """Write rows, and await the end of commands that are still running; not earlier, since the command would wait for it."""
        for call in self.rows.last_allowed():
            self._await_end(call.row(), _MAX_AWAITED)
        self.rows.write()

    # calls

    def _handle_call(self, notification: "Notification") -> None:
        now = time.time_ns()
        previous = self.rows.previous_lookup(notification[1], now)
        if previous is not None and self._continue_lookup(notification, previous, now):
            return
        try:
            if self.findings and notification[1] != self.init and not self.has_started:
                self.findings.clear()  # what bubblewrap looked for
            if notification[1] == self.init or (not self.has_started and self._is_landlock_step(notification)):
                self.listener.allow(notification[0])
            else:
                self._answer(self._read(notification, now), previous)
        except OSError:
            if not self.listener.is_valid(notification[0]):
                return
            if self._is_entering(notification[1]):
                self.listener.allow(notification[0])
            else:
                self.listener.refuse(notification[0], _EPERM)  # its arguments are unreadable: refuse the call

    def _read(self, notification: "Notification", now: int) -> "ExecCall":
        call = self.listener.read_call(notification)
        if call.arguments.is_truncated and not self._is_uninteresting(call):
            call = self.listener.read_call(notification, is_complete=True)
        if self.findings:
            self.findings.add_path(call.path)
        call.time = call.last_time = now
        call.parent = process.parent_pid(call.pid)
        call.cwd = os.readlink(f"/proc/{call.pid}/cwd")
        return call

    def _answer(self, call: "ExecCall", previous: "ExecCall | None") -> None:
        if previous is not None and previous.argv != call.argv:
            previous = None
        if call.path == _SHELL and call.argv[: len(joining_step.STEP)] == joining_step.STEP and self._is_entering(call.pid):
            self.listener.allow(call.id)
            return
        if self._is_uninteresting(call):
            self._allow(call, previous)
        elif self.listener.is_valid(call.id):
            self._apply(call, self._decide(call), previous)

    def _continue_lookup(self, notification: "Notification", previous: "ExecCall", now: int) -> bool:
        """Return whether a call tries the same command in the next directory of PATH, and allow it if so.

        Most calls of a build do, and each waits for the answer, so this is optimized.
        """
        path = self.listener.read_repeated(notification, previous)
        if not path or not (self._is_name_uninteresting(path) and self._is_name_uninteresting(previous.arguments.first)):
            return False
        if self.listener.allow(notification[0]):
            previous.path, previous.last_time = path, now
        return True

    def _is_landlock_step(self, notification: "Notification") -> bool:
        """Return whether this is the first call, and our own step that applies Landlock rules before the agent."""
        self.has_started = True
        return landlock.SCRIPT in self.listener.read_call(notification).argv[:5]

    def _is_entering(self, pid: int) -> bool:
        """Return whether this is the first call of a command that joins the sandbox: our own step, which is hidden.

        Its parent was forked by the setup process, outside the sandbox's pid namespace, which no process inside can be.
        """
        one = (pid, pid_namespace.start_time_of(pid))
        try:
            is_ours = process.parent_pid(process.parent_pid(pid)) == process.parent_pid(self.init)
        except OSError:
            return False
        if not is_ours or one in self.entered:
            return False
        self.entered.add(one)
        return True

    def _is_uninteresting(self, call: "ExecCall") -> bool:
        """Return whether no rule can match a call, judged by its path and its argv[0]."""
        return self._is_name_uninteresting(call.path) and self._is_name_uninteresting(call.arguments.first)

    def _is_name_uninteresting(self, name: bytes) -> bool:
        result = self.uninteresting.get(name)
        if result is None:
            result = not self.policy.may_apply_to(os.fsdecode(name))
            if len(self.uninteresting) < _MAX_NAMES:  # bounded, since the names come from the agent
                self.uninteresting[name] = result
        return result

    def _decide(self, call: "ExecCall") -> command_rules.CommandDecision:
        return command_rules.decide(self.policy, command_rules.Command(call.program, call.argv, call.cwd, self.options.home))

    def _allow(self, call: "ExecCall", previous: "ExecCall | None") -> None:
        if previous is None:
            self.rows.open_pidfd(call)
        if self.listener.allow(call.id):
            self.rows.add_allowed(call, previous)
        else:
            self.rows.close_pidfd(call)

    def _apply(self, call: "ExecCall", decision: command_rules.CommandDecision, previous: "ExecCall | None") -> None:
        if decision.decision != config_words.ALLOW and not notify.exists_inside(call, call.cwd):
            self.listener.allow(call.id)  # does not exist in this directory of PATH: fails by itself
            return
        if self._was_denied(call):
            self.listener.refuse(call.id, _EPERM)
            return
        call.rule = decision.rule
        if decision.decision == config_words.ALLOW:
            self._allow(call, previous)
            return
        row = {**call.row(), "decision": decision.decision, "rule": decision.rule}
        if decision.decision == config_words.ASK:
            self._ask(call, decision, row)
        elif decision.decision == config_words.DENY:
            self._deny(call, decision.message or f"denied by the rule {decision.rule}.", row)
            self.rows.add(row)
        else:
            self._take_checkpoint(call, row)
            self._await_end(row, 4 * _MAX_AWAITED)
            self.listener.allow(call.id)
            self.rows.add(row)

    def _take_checkpoint(self, call: "ExecCall", row: "Row") -> None:
        """Take a checkpoint before a command; a failure is logged and stops nothing."""
        from agent_dev.checkpoint import checkpoint_store
        from agent_dev.errors import AgentDevError
        from agent_dev.redact import mask_secrets  # only for a rule with a checkpoint
        from agent_dev.session import store

        session = store.Session(self.options.folder.rpartition("/")[2], self.options.folder)
        try:
            command = " ".join(mask_secrets(call.argv))
            # Processes are not stopped: the caller is blocked in its call; before Linux 5.19 it would restart the call forever.
            checkpoint = checkpoint_store.take_checkpoint(session, store.read_record(session), command[:_MAX_CAUSE], stop=False)
            row["checkpoint"] = checkpoint.number
        except (AgentDevError, OSError) as error:
            row["problem"] = f"no checkpoint was taken: {error}"
        row["waited"] = self._hold_time(row)

    def _was_denied(self, call: "ExecCall") -> bool:
        """Return whether a shell tries the next directory of PATH after a denial."""
        pid, argv, denied_at = self.last_denied
        return (pid, argv) == (call.pid, call.argv) and time.monotonic() - denied_at < _RETRY_WINDOW

    def _deny(self, call: "ExecCall", reason: str, row: "Row") -> None:
        self.denied += 1
        if self.findings:
            self.findings.add_denied(call.argv)
        name = call.program.rpartition("/")[2]
        process.write_to_stderr(call.pid, f"agent-dev: {name} was not started: {reason} You are in an agent-dev sandbox.\n")
        self.last_denied = (call.pid, call.argv, time.monotonic())
        self.listener.refuse(call.id, _EPERM)
        row["waited"] = self._hold_time(row)

    def _await_end(self, row: "Row", limit: int) -> None:
        """Await the end of a command, unless too many are already awaited."""
        for fd, other in self.awaited.items():
            if other["pid"] == row["pid"]:  # it called execve again; a row with a rollback stays
                if other.get("decision") != config_words.TRANSACT:
                    self.awaited[fd] = row
                return
        if len(self.awaited) >= limit:
            return
        try:
            fd = os.pidfd_open(row["pid"])
        except OSError:
            return  # it has ended, or is not a thread-group leader
        self.awaited[fd] = row
        self.poll.register(fd, 0)  # POLLHUP is set once the process was reaped, and its exit code known

    def _record_end(self, fd: int, *, is_over: bool = False) -> None:
        """Log how a command ended; roll back its changes if the policy says so and it failed.

        `is_over`: the sandbox has ended, so nothing can be rolled back through it.
        """
        self.poll.unregister(fd)
        started = self.awaited.pop(fd)
        code = syscalls.pidfd_exit_code(fd)
        os.close(fd)
        now = time.time_ns()
        row = {
            "time": now,
            "pid": started["pid"],
            "argv": started["argv"],
            "exit": code,
            "duration": (now - started["time"]) // 1_000_000,
        }
        if started.get("decision") == config_words.TRANSACT and "checkpoint" in started:
            row["checkpoint"] = started["checkpoint"]
            if code and is_over:
                row["problem"] = "not rolled back: the session had ended"
            elif code:
                row |= self._roll_back(started["checkpoint"])
        self.rows.add(row)

    def _roll_back(self, number: int) -> "Row":
        try:
            return {"problem": self.options.roll_back(number), "rolled_back": True}
        except Exception as error:  # noqa: BLE001  (whatever it is: without the supervisor nothing starts)
            return {"problem": f"not rolled back: {error}"}

    def _hold_time(self, row: "Row") -> int:
        """Return for how many ms a command had to wait."""
        return int(time.time_ns() - row["time"]) // 1_000_000

    # questions

    def _ask(self, call: "ExecCall", decision: command_rules.CommandDecision, row: "Row") -> None:
        from agent_dev.session import approvals  # only if a rule asks

        deadline = time.monotonic() + self.options.answer_seconds
        number = approvals.add_question(
            self.options.folder, {**row, "until": time.time_ns() + self.options.answer_seconds * 10**9}
        )
        self.questions[number] = _Question(call, {**row, "message": decision.message}, deadline)
        self._alert(call.argv)
        name = call.program.rpartition("/")[2]
        process.write_to_stderr(
            call.pid,
            f"agent-dev: {name} waits for the user's approval (agent-dev approve), at most {self.options.answer_seconds} s\n",
        )

    def _alert(self, argv: tuple[str, ...]) -> None:
        from agent_dev.notification import NotificationSettings  # only if a rule asks
        from agent_dev.session.alerts import Alerts

        if self.alerts is None:
            options = self.options
            settings = NotificationSettings(options.alerts, options.alert_command, options.environ, options.untrusted)
            self.alerts = Alerts(settings, self.relay_pid)
        self.alerts.alert_command(argv)

    def _check_answers(self) -> None:
        from agent_dev.session import approvals  # only if a rule asks

        for number, question in [*self.questions.items()]:
            answer = approvals.read_answer(self.options.folder, number)
            has_expired = not answer and time.monotonic() >= question.until
            if not answer and not has_expired and self.listener.is_valid(question.call.id):
                continue
            del self.questions[number]
            approvals.remove_question(self.options.folder, number)
            row = {**question.row, "answer": answer or "none"}
            message = row.pop("message")
            row["waited"] = self._hold_time(row)
            if answer == approvals.YES:
                self._await_end(row, 4 * _MAX_AWAITED)
                self.listener.allow(question.call.id)
            elif answer or has_expired:  # otherwise the caller is gone
                reason = "no answer in time." if has_expired else "denied by the user."
                self._deny(question.call, f"{reason} {message}".strip(), row)
            self.rows.add(row)

    # the log

    def _report_end(self) -> None:
        """Read the launcher's last command, report how far the log goes, and exit."""
        is_kept = os.read(CONTROL, 16).startswith(b"write")
        if self.renames:
            self.renames.end()
        if self.findings:
            self.findings.write()
        if is_kept:
            for fd in [*self.awaited]:
                self._record_end(fd, is_over=True)
            self.rows.write_all()
        digest = (
            policy_load.digest_policy(self.policy) if is_kept else "-"
        )  # of the rules that were used, even if the file has changed
        count, chain, dropped = self.rows.head()
        os.write(REPORT, f"{count} {chain or '-'} {dropped} {self.denied} {digest}\n".encode())
        os._exit(0)
