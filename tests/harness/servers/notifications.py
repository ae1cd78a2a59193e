"""A desktop that shows notifications: a session bus, and the daemon `dunst` on an X server without a screen."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.program import wait_until
from tests.harness.servers.clipboard import running, x11_desktop

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
    ready, theirs = os.pipe()
    bus = ("dbus-daemon", "--session", "--nofork", f"--print-address={theirs}")
    with x11_desktop() as desktop, running(bus, ready, theirs, {}) as address, (folder / "listed").open("w") as listed:
        shown = desktop.environ | {"DBUS_SESSION_BUS_ADDRESS": address}
        environ = os.environ | shown
        with subprocess.Popen(["dunst", "-print"], stdout=listed, stderr=subprocess.DEVNULL, env=environ) as daemon:
            try:
                wait_until(lambda: _is_ready(environ), "dunst", pause=0.1)
                yield NotificationDesktop(shown, folder / "listed")
            finally:
                daemon.terminate()


def _is_ready(environ: dict[str, str]) -> bool:
    """Return whether the daemon has its name on the bus. A call to that name could start another daemon."""
    call = ("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus")
    method = ("org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.Notifications")
    return "true" in subprocess.run([*call, *method], env=environ, capture_output=True, check=False, text=True).stdout
