"""Apply Landlock file rules inside the sandbox, then exec the command. The second part of a script, after `exec_command.py`.

Arguments: the rules, each `r` or `w` and a path, then `--` and the command. Numbers: landlock(7).
"""

import ctypes
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # defined above in the combined script
    from agent_dev.inside.exec_command import exec_command, exit_with  # noqa: TC004

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 14
_CHANGE = sum(1 << bit for bit in range(4, 14))  # REMOVE_DIR … MAKE_SYM, REFER
_TRUNCATE_SINCE, _SCOPES_SINCE = 3, 6
_SCOPES = 3  # abstract sockets and signals; in the same layer: one without file rules would forbid moves between directories
_READ = _EXECUTE | _READ_FILE
_WRITE = _READ | _WRITE_FILE | _TRUNCATE | _CHANGE
_FILE_RIGHTS = _READ | _WRITE_FILE | _TRUNCATE
_FAILED = 125


def main() -> None:
    """Apply the rules and exec the command. Never returns."""
    end = sys.argv.index("--")
    command = sys.argv[end + 1 :]
    try:
        restrict(sys.argv[1:end])
    except OSError as error:
        exit_with(f"cannot apply Landlock rules: {error.strerror}", _FAILED)
    exec_command(command)


def restrict(rules: list[str]) -> None:
    """Restrict this process and its children to the rules and to descriptors 0 to 2."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = _call(libc, _CREATE_RULESET, None, 0, 1)
    handled = _WRITE if version >= _TRUNCATE_SINCE else _WRITE & ~_TRUNCATE
    fields = (handled, 0, _SCOPES) if version >= _SCOPES_SINCE else (handled,)
    attributes = b"".join(field.to_bytes(8, sys.byteorder) for field in fields)
    ruleset = _call(libc, _CREATE_RULESET, attributes, len(attributes), 0)
    for rule in rules:
        fd = os.open(rule[1:], os.O_PATH | os.O_CLOEXEC)
        _allow(libc, ruleset, fd, (_WRITE if rule[0] == "w" else _READ) & handled)
        os.close(fd)
    for fd in range(3):  # a terminal of the host, which programs reopen as /dev/stderr
        if os.isatty(fd):
            _allow(libc, ruleset, fd, handled)
    _call(libc, _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, fd: int, rights: int) -> None:
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        rights &= _FILE_RIGHTS
    beneath = rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
    _call(libc, _ADD_RULE, ruleset, _BENEATH, beneath, 0)


def _call(libc: ctypes.CDLL, *arguments: "int | bytes | None") -> int:
    result: int = libc.syscall(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main()
