"""Run a command inside the sandbox, with a time limit and resource limits, and kill the processes that it leaves behind.

A part of one script, before `tx_options.py` and `tx.py`; nothing of agent-dev is available inside.
"""

import errno
import os
import signal

_FAILED_TO_EXEC, _COMMAND_NOT_FOUND = 126, 127
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_LEFT_TO_COMMAND = (signal.SIGINT, signal.SIGQUIT)  # the command handles them
_FORWARDED = (signal.SIGTERM, signal.SIGHUP)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # inherited by children
_RESOURCES = {"memory": "RLIMIT_DATA", "file-size": "RLIMIT_FSIZE", "open-files": "RLIMIT_NOFILE"}
received_signals: "list[int]" = []  # received termination signals; forwarded to the command


def print_message(text: str) -> None:
    """Write a line to stderr; a failure is ignored."""
    try:
        os.write(2, f"agent-dev: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return


def open_missing_streams() -> None:
    """Open /dev/null for each closed standard stream; the command gets it closed again.

    Otherwise the control socket could become a standard stream, and a message would be taken for a request.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number


class TimedOut(Exception):
    """The time limit was reached."""


def raise_timeout(_number: int, _frame: object) -> None:
    """Raise TimedOut, to interrupt a wait."""
    raise TimedOut


def become_subreaper() -> None:
    """Become a subreaper, so that processes the command leaves behind can be killed."""
    import ctypes  # only with --timeout

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def kill_all() -> None:
    """Kill all children, and the orphans that become our children, until none is left."""
    while True:
        for pid in child_pids():
            os.kill(pid, signal.SIGKILL)  # an unreaped child keeps its pid
        try:
            os.wait()
        except ChildProcessError:
            return


def child_pids() -> "list[int]":
    """Return the child processes."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb", 0) as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue  # gone
        if parent == os.getpid():
            pids.append(int(name))
    return pids


def run(command: "list[str]", limits: "dict[str, int]") -> int:
    """Run a command; return its exit code, 128 + n for a signal. `limits`: bytes, or a number, per process."""
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)  # until there is a child to forward them to
    pid = os.fork()
    if pid == 0:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            set_limits(limits)
            exec_command(command)
        finally:
            os._exit(_FAILED_TO_EXEC)

    def forward(number: int, _frame: object) -> None:
        received_signals.append(number)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return  # just ended

    for number in _FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    _, status = os.waitpid(pid, 0)
    for number in _FORWARDED:  # it has ended: only record them
        signal.signal(number, lambda number, _frame: received_signals.append(number))
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def set_limits(limits: "dict[str, int]") -> None:
    """Set resource limits for this process and its children; a stricter hard limit stays."""
    if limits:
        import resource  # only with --limit
    for name, value in limits.items():
        resource_number = getattr(resource, _RESOURCES[name])
        hard = resource.getrlimit(resource_number)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(resource_number, (limit, limit))


def exec_command(command: "list[str]") -> None:
    """Exec the command; exits if it cannot be executed."""
    for number in (*_LEFT_TO_COMMAND, *_IGNORED_BY_PYTHON):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        print_message(f"{command[0]}: not found")
        os._exit(_COMMAND_NOT_FOUND)
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            os.execv("/bin/sh", ["/bin/sh", find_program(command[0]), *command[1:]])  # as execvp(3) and shells do
        print_message(f"{command[0]}: {error.strerror}")


def find_program(name: str) -> str:
    """Return the path of a program; its name if it is not found."""
    paths = [name] if "/" in name else [f"{folder or '.'}/{name}" for folder in os.get_exec_path()]
    return next((path for path in paths if os.access(path, os.X_OK) and os.path.isfile(path)), name)
