"""Notify the user outside the sandbox: on the desktop, or by a command of their own."""

import os

from agent_dev.linux import programs, signals
from agent_dev.sanitize import visible
from agent_dev.value import Value

BELL, DESKTOP, TERMINAL = "bell", "desktop", "terminal"
TITLE = "agent-dev"
_PROGRAM = "notify-send"
_SECONDS = 10  # after which a notification is abandoned
_MAX_TEXT = 200  # characters
_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\\": "\\\\"}  # notify-send expands backslashes
_STRING_ENDS = {"\a": "␇", "\x1b": "␛", ";": ","}


class NotificationSettings(Value):
    """The settings of notifications: `ways` (the key `notify`) and `command` (`notify_command`), and the environment.

    No program below the `untrusted` paths, which an agent can write, is run for it.
    """

    ways: tuple[str, ...]
    command: tuple[str, ...]
    environ: dict[str, str]
    untrusted: tuple[str, ...]


def send_notification(settings: NotificationSettings, title: str, text: str) -> list[int]:
    """Start the programs that notify the user, which end after at most ten seconds; return their pids without waiting."""
    commands: list[tuple[str, ...]] = []
    if DESKTOP in settings.ways and has_desktop(settings.environ):
        commands.append((_PROGRAM, "--app-name=agent-dev", "--", title, _without_markup(text)))
    if settings.command:
        commands.append((*settings.command, title, text))
    return [pid for command in commands if (pid := _start(command, settings))]


def _start(command: tuple[str, ...], settings: NotificationSettings) -> int:
    """Start a program with only standard streams, on /dev/null; return its pid, 0 if it is not installed."""
    program = programs.find_program(command[0], settings.environ, settings.untrusted)
    if program is None:
        return 0
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()  # its terminal may be hung up when we exit
        signals.set_alarm(_SECONDS)  # execve keeps it
        signals.reset_python_defaults()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        os.closerange(3, 4096)
        os.chdir("/")
        os.execve(program, list(command), settings.environ)
    finally:
        os._exit(1)


def has_desktop(environ: dict[str, str]) -> bool:
    """Return whether there is a session bus or a display, so that a notification can be shown."""
    if any(environ.get(name) for name in ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY")):
        return True
    runtime = environ.get("XDG_RUNTIME_DIR")
    return bool(runtime) and os.path.exists(f"{runtime}/bus")


def short_text(text: str) -> str:
    """Return text for a notification: one line of at most 200 characters, without control characters."""
    shown = visible(text[: _MAX_TEXT * 4])
    return f"{shown[: _MAX_TEXT - 1]}…" if len(shown) > _MAX_TEXT else shown


def terminal_sequences(title: str, text: str) -> bytes:
    """Return the sequences by which a terminal shows a notification: OSC 9 and OSC 777."""
    title, text = ("".join(_STRING_ENDS.get(one, one) for one in part) for part in (title, text))
    return f"\x1b]9;{title}: {text}\x1b\\\x1b]777;notify;{title};{text}\x1b\\".encode("utf-8", "replace")


def _without_markup(text: str) -> str:
    return "".join(_MARKUP.get(character, character) for character in text)
