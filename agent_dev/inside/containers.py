"""Serve podman's Docker API on demand, and execute the command. The second part of a script, after `exec_command.py`.

Arguments: the API's socket, podman, then `--` and the command. podman runs only while
programs use the API; the process that waits for them ends with the sandbox.
"""

import os
import select
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # defined above in the combined script
    from agent_dev.inside.exec_command import exec_command  # noqa: TC004

_IDLE = 60  # seconds after which podman ends if nobody uses the API
_BACKLOG = 64
_LISTEN_FD = 3  # the first descriptor of socket activation, sd_listen_fds(3)
_NETWORK = b"""\
{"cniVersion": "0.4.0", "name": "podman", "plugins": [{"type": "bridge", "bridge": "cni-podman0", "isGateway": true,
 "ipMasq": false, "hairpinMode": true, "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}],
 "ranges": [[{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}]]}}]}
"""


def main() -> None:
    """Start the process that serves the API, and execute the command. Never returns."""
    path, podman, _, *command = sys.argv[1:]
    try:
        _prepare(path)
        _start_server(path, podman)
    except OSError as error:
        sys.stderr.write(f"agent-dev: no Docker API in the sandbox: {error.strerror}\n")
    exec_command(command)


def _prepare(path: str) -> None:
    """Create the directories that podman expects, and the description of its default network."""
    runtime = os.path.dirname(os.path.dirname(path))
    os.makedirs(os.path.dirname(runtime), 0o755, exist_ok=True)
    for folder in (runtime, os.path.dirname(path), f"{runtime}/networks"):
        os.makedirs(folder, 0o700, exist_ok=True)
    with open(f"{runtime}/networks/87-podman.conflist", "wb") as file:  # podman's own would need a packet filter
        file.write(_NETWORK)


def _start_server(path: str, podman: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(_BACKLOG)
    first = os.fork()
    if first:
        listener.close()
        os.waitpid(first, 0)
        return
    try:
        os.setsid()  # no terminal, and no job of the agent's
        if os.fork() == 0:
            _detach()
            while True:
                select.select([listener], [], [])
                _serve(listener, podman)
    finally:
        os._exit(0)


def _detach() -> None:
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)


def _serve(listener: socket.socket, podman: str) -> None:
    """Run podman until it is idle. If it fails, close the connection that waits, so that its client learns of it."""
    pid = os.fork()
    if pid == 0:
        try:
            if listener.fileno() != _LISTEN_FD:
                os.dup2(listener.fileno(), _LISTEN_FD)
            os.set_inheritable(_LISTEN_FD, True)
            variables = {**os.environ, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
            os.execve(podman, [podman, "system", "service", "--time", str(_IDLE)], variables)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if status and select.select([listener], [], [], 0)[0]:
        listener.accept()[0].close()


if __name__ == "__main__":
    main()
