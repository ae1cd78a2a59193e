"""Run the screen in a child process, so that the terminal is restored however the child ends."""

import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any

# Modes of a full-screen program: alternate screen, cursor, mouse, focus, paste, keyboard, wrap, colours (xterm's ctlseqs).
_RESET = (
    b"\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l"
    b"\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?7h\x1b[<u\x1b[0m\r"
)
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run_in_child(
    work: Callable[[], tuple[int, str]],
    notice: Callable[[str], None],
    remains: str = "nothing was merged and the session is waiting",
) -> tuple[int, str]:
    """Run `work` in a child; return its exit code, 128 + n for signal n, and its word, "" if it was killed.

    Job control applies to both processes. `remains`: the state after the child was killed, for the notice.
    """
    modes = _get_modes()
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        _run_child(work, writer)
    os.close(writer)
    with _forward_signals(pid):
        status = _wait(pid)
    code = os.waitstatus_to_exitcode(status)
    with os.fdopen(reader, "rb") as file:
        word = file.read().decode()
    if code >= 0:
        return code, word
    _restore(modes)
    if -code not in _FORWARDED:
        notice(f"the screen was killed by {signal.Signals(-code).name}; {remains}")
    return 128 - code, ""


def _run_child(work: Callable[[], tuple[int, str]], writer: int) -> None:
    """Run `work`, write its word, flush and exit; never return into the parent's code."""
    code = 1
    try:
        code, word = work()
        os.write(writer, word.encode())
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  (the process ends here, with a traceback)
        sys.excepthook(*sys.exc_info())
        with contextlib.suppress(OSError):
            sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(pid: int) -> int:
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        os.kill(os.getpid(), signal.SIGSTOP)  # the shell waits for this process; SIGCONT resumes it, then the child
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def _forward_signals(pid: int) -> Iterator[None]:
    def forward(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _get_modes() -> Any:
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None


def _restore(modes: Any) -> None:
    """Restore the terminal, if it still exists."""
    with contextlib.suppress(OSError, termios.error):
        os.write(2, _RESET)
        if modes is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, modes)
