"""Signals for the launch path: the C module, since `signal` builds enums for 2.5 ms at import."""

import _signal as _c  # type: ignore[import-not-found]  # no stubs: private, but the only door to these calls

HUP, INT, QUIT, TERM, CONT, TSTP, TTOU, PIPE, WINCH = (
    _c.SIGHUP,
    _c.SIGINT,
    _c.SIGQUIT,
    _c.SIGTERM,
    _c.SIGCONT,
    _c.SIGTSTP,
    _c.SIGTTOU,
    _c.SIGPIPE,
    _c.SIGWINCH,
)
KILL, STOP = _c.SIGKILL, _c.SIGSTOP
_CHANGED_BY_PYTHON = (_c.SIGPIPE, _c.SIGINT, getattr(_c, "SIGXFSZ", _c.SIGPIPE))


def ignore(number: int) -> object:
    """Ignore a signal; return what was in force."""
    return _c.signal(number, _c.SIG_IGN)


def default(number: int) -> object:
    """Give a signal its default action; return what was in force."""
    return _c.signal(number, _c.SIG_DFL)


def swallow(number: int) -> object:
    """Take a signal and do nothing, so that waiting calls return and an exec resets it; return what was in force."""
    return _c.signal(number, lambda *_: None)


def restore(number: int, action: object) -> None:
    """Put back what `ignore`, `default`, `swallow` or `catch` returned."""
    _c.signal(number, _c.SIG_DFL if action is None else action)


def catch(number: int, handler: object) -> object:
    """Call `handler(number, frame)`; return what was in force."""
    return _c.signal(number, handler)


def send_by_descriptor(pidfd: int, number: int) -> None:
    """Send a signal to exactly the process of a pidfd; nothing if it is gone."""
    try:
        _c.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass


def as_started() -> None:
    """Undo what the interpreter changed for itself, before another program takes over the process."""
    for number in _CHANGED_BY_PYTHON:
        _c.signal(number, _c.SIG_DFL)
