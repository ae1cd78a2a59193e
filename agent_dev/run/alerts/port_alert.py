"""Tell the user the address of each port that `publish: [auto]` has published."""

import os

from agent_dev.notification import NotificationSettings, short_text
from agent_dev.session import published, store
from agent_dev.session.alerts import Alerts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.run.job import RunJob
    from agent_dev.sandbox import launch

_TITLE = "agent-dev: a server listens"


def port_check(job: "RunJob", setup: "launch.SetupProcess") -> "Callable[[], None]":
    """Return a function, to be called often, that announces new ports.

    They are printed to stderr, or if the agent uses the terminal, whose screen is its own, announced as `notify` says.
    """
    folder, name = job.session.folder, str(job.record["name"] or job.session.id)
    profile = job.prepared.settings.profile
    untrusted = (*job.prepared.untrusted_paths, folder)
    settings = NotificationSettings(profile.notify, profile.notify_command, job.environ, untrusted)
    alerts = Alerts(settings, setup.terminal.relay_pid) if setup.terminal.relay_pid else None
    changed, known = 0, set[published.ListedPort]()

    def check() -> None:
        nonlocal changed, known
        try:
            now = os.stat(f"{folder}/{store.PUBLISHED}").st_mtime_ns
        except OSError:
            return  # nothing yet
        if now == changed:
            return
        changed, found = now, set(published.read_published(folder))
        new = sorted(found - known, key=lambda port: port.inside)
        known = found
        if not new:
            return
        text = ", ".join(f"port {port.inside} inside: {published.url_of(port, name)}" for port in new)
        if alerts:
            alerts.announce(_TITLE, short_text(text))
        else:
            _print(f"agent-dev: published {text}\n")

    return check


def _print(text: str) -> None:
    try:
        os.write(2, text.encode())
    except OSError:
        return  # closed
