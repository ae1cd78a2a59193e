"""What stands beside a run, where something does: the process that watches its commands, and a gate that merges close."""

from agent_dev.commands.prepare import Prepared
from agent_dev.host import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.host.watcher import Watcher


def watcher(prepared: Prepared, session: store.Session, environ: dict[str, str]) -> "Watcher | None":
    """Start what watches the commands of a session, early: it gets ready while we plan. None where the policy is off."""
    if prepared.settings.profile.policy == "off":
        return None
    from agent_dev.commands import watching  # not where the policy is off

    return watching.begin(prepared, session, environ)


def close_gate(gate: int) -> None:
    """Keep whoever merges beside us from doing so between the start and the base, which would take it for a move."""
    if gate >= 0:
        import fcntl  # only for what runs beside merges of ours

        fcntl.flock(gate, fcntl.LOCK_SH)


def open_gate(gate: int) -> None:
    """Let merges go on."""
    import fcntl  # as above

    fcntl.flock(gate, fcntl.LOCK_UN)
