"""The launcher's handle on the supervisor: start it, attach it to a sandbox, end it.

The supervisor is a separate process, forked before the sandbox is built. With a command policy it decides on every execve: no
command starts while it does not answer, or after it has died. It keeps none of the launcher's descriptors.
"""

import gc
import marshal
import os

from agent_dev import import_cache
from agent_dev.errors import CannotStart, InvalidConfiguration
from agent_dev.linux import process, signals, streams
from agent_dev.sandbox.supervisor_interface import CommandLogSummary
from agent_dev.supervisor.protocol import CONTROL, OFF, READY, REPORT, SupervisorOptions

_DIED = "the command supervisor died; no further command can start"


class Supervisor:
    """The launcher's handle on the supervisor. Attach it to a sandbox, then finish or kill it."""

    def __init__(self, options: SupervisorOptions) -> None:
        control, self._control = os.pipe()
        self._report, report = os.pipe()
        self.is_attached = False
        self.has_policy, self.has_renames = options.policy != OFF, options.has_renames
        self.has_lookups = bool(options.findings)
        self.overlays: tuple[tuple[str, str], ...] = ()  # path inside, upper: set when the sandbox is planned
        launcher = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                gc.disable()  # no reference cycles here, and each collection would delay a command
                _detach(launcher, control, report)
                _serve(options)  # imports happen while the sandbox is built
            finally:
                os._exit(1)
        os.close(control)
        os.close(report)

    def attach(self, pid: int, listener: int, relay: int = 0) -> None:
        """Send it the listener to use; negative: nothing to supervise. Raises InvalidConfiguration, CannotStart."""
        message = os.read(self._report, 1 << 16)
        if message != READY:
            raise InvalidConfiguration(message=message.decode()) if message else CannotStart(message=_DIED)
        self.is_attached = listener >= 0
        sandbox = marshal.dumps((pid, listener, self.overlays, relay))
        streams.write_all(self._control, b"%d\n%b" % (len(sandbox), sandbox))
        if self.is_attached and os.read(self._report, 1) != READY:
            raise CannotStart(message=_DIED)

    def raise_if_dead(self) -> None:
        """Raise CannotStart when the supervisor has died."""
        if self.pid and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise CannotStart(message=_DIED)

    def finish(self, *, is_kept: bool) -> CommandLogSummary:
        """Finish the log, unless the session is not kept, and return its summary."""
        if not self.pid:
            return CommandLogSummary()
        count, chain, dropped, denied, digest = self._end_and_read(is_kept=is_kept).decode().split() or ("0", "-", "0", "0", "-")
        return CommandLogSummary(int(count), chain.strip("-"), int(dropped), int(denied), digest.strip("-"))

    def has_denied(self) -> bool:
        """Return whether the command to start was denied; the log is dropped. Raises CannotStart when it has died."""
        if not self.pid or not self.is_attached:
            return False
        report = self._end_and_read(is_kept=False)
        if not report:
            raise CannotStart(message=_DIED)
        return report.split()[3] != b"0"

    def _end_and_read(self, *, is_kept: bool) -> bytes:
        """End the supervisor and return its report on the log; empty if it had died."""
        try:
            os.write(self._control, b"write\n" if is_kept else b"leave\n")
        except BrokenPipeError:
            pass  # the supervisor died, and no command could start since then
        report = b""
        while not report.endswith(b"\n") and (chunk := os.read(self._report, 4096)):
            report += chunk
        self.pid = 0  # not waited for: it exits by itself and holds no resources
        return report

    def kill(self) -> None:
        """Kill the supervisor; the log is dropped."""
        if self.pid:
            os.kill(self.pid, signals.KILL)
            self._close()

    def _close(self) -> None:
        os.waitpid(self.pid, 0)
        self.pid = 0
        os.close(self._control)
        os.close(self._report)


def _serve(options: SupervisorOptions) -> None:
    if options.policy == OFF:
        from agent_dev.supervisor.rename_service import RenameService  # without a policy, exec_service is not loaded

        RenameService(options.findings).run()
    import_cache.import_supervisor()
    from agent_dev.supervisor.exec_service import ExecService

    ExecService(options).run()


def _detach(launcher: int, control: int, report: int) -> None:
    """Detach from the launcher's terminal and descriptors: locks, pipes, standard streams."""
    process.leave_launcher(launcher)
    signals.ignore(signals.PIPE)
    fds = (os.dup(control), os.dup(report), os.open(os.devnull, os.O_RDWR))
    first_free = max(fds) + 1
    copies = [os.dup2(fd, first_free + number, inheritable=False) for number, fd in enumerate(fds)]
    os.dup2(copies[0], CONTROL, inheritable=False)
    os.dup2(copies[1], REPORT, inheritable=False)
    for standard in range(3):
        os.dup2(copies[2], standard)
    os.closerange(5, 4096)
