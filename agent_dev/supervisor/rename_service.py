"""The supervisor of a sandbox without a command policy, which handles only renames."""

import os
import select

from agent_dev.linux import syscalls
from agent_dev.supervisor.directory_renames import RenameHandler
from agent_dev.supervisor.notify import Listener, RenameCall
from agent_dev.supervisor.protocol import CONTROL, READY, REPORT, read_sandbox

_NO_LOG = b"0 - 0 0 -\n"  # rows, chain, dropped, denied, digest


class RenameService:
    """Answers renames until the sandbox has ended."""

    def run(self) -> None:
        """Serve. Never returns."""
        os.write(REPORT, READY)
        sandbox = read_sandbox()
        if sandbox.listener < 0:
            _end(None)
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
                    _end(renames)  # the sandbox has ended
                else:
                    call = listener.receive()
                    if isinstance(call, RenameCall):
                        renames.handle(call)


def _end(renames: RenameHandler | None) -> None:
    """Wait for the launcher's last command, report an empty log, and exit."""
    os.read(CONTROL, 16)
    if renames:
        renames.end()
    os.write(REPORT, _NO_LOG)
    os._exit(0)
