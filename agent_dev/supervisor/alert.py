"""Alert the user outside the sandbox: a bell in the launcher's terminal, and a desktop notification."""

import os
import stat

from agent_dev.sanitize import visible

BELL, DESKTOP, BOTH = "bell", "desktop", "both"  # of `notify`
_PROGRAMS = tuple(f"{folder}/notify-send" for folder in ("/usr/local/bin", "/usr/bin", "/bin"))  # nothing that an agent wrote
_MAX_TEXT = 200  # characters
_SESSION_VARIABLES = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY")


def alert(how: str, launcher: int, title: str, text: str, environ: dict[str, str]) -> None:
    """Alert the user as configured. Never waits and never fails: the command that waits is in `agent-dev approve` anyway."""
    if how in (BOTH, BELL):
        _ring(launcher)
    if how in (BOTH, DESKTOP) and any(environ.get(name) for name in _SESSION_VARIABLES):
        _show(title, text, environ)


def _ring(launcher: int) -> None:
    """Write a bell, which prints nothing, to the launcher's terminal."""
    for number in (2, 1, 0):
        try:
            fd = os.open(f"/proc/{launcher}/fd/{number}", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if stat.S_ISCHR(os.fstat(fd).st_mode) and os.isatty(fd):
                os.write(fd, b"\a")
                return
        except OSError:
            continue  # full, or hung up
        finally:
            os.close(fd)


def _show(title: str, text: str, environ: dict[str, str]) -> None:
    """Start notify-send; its text is markup."""
    program = next((path for path in _PROGRAMS if os.access(path, os.X_OK)), "")
    if not program:
        return
    shown = visible(text)[:_MAX_TEXT].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    argv = [program, "--app-name=agent-dev", "--urgency=critical", "--", title, shown]
    try:
        os.posix_spawn(program, argv, environ, file_actions=null)
    except OSError:
        return
