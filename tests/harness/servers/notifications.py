"""A desktop that shows notifications: a session bus, and the daemon `dunst` on an X server without a screen."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.program import wait_until
from tests.harness.servers.clipboard import x11_desktop

_SHOWN = re.compile(r"^\tsummary: '(.*)'\n\tbody: '(.*)'$", re.MULTILINE)


@dataclass(frozen=True)
class NotificationDesktop:
    """The variables of its programs, and the file in which the daemon lists what it has shown."""

    environ: dict[str, str]
    listed: Path

    def shown(self) -> list[tuple[str, str]]:
        """Return the title and the text of each notification."""
        return _SHOWN.findall(self.listed.read_text("utf-8", "replace"))


@contextmanager
def notification_desktop(folder: Path) -> Iterator[NotificationDesktop]:
    """Run the bus, the X server and the daemon."""
    with x11_desktop() as desktop, (folder / "listed").open("w") as listed:
        command = ("dbus-run-session", "--", "sh", "-c", 'echo "$DBUS_SESSION_BUS_ADDRESS" >"$0"; exec dunst -print')
        environ = {**os.environ, **desktop.environ}
        with subprocess.Popen([*command, str(folder / "bus")], stdout=listed, stderr=subprocess.DEVNULL, env=environ) as bus:
            try:
                address = wait_until(lambda: _read(folder / "bus"), "the session bus")
                shown = desktop.environ | {"DBUS_SESSION_BUS_ADDRESS": address}
                wait_until(lambda: _is_ready({**environ, **shown}), "dunst", pause=0.1)
                yield NotificationDesktop(shown, folder / "listed")
            finally:
                bus.terminate()


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def _is_ready(environ: dict[str, str]) -> bool:
    """Return whether the daemon answers."""
    call = ("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.Notifications", "/org/freedesktop/Notifications")
    method = "org.freedesktop.Notifications.GetServerInformation"
    return subprocess.run([*call, method], env=environ, capture_output=True, check=False).returncode == 0
