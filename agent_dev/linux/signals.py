"""Signal functions for the launch path, based on the C module: importing `signal` takes 2.5 ms to build enums."""

import _signal as _c  # type: ignore[import-not-found]  # private and without stubs, but the only access to these calls
import os

HUP, INT, QUIT, TERM, CONT, TSTP, TTOU, PIPE, WINCH, USR1, URG = (
    _c.SIGHUP,
    _c.SIGINT,
    _c.SIGQUIT,
    _c.SIGTERM,
    _c.SIGCONT,
    _c.SIGTSTP,
    _c.SIGTTOU,
    _c.SIGPIPE,
    _c.SIGWINCH,
    _c.SIGUSR1,
    _c.SIGURG,
)
KILL, STOP = _c.SIGKILL, _c.SIGSTOP
_CHANGED_BY_PYTHON = (_c.SIGPIPE, _c.SIGINT, getattr(_c, "SIGXFSZ", _c.SIGPIPE))


def ignore(number: int) -> object:
    """Ignore a signal; return the previous action."""
    return _c.signal(number, _c.SIG_IGN)


def reset(number: int) -> object:
    """Give a signal its default action; return the previous action."""
    return _c.signal(number, _c.SIG_DFL)


def catch_and_drop(number: int) -> object:
    """Catch a signal and do nothing, so that blocking calls return and exec resets it; return the previous action."""
    return _c.signal(number, lambda *_: None)


def restore(number: int, action: object) -> None:
    """Restore the action that `ignore`, `reset`, `catch_and_drop` or `catch` returned."""
    _c.signal(number, _c.SIG_DFL if action is None else action)


def catch(number: int, handler: object) -> object:
    """Call `handler(number, frame)` on a signal; return the previous action."""
    return _c.signal(number, handler)


def is_ignored(before: object) -> bool:
    """Return whether a previous action ignored the signal."""
    return bool(before == _c.SIG_IGN)


def set_wakeup_fd(fd: int) -> None:
    """Write a byte to a descriptor for each caught signal, so that a signal just before a wait ends it."""
    os.set_blocking(fd, False)
    _c.set_wakeup_fd(fd, warn_on_full_buffer=False)


def set_alarm(seconds: int) -> None:
    """End this process by SIGALRM after some seconds, even if it has called exec by then."""
    _c.signal(_c.SIGALRM, _c.SIG_DFL)
    _c.alarm(seconds)


def clear_alarm() -> None:
    """Cancel `set_alarm`."""
    _c.alarm(0)


def pidfd_send_signal(pidfd: int, number: int) -> None:
    """Send a signal to the process of a pidfd; do nothing if it is gone."""
    try:
        _c.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass


def reset_python_defaults() -> None:
    """Restore the default actions that the interpreter changed, before another program replaces the process."""
    for number in _CHANGED_BY_PYTHON:
        _c.signal(number, _c.SIG_DFL)
