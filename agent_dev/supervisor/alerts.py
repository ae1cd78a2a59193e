"""Alert the user of a command that waits for an answer: the terminal's bell, and a desktop notification."""

import os
import time

from agent_dev.config.profile import BELL, DESKTOP
from agent_dev.linux import programs, signals
from agent_dev.redact import mask_secrets
from agent_dev.sanitize import visible

_PROGRAM = "notify-send"
_TITLE = "agent-dev: a command waits for your approval"
_PAUSE = 2.0  # seconds between two alerts; `agent-dev approve` lists the others
_SECONDS = 10  # after which a notification that was not delivered is given up
_MAX_TEXT = 200  # characters
_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\\": "\\\\"}  # notify-send expands backslashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.supervisor.protocol import SupervisorOptions


class Alerts:
    """Alerts by the setting `notify`, at most one every two seconds. They wait for nothing; a failure stops nothing."""

    def __init__(self, options: "SupervisorOptions", relay_pid: int) -> None:
        self._options, self._last, self._process, self._relay = options, float("-inf"), 0, -1
        if relay_pid and BELL in options.alerts:
            try:
                self._relay = os.pidfd_open(relay_pid)
            except OSError:
                return  # the terminal was hung up

    def alert(self, argv: tuple[str, ...]) -> None:
        """Alert the user of a command."""
        now = time.monotonic()
        if now - self._last < _PAUSE:
            return
        self._last = now
        if self._relay >= 0:
            try:
                signals.pidfd_send_signal(self._relay, signals.URG)
            except OSError:
                self._relay = -1
        if DESKTOP in self._options.alerts and has_desktop(self._options.environ):
            self._notify(notification_text(argv))

    def _notify(self, text: str) -> None:
        if self._process and os.waitpid(self._process, os.WNOHANG)[0] == 0:
            return  # the previous one is not delivered yet
        program = programs.find_program(_PROGRAM, self._options.environ, self._options.untrusted)
        if program is None:
            return
        self._process = os.fork()
        if self._process:
            return
        try:
            signals.set_alarm(_SECONDS)  # also of the program
            signals.reset_python_defaults()
            os.chdir("/")
            os.execve(program, [_PROGRAM, "--app-name=agent-dev", "--", _TITLE, text], self._options.environ)
        finally:
            os._exit(1)


def has_desktop(environ: dict[str, str]) -> bool:
    """Return whether there is a session bus or a display, so that a notification can be shown."""
    if any(environ.get(name) for name in ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY")):
        return True
    runtime = environ.get("XDG_RUNTIME_DIR")
    return bool(runtime) and os.path.exists(f"{runtime}/bus")


def notification_text(argv: tuple[str, ...]) -> str:
    """Return a command as the body of a notification: short, without secrets, control characters and markup."""
    text = visible(" ".join(mask_secrets(argv))[: _MAX_TEXT * 4])
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT - 1]}…"
    return "".join(_MARKUP.get(character, character) for character in text)
