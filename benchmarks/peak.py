"""Run a program, and print its exit code, its processor time in ms and its peak memory in MiB as JSON.

`peak.py "" PROGRAM…` runs it with /dev/null, `peak.py '["j", "q"]' PROGRAM…` on a terminal, on which it waits for the first
screen and presses these keys. A self-contained script with an interpreter of its own, because the peak memory that Linux reports
for a child is at least that of the process that it was forked from. The peak is that of the largest process: of the program and
of the children that it waited for.
"""

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios

_PAINTED = b"\x1b[?1049h"  # the alternate screen
_QUIET, _LEAVING, _LIMIT = 0.7, 3.0, 120.0  # seconds without output after a key, after the last one, and at the start
_ATTEMPTS = 40


def _spawn(argv: list[str]) -> int:
    null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=null)


def _spawn_on_terminal(argv: list[str], keys: list[str]) -> int:
    pid, fd = pty.fork()
    if not pid:
        try:
            os.execve(argv[0], argv, os.environ)
        finally:
            os._exit(127)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    seen = b""
    while _PAINTED not in seen and (data := _read(fd, _LIMIT)):
        seen += data
    _wait_until_quiet(fd, 2 * _QUIET)
    for key in keys:
        _press(fd, key)
        _wait_until_quiet(fd, _QUIET)
    for _ in range(_ATTEMPTS):  # a program that was busy may have dropped the last key
        _wait_until_quiet(fd, _LEAVING)
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        _press(fd, keys[-1])
    os.close(fd)  # a hangup, for a program that did not leave
    return pid


def _wait_until_quiet(fd: int, seconds: float) -> None:
    while _read(fd, seconds):
        pass


def _press(fd: int, key: str) -> None:
    with contextlib.suppress(OSError):  # the program has exited
        os.write(fd, key.encode())


def _read(fd: int, seconds: float) -> bytes:
    """Return the next output; b"" after so many seconds without, and when the program has exited."""
    if not select.select([fd], [], [], seconds)[0]:
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


def main(keys: str, argv: list[str]) -> None:
    """Run the program, and print its figures."""
    pid = _spawn_on_terminal(argv, json.loads(keys)) if keys else _spawn(argv)
    _, status, used = os.wait4(pid, 0)
    milliseconds = (used.ru_utime + used.ru_stime) * 1000
    json.dump([os.waitstatus_to_exitcode(status), milliseconds, used.ru_maxrss / 1024], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
