"""The screen in a process of its own: whatever ends that, the terminal is given back as it was."""

import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any

# What a full-screen program switches on: other screen, cursor, mouse, focus, paste, keyboard, wrap, colours (xterm's ctlseqs).
_RESET = (
    b"\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l"
    b"\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?7h\x1b[<u\x1b[0m\r"
)
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run(work: Callable[[], int], say: Callable[[str], None]) -> int:
    """Do work in a child and return its code, 128 + n when a signal ended it; it stops and goes on with us, as jobs do."""
    modes = _modes()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        _be_child(work)
    with _signals_to(pid):
        status = _wait(pid)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    _restore(modes)
    if -code not in _PASSED_ON:
        say(f"the screen was ended by {signal.Signals(-code).name}; nothing half chosen was merged, and the session waits")
    return 128 - code


def _be_child(work: Callable[[], int]) -> None:
    """Work, flush, end; never return into what the parent goes on with."""
    code = 1
    try:
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  (whatever it is, this process ends here, and its trace is seen)
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
        os.kill(os.getpid(), signal.SIGSTOP)  # the shell waits for us; when it lets us go on, so does the child
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def _signals_to(pid: int) -> Iterator[None]:
    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _modes() -> Any:
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None


def _restore(modes: Any) -> None:
    """Put the terminal back; one that went away needs nothing."""
    with contextlib.suppress(OSError, termios.error):
        os.write(2, _RESET)
        if modes is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, modes)
