"""Alert the user of a command or connection that waits for an answer: the terminal's bell, and a notification."""

import os
import time

from agent_dev.linux import signals
from agent_dev.notification import BELL, NotificationSettings, send_notification, short_text
from agent_dev.redact import mask_secrets

_COMMAND_TITLE = "agent-dev: a command waits for your approval"
_CONNECTION_TITLE = "agent-dev: a connection waits for your approval"
_PAUSE = 2.0  # seconds between two alerts; `agent-dev approve` lists the others


class Alerts:
    """Alerts according to the setting `notify`, at most one every two seconds. They do not block, and failures are ignored."""

    def __init__(self, settings: NotificationSettings, relay_pid: int) -> None:
        self._settings, self._last, self._relay = settings, float("-inf"), -1
        self._processes: list[int] = []
        if relay_pid and BELL in settings.ways:
            try:
                self._relay = os.pidfd_open(relay_pid)
            except OSError:
                return  # the terminal was hung up

    def alert_command(self, argv: tuple[str, ...]) -> None:
        """Alert the user of a command."""
        self.announce(_COMMAND_TITLE, short_text(" ".join(mask_secrets(argv))))

    def alert_connection(self, target: str) -> None:
        """Alert the user of a connection."""
        self.announce(_CONNECTION_TITLE, short_text(target))

    def announce(self, title: str, text: str) -> None:
        """Alert the user of something else; the text must be safe to display."""
        now = time.monotonic()
        if now - self._last < _PAUSE:
            return
        self._last = now
        if self._relay >= 0:
            try:
                signals.pidfd_send_signal(self._relay, signals.URG)
            except OSError:
                self._relay = -1
        self._processes = [pid for pid in self._processes if not os.waitpid(pid, os.WNOHANG)[0]]
        if not self._processes:  # the previous one was delivered
            self._processes = send_notification(self._settings, title, text)
