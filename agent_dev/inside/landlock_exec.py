"""Inside the sandbox, before the agent: put Landlock's file rules on, then become the command. Run there as a script.

Its words are the rules, `r` or `w` and a path each, then `--` and the command. Numbers: landlock(7).
"""

import ctypes
import os
import signal
import stat
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 14
_CHANGE = sum(1 << bit for bit in range(4, 14))  # REMOVE_DIR … MAKE_SYM, REFER
_TRUNCATE_SINCE, _SCOPES_SINCE = 3, 6
_SCOPES = 3  # abstract sockets and signals; in the same layer, since one without file rules lets nothing be moved
_READ = _EXECUTE | _READ_FILE
_WRITE = _READ | _WRITE_FILE | _TRUNCATE | _CHANGE
_OF_A_FILE = _READ | _WRITE_FILE | _TRUNCATE
_FAILED, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127
_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and what it starts would


def main() -> None:
    """Do both; never returns."""
    end = sys.argv.index("--")
    command = sys.argv[end + 1 :]
    try:
        restrict(sys.argv[1:end])
    except OSError as error:
        _leave(f"Landlock's file rules could not be put on: {error.strerror}", _FAILED)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, _environment())
    except FileNotFoundError:
        _leave(f"{command[0]}: not found", _NOT_FOUND)
    except OSError as error:
        _leave(f"{command[0]}: {error.strerror}", _NOT_EXECUTABLE)


def restrict(rules: list[str]) -> None:
    """Let this process and all that it starts read and change what the rules say, and what descriptors 0 to 2 are."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = _call(libc, _CREATE_RULESET, None, 0, 1)
    handled = _WRITE if version >= _TRUNCATE_SINCE else _WRITE & ~_TRUNCATE
    words = (handled, 0, _SCOPES) if version >= _SCOPES_SINCE else (handled,)
    attributes = b"".join(word.to_bytes(8, sys.byteorder) for word in words)
    ruleset = _call(libc, _CREATE_RULESET, attributes, len(attributes), 0)
    for rule in rules:
        fd = os.open(rule[1:], os.O_PATH | os.O_CLOEXEC)
        _allow(libc, ruleset, fd, (_WRITE if rule[0] == "w" else _READ) & handled)
        os.close(fd)
    for fd in range(3):  # a terminal of the host's, which is opened anew as /dev/stderr
        if os.isatty(fd):
            _allow(libc, ruleset, fd, handled)
    _call(libc, _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, fd: int, rights: int) -> None:
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        rights &= _OF_A_FILE
    beneath = rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
    _call(libc, _ADD_RULE, ruleset, _BENEATH, beneath, 0)


def _call(libc: ctypes.CDLL, *words: "int | bytes | None") -> int:
    result: int = libc.syscall(*words)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _environment() -> dict[bytes, bytes]:
    """Return the environment as it was: Python adds to its own where the locale is C."""
    with open("/proc/self/environ", "rb") as file:
        pairs = (item.partition(b"=") for item in file.read().split(b"\0") if item)
        return {name: value for name, _, value in pairs}


def _leave(message: str, code: int) -> None:
    sys.stderr.write(f"agent-dev: {message}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
