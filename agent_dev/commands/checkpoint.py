"""Checkpoints of a session: taking, listing, comparing them, and going back to one."""

import errno
import os
from dataclasses import dataclass

from agent_dev.commands.sessions import Here, Listed
from agent_dev.core import history
from agent_dev.core.history import Keep, Node
from agent_dev.errors import CannotRollBack, DamagedCheckpoint
from agent_dev.host import checkpoints, kernel, restore, snapshot, store
from agent_dev.host.checkpoints import About

_MINUTE = 60 * 10**9
_DAY = 24 * 60 * _MINUTE
_PENDING = "rollback.pending"
_TEMP = b"rollback.new"
_FIRST = "root-0"


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What a rollback did: to which checkpoint, the one taken before it, the paths it touched, what it could not do."""

    to: int
    before: int
    paths: tuple[str, ...]
    problems: tuple[str, ...]


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


# Going back


def roll_back(one: Listed, number: int, paths: tuple[str, ...] = ()) -> RolledBack:
    """Bring a held session that has ended to a checkpoint, or only some paths of its first root.

    A checkpoint is taken first. Killed anywhere, the next one to hold the session goes on with it. Raises UnknownCheckpoint,
    DamagedCheckpoint, CheckpointFailed, CannotRollBack.
    """
    session, record = one.session, store.read(one.session)
    checkpoints.find(session, number)
    before = checkpoints.take(session, record, checkpoints.ROLLBACK, f"to {number}", always=True)
    _verify(session, [step.steps for step in _steps(session, record, number, paths)])
    _write_pending(session, number, paths)
    done, problems = _bring(session, record, number, paths)
    return RolledBack(number, before.number, done, problems)


def go_on(session: store.Session) -> None:
    """Finish a rollback that was cut short, of a session that is held and has ended. Raises CannotRollBack."""
    with open(f"{session.folder}/{_PENDING}", encoding="utf-8", errors="surrogateescape", newline="") as file:
        number, *paths = file.read().split("\0")
    _bring(session, store.read(session), int(number), tuple(paths))


def _write_pending(session: store.Session, number: int, paths: tuple[str, ...]) -> None:
    temp, place = f"{session.folder}/{_PENDING}.new", f"{session.folder}/{_PENDING}"
    with open(temp, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write("\0".join((str(number), *paths)))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temp, place)
    _sync(session.folder)


def _end_pending(session: store.Session) -> None:
    _sync(session.folder, everything=True)
    os.unlink(f"{session.folder}/{_PENDING}")


def _sync(folder: str, *, everything: bool = False) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (kernel.syncfs if everything else os.fsync)(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class _Tree:
    """What must be done in one tree of a session: what its paths are called, where it lies."""

    prefix: str
    place: str
    steps: history.Restore


def _steps(session: store.Session, record: store.Record, number: int, paths: tuple[str, ...]) -> tuple[_Tree, ...]:
    wanted = checkpoints.tables(session, checkpoints.find(session, number))
    now = checkpoints.now(session, record)
    found = []
    for name, place in checkpoints.places(session, record).items():
        if name == _FIRST or not paths:
            current, target = history.with_parents(now[name], wanted.get(name, {}), paths)
            found.append(_Tree("" if name == _FIRST else f"{name}:", place, history.restoring(current, target)))
    return tuple(found)


def _verify(session: store.Session, steps: list[history.Restore]) -> None:
    """Read every content that will be needed, before anything is touched. Raises DamagedCheckpoint."""
    for node in {node.content: node for one in steps for node in one.made if node.kind == history.FILE}.values():
        if node.content:
            try:
                os.close(_content(session, node))
            except OSError as error:
                raise DamagedCheckpoint(number="", reason=f"{node.path}: {error.strerror}") from None


def _bring(
    session: store.Session, record: store.Record, number: int, paths: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make the trees of a session what they were, and take the mark away; done again it changes nothing."""
    done: list[str] = []
    problems: list[str] = []
    try:
        for tree in _steps(session, record, number, paths):
            problems += [tree.prefix + problem for problem in _restore(session, tree)]
            done += [tree.prefix + path for path in tree.steps.paths]
        store.reopen(session, len(record["roots"]))
        _end_pending(session)
    except OSError as error:
        hint = "the next command that opens the session goes on"
        raise CannotRollBack(message=f"the rollback to {number} stopped: {error.strerror}", hint=hint) from error
    return tuple(done), tuple(problems)


def _restore(session: store.Session, tree: _Tree) -> list[str]:
    folder = os.open(session.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    root = os.open(tree.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        temp = restore.open_temp(folder, _TEMP)
        ground = restore.Ground(root, temp, lambda node: _content(session, node))
        try:
            restore.carry_out(tree.steps, ground)
        finally:
            restore.close_temp(folder, _TEMP, temp)
    finally:
        os.close(root)
        os.close(folder)
    return ground.problems


def _content(session: store.Session, node: Node) -> int:
    """Open a file's content, once its bytes are known to be those that were copied. Raises OSError."""
    fd = checkpoints.content(session, node.content)
    if snapshot.digest_of(fd) != node.content:
        os.close(fd)
        raise OSError(errno.EBADMSG, "its content is not as it was copied")
    return fd


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
