"""The supervisor of a sandbox without a command policy: it handles renames and, for `learn`, path lookups."""

import os
import select

from agent_dev.linux import syscalls
from agent_dev.supervisor.directory_renames import RenameHandler
from agent_dev.supervisor.notify import Listener, LookupCall, RenameCall
from agent_dev.supervisor.protocol import CONTROL, READY, REPORT, read_sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.supervisor.findings import Findings

_NO_LOG = b"0 - 0 0 -\n"  # rows, chain, dropped, denied, digest


class RenameService:
    """Answers calls until the sandbox has ended. `findings`: a file for the paths that it looked up; "": none."""

    def __init__(self, findings: str = "") -> None:
        self._findings: Findings | None = None
        if findings:
            from agent_dev.supervisor import findings as observed  # only for `learn`

            self._findings = observed.Findings(findings)

    def run(self) -> None:
        """Serve. Never returns."""
        os.write(REPORT, READY)
        sandbox = read_sandbox()
        if sandbox.listener < 0:
            self._end(None)
        pidfd = os.pidfd_open(sandbox.init_pid)
        listener = Listener(syscalls.pidfd_getfd(pidfd, sandbox.listener))
        os.close(pidfd)
        os.write(REPORT, READY)
        poll = select.poll()
        poll.register(listener.fd, select.POLLIN)
        poll.register(CONTROL, select.POLLIN)
        renames = RenameHandler(listener, poll, sandbox)
        while True:
            for fd, event in poll.poll():
                if fd in renames.workers:
                    renames.finish(fd)
                elif fd == CONTROL or not event & select.POLLIN:
                    self._end(renames)  # the sandbox has ended
                else:
                    call = listener.receive()
                    if isinstance(call, RenameCall):
                        renames.handle(call)
                    elif isinstance(call, LookupCall) and self._findings:
                        self._findings.handle(call, listener)

    def _end(self, renames: RenameHandler | None) -> None:
        """Wait for the launcher's last command, report an empty log, and exit."""
        os.read(CONTROL, 16)
        if renames:
            renames.end()
        if self._findings:
            self._findings.write()
        os.write(REPORT, _NO_LOG)
        os._exit(0)
