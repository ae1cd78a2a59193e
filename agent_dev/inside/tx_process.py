"""Inside the sandbox: run a command within its time and its limits, and end all that it started.

The first part of the script of which `door_inside.py` is the last: nothing of agent-dev is there.
"""

import errno
import os
import signal

_FAILED_TO_EXEC, _NOT_THERE = 126, 127
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_DYING = (signal.SIGINT, signal.SIGQUIT)  # the command decides what they mean
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and what it starts would
_RESOURCES = {"memory": "RLIMIT_DATA", "file-size": "RLIMIT_FSIZE", "open-files": "RLIMIT_NOFILE"}
asked: "list[int]" = []  # the signals that asked us to end; the command got them


def say(text: str) -> None:
    """Write a line to stderr; where nobody can be told, all goes on."""
    try:
        os.write(2, f"agent-dev: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return


def have_streams() -> None:
    """Let those of stdin, stdout and stderr that are closed be nothing, and closed again for the command.

    What is opened next would be one of them: the door, at which a message would be taken for a word.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free


class Late(Exception):
    """The time is over."""


def late(_number: int, _frame: object) -> None:
    """End what is waited for."""
    raise Late


def adopt() -> None:
    """Become the parent of whatever the command leaves behind, so that all of it can be ended."""
    import ctypes  # with --timeout alone

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def end_all() -> None:
    """Kill what was started, and what that leaves us, until nothing is left."""
    while True:
        for pid in children():
            os.kill(pid, signal.SIGKILL)  # a child that is not waited for keeps its number
        try:
            os.wait()
        except ChildProcessError:
            return


def children() -> "list[int]":
    """Return the processes whose parent this is."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb", 0) as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has gone
        if parent == os.getpid():
            found.append(int(name))
    return found


def run(command: "list[str]", limits: "dict[str, int]") -> int:
    """Run a command to its end; return its exit code, 128 + n for a signal. `limits`: bytes or pieces for each process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # until there is somebody to pass them on to
    pid = os.fork()
    if pid == 0:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            restrict(limits)
            become(command)
        finally:
            os._exit(_FAILED_TO_EXEC)

    def pass_on(number: int, _frame: object) -> None:
        asked.append(number)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return  # it has just ended

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _, status = os.waitpid(pid, 0)
    for number in _PASSED_ON:  # it has ended: what is left to do is done
        signal.signal(number, lambda number, _frame: asked.append(number))
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def restrict(limits: "dict[str, int]") -> None:
    """Put limits on this process and what it starts; one that is stricter stays."""
    if limits:
        import resource  # with --limit alone
    for name, value in limits.items():
        which = getattr(resource, _RESOURCES[name])
        hard = resource.getrlimit(which)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bound, bound))


def become(command: "list[str]") -> None:
    """Be the command; returns only when it could not be started."""
    for number in (*_DYING, *_PYTHONS):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        say(f"{command[0]}: not found")
        os._exit(_NOT_THERE)
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            os.execv("/bin/sh", ["/bin/sh", place(command[0]), *command[1:]])  # as execvp(3) does, and a shell
        say(f"{command[0]}: {error.strerror}")


def place(name: str) -> str:
    """Return the path at which a program is found; its name where there is none."""
    paths = [name] if "/" in name else [f"{folder or '.'}/{name}" for folder in os.get_exec_path()]
    return next((path for path in paths if os.access(path, os.X_OK) and os.path.isfile(path)), name)
