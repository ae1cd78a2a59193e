"""Checkpoints of a session: taking, listing and thinning them, and what one file was in each."""

from dataclasses import dataclass

from agent_dev.commands.sessions import Here, Listed
from agent_dev.core import history
from agent_dev.core.history import Keep
from agent_dev.host import checkpoints, store
from agent_dev.host.checkpoints import About

_MINUTE = 60 * 10**9
_DAY = 24 * 60 * _MINUTE


def take(one: Listed, cause: str = checkpoints.MANUAL, message: str = "", *, always: bool = True) -> About:
    """Take a checkpoint of a session, running or held. Raises CheckpointFailed."""
    return checkpoints.take(one.session, store.read(one.session), cause, message, always=always)


def keep(where: Here) -> tuple[Keep, int]:
    """Return how many checkpoints are kept here, and the interval in ns by which they grow old."""
    profile = where.profile
    bounds = Keep(profile.keep_checkpoints, profile.keep_checkpoints_days * _DAY, profile.keep_checkpoints_mib << 20)
    return bounds, (profile.checkpoint_minutes or 5) * _MINUTE


def thin(where: Here, one: Listed, *, is_dry: bool) -> tuple[About, ...]:
    """Let go of the checkpoints that need not be kept; `is_dry`: only say which."""
    return checkpoints.let_go(one.session, *keep(where), is_dry=is_dry)


# Looking


@dataclass(frozen=True, slots=True)
class Version:
    """What one path was at a checkpoint. `state`: a file's type, `deleted`, or `as in the repository`."""

    checkpoint: int
    time: int
    state: str
    size: int = 0
    digest: str = ""


def listed(one: Listed) -> tuple[About, ...]:
    """Return a session's checkpoints, oldest first."""
    return checkpoints.listed(one.session)


def versions(one: Listed, path: str) -> tuple[Version, ...]:
    """Return what a path of the first root was at each checkpoint, oldest first."""
    found = []
    for about in checkpoints.listed(one.session):
        table = checkpoints.table(f"{one.session.folder}/checkpoints", about, "root-0")
        node = table.get(path)
        if node is not None and node.kind != history.WHITEOUT:
            found.append(Version(about.number, about.time, node.kind, node.size, node.content))
        else:
            is_gone = node is not None or history.is_hidden(path, table)
            found.append(Version(about.number, about.time, "deleted" if is_gone else "as in the repository"))
    return tuple(found)
