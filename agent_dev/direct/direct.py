"""Direct mode: an agent in the real tree, behind a snapshot; and bringing back what was there."""

import json
import os
import shutil
import time
from dataclasses import dataclass, replace

from agent_dev.backup import backup_store as backups
from agent_dev.backup.backup_store import Backup
from agent_dev.checkpoint import timer_process as clock
from agent_dev.checkpoint.restore_plan import MINUTE, Keep
from agent_dev.config.profile import Profile
from agent_dev.direct import snapshot_providers as snapshots
from agent_dev.direct.snapshot_providers import Snapshot
from agent_dev.errors import AgentDevError, BackupBusy, BackupFailed, CannotStart, StateUnusable, UsageError
from agent_dev.fs import copytree as copies
from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.fs import rmtree as remove
from agent_dev.fs import walk as scan
from agent_dev.merge import merge
from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.overlay import selection
from agent_dev.overlay.changes import Entry, FileType
from agent_dev.run import run
from agent_dev.run.prepare import Prepared, Request
from agent_dev.sandbox import machine
from agent_dev.session import removal as ended
from agent_dev.session import store
from agent_dev.session.sessions import Here

_ABOUT, _AFTER, _ROUNDS = "about.json", "after", "rounds"
_SKIP = (b".git",)


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that was taken before an agent worked in a tree. Times in ns since 1970; `ended` 0: nobody saw its end.

    `pair`: the id of the one taken after it, where snapshots have pairs.
    """

    id: str
    folder: str
    root: str
    command: tuple[str, ...]
    started: int
    ended: int
    snapshot: Snapshot
    pair: str = ""


def before(prepared: Prepared, request: Request, notice: merge.Notice) -> Taken:
    """Take the snapshot of a run, and say where it lies. Raises CannotStart."""
    if prepared.overlays:
        raise CannotStart(
            message="--direct and --overlay do not go together", hint="name the directory with --rw, or leave --direct"
        )
    name = f"{time.strftime('%y%m%d-%H%M%S', time.gmtime())}-{os.urandom(2).hex()}"
    folder = f"{prepared.store.path}/snapshots/{name}"
    root = prepared.place.root
    try:
        os.makedirs(folder, 0o700)
        provider = request.options.direct if request.options.direct != "auto" else ""
        found = snapshots.take(_wish(root, folder, prepared, request.environ), provider)
        taken = Taken(name, folder, root, request.words, time.time_ns(), 0, found)
        _write(taken)
    except OSError as error:
        if os.path.isdir(folder):
            remove.remove_tree(folder)
        hint = "make room, or set `state:` in config.yaml to another place"
        raise StateUnusable(path=prepared.store.path, reason=error.strerror, hint=hint) from error
    except BaseException:
        remove.remove_tree(folder)
        raise
    for problem in taken.snapshot.problems:
        notice(f"not in the snapshot: {problem}")
    notice(f"the agent works in {root} itself; snapshot {name} ({taken.snapshot.provider}) is {taken.snapshot.path}")
    return taken


def _wish(root: str, folder: str, prepared: Prepared, environ: dict[str, str]) -> snapshots.Wish:
    return snapshots.Wish(root, folder, os.path.basename(folder), environ, prepared.untrusted)


def after(taken: Taken, prepared: Prepared, environ: dict[str, str], notice: merge.Notice) -> None:
    """Note what the tree holds at the end, so that what the user changes later is told from what the agent did."""
    git = prepared.place.git
    wish = base_take.Wish(
        roots=(taken.root,),
        git=git.folder if git else "",
        program=machine.program("git", environ, prepared.untrusted) or "",
        environ=environ,
    )
    try:
        base_take.take(f"{taken.folder}/{_AFTER}", wish)
        taken = replace(taken, ended=time.time_ns())
        _write(taken)
    except OSError as error:
        notice(f"what the tree holds now could not be noted ({error.strerror}): a restore would take all for changed since")
    try:
        _keep(taken, prepared.settings.profile)
    except (BackupBusy, BackupFailed) as error:
        notice(f"what the tree holds now is not kept: {error.message}")
    _pair(taken, prepared, environ, notice)
    notice(f"agent-dev restore --dry-run {taken.id}   what it changed")
    notice(f"agent-dev restore {taken.id}             bring back what was there")


def _pair(taken: Taken, prepared: Prepared, environ: dict[str, str], notice: merge.Notice) -> None:
    """Take the second of a pair of snapshots, and say how the two are compared."""
    try:
        found = snapshots.pair(taken.snapshot, _wish(taken.root, taken.folder, prepared, environ))
    except OSError as error:
        notice(f"no snapshot after the run: {error.strerror}")
        return
    if found:
        _write(replace(taken, pair=found))
        config, _, number = found.rpartition(" ")
        notice(f"snapper -c {config} status {taken.snapshot.id.rpartition(' ')[2]}..{number}   the same, as snapper sees it")


def rounds(taken: Taken) -> tuple[Backup, ...]:
    """Return what was kept of the tree while the agent worked and when it had ended, oldest first."""
    return backups.listed(f"{taken.folder}/{_ROUNDS}")


def _keep_on(taken: Taken, profile: Profile) -> None:
    """Keep what the tree holds, every so many minutes when something changed; for a process of its own."""
    while True:
        time.sleep(profile.checkpoint_minutes * 60)
        try:
            _keep(taken, profile)
        except (BackupBusy, BackupFailed):
            continue  # a full disk, most of all: the agent goes on, and the one at the end says so


def _keep(taken: Taken, profile: Profile) -> None:
    """Keep what the tree holds now: all of it, since what is left out would be taken for made by the agent."""
    root, place = taken.root, f"{taken.folder}/{_ROUNDS}"
    skip = (*_SKIP, *map(os.fsencode, snapshots.within(root)))
    backups.take(backups.Wish(root, place, skip=skip, first=taken.snapshot.path, first_at=taken.started))
    keep = Keep.of(profile.keep_checkpoints, profile.keep_checkpoints_days, profile.keep_checkpoints_mib)
    backups.let_go(place, keep, max(1, profile.checkpoint_minutes) * MINUTE)


def _write(taken: Taken) -> None:
    row = {
        "version": 1,
        "root": taken.root,
        "command": list(taken.command),
        "started": taken.started,
        "ended": taken.ended,
        "provider": taken.snapshot.provider,
        "snapshot": taken.snapshot.id,
        "path": taken.snapshot.path,
        "pair": taken.pair,
    }
    temp = f"{taken.folder}/{_ABOUT}.new"
    with open(temp, "w", encoding="utf-8") as file:
        json.dump(row, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temp, f"{taken.folder}/{_ABOUT}")


def listed(where: Here, *, every: bool = False) -> tuple[Taken, ...]:
    """Return the snapshots of this repository, oldest first."""
    place = f"{where.store.path}/snapshots"
    found = []
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        try:
            with open(f"{place}/{name}/{_ABOUT}", encoding="utf-8") as file:
                row = json.load(file)
            snapshot = Snapshot(row["provider"], row["snapshot"], row["path"])
            command = tuple(map(str, row["command"]))
            times = (row["started"], row["ended"])
            one = Taken(name, f"{place}/{name}", row["root"], command, *times, snapshot, row.get("pair", ""))
        except (OSError, ValueError, KeyError):
            continue  # being taken in this moment, or never completed
        if every or one.root == where.root:
            found.append(one)
    return tuple(found)


def find(where: Here, name: str) -> Taken:
    """Return the snapshot of that id, or what `ID/ROUND` kept later, else the newest here. Raises UsageError, AgentDevError."""
    name, _, later = name.partition("/")
    found = [one for one in listed(where, every=bool(name)) if not name or one.id == name]
    if not found:
        if name:
            raise UsageError(message=f"no snapshot {name}", hint="agent-dev restore --list")
        raise AgentDevError(message=f"no agent ever worked in {where.root} itself", hint="agent-dev run --direct AGENT")
    if not os.path.isdir(found[-1].snapshot.path):
        raise AgentDevError(
            message=f"the snapshot {found[-1].snapshot.path} is gone", hint="agent-dev restore --list shows others"
        )
    return _at(found[-1], later) if later else found[-1]


def _at(taken: Taken, name: str) -> Taken:
    for one in rounds(taken):
        if one.name != name:
            continue
        if one.problems:  # what is not in it would be taken for made since
            reason = f"{name} of snapshot {taken.id} is not whole: {one.problems[0]}"
            raise AgentDevError(message=reason, hint="agent-dev restore --list shows others")
        return replace(taken, snapshot=Snapshot(snapshots.COPY, name, one.path))
    raise UsageError(message=f"snapshot {taken.id} has nothing called {name}", hint="agent-dev restore --list")


def restoring(taken: Taken, paths: tuple[str, ...], where: Here) -> Review:
    """Return a session whose changes are those back to a snapshot, opened: what to do with it is a merge.

    `paths`: only there and below. What the user changed since the run ended is a conflict in it, or merged where both fit.
    The session is held; the caller closes the review and lets go.
    """
    session = store.create(where.store)
    try:
        root = store.add_root(session, 0, taken.root)
        _fill(taken, root.upper, tuple(_inside(path, taken.root, where) for path in paths))
        if os.path.isdir(f"{taken.folder}/{_AFTER}"):
            shutil.copytree(f"{taken.folder}/{_AFTER}", session.base)
        store.write(session, _record(taken))
        store.settle(session)
        return open_review(session, where.environ)
    except BaseException:
        ended.drop(session)
        raise


def carry_out(review: Review, where: Here, notice: merge.Notice, *, is_dry: bool) -> merge.Merged:
    """Bring back all that can be; conflicts stay in the session, to be settled by `merge --resolve`."""
    keys = frozenset(change.key for change in review.changes.changes)
    planned = merge.plan(review, selection.take(selection.NOTHING, keys, review.changes), keys)
    return merge.preview(review, planned) if is_dry else merge.carry_out(review, planned, where.store, notice)


def _record(taken: Taken) -> store.Record:
    return {
        **store.BLANK,
        "state": store.WAITING,
        "name": f"restore-{taken.id}",
        "root": taken.root,
        "roots": [taken.root],
        "cwd": taken.root,
        "profile": "default",
        "command": ["restore", taken.id],
        "started": time.time_ns(),
        "launched": taken.ended or taken.started,
    }


def _inside(path: str, root: str, where: Here) -> bytes:
    full = os.path.normpath(os.path.join(where.cwd, path))
    if full != root and not full.startswith(root + "/"):
        raise UsageError(message=f"{path} is not below {root}", hint="agent-dev restore --dry-run lists what changed")
    return os.fsencode(full[len(root) + 1 :])


def _fill(taken: Taken, upper: str, wanted: tuple[bytes, ...]) -> None:
    """Write what a restore changes into an upper, as an agent would have done it."""
    source, real, target = files.Tree(taken.snapshot.path), files.Tree(taken.root), files.Tree(upper, is_ours=True)
    try:
        filling = _Filling(source, real, target)
        skip = (*_SKIP, *map(os.fsencode, {*snapshots.within(source.path), *snapshots.within(real.path)}))
        was, now = _entries(source.path, skip, wanted), _entries(real.path, skip, wanted)
        known = sorted(was.keys() | now.keys())
        for one in wanted:
            if one and not any(_is_at(path, one) for path in known):
                message = f"neither the snapshot nor the repository has {os.fsdecode(one)}"
                raise UsageError(message=message, hint="agent-dev restore --dry-run lists what changed")
        for path in known:
            if not wanted or any(_is_at(path, one) for one in wanted):
                filling.put(path, was.get(path), now.get(path))
        filling.close()
    finally:
        for tree in (source, real, target):
            tree.close()


def _is_at(path: bytes, place: bytes) -> bool:
    return path == place or path.startswith(place + b"/") or not place


def _entries(root: str, skip: tuple[bytes, ...], wanted: tuple[bytes, ...]) -> dict[bytes, Entry]:
    """Return what a tree holds. Raises AgentDevError where some of what is wanted cannot be read: it would count as gone."""
    unable = (FileType.SOCKET, FileType.DEVICE)
    problems: list[str] = []
    found = {one.path: one.entry for one in scan.walk(root, skip=skip, problems=problems) if one.entry.type not in unable}
    for problem in problems:
        path = os.fsencode(problem.rpartition(": ")[0])
        if not wanted or any(_is_at(path, one) or _is_at(one, path) for one in wanted):
            raise AgentDevError(message=f"{root}/{problem}; nothing was changed", hint="chmod u+rwx it, then restore again")
    return found


class _Filling:
    """An upper that grows, path by path, parents first."""

    def __init__(self, source: files.Tree, real: files.Tree, target: files.Tree) -> None:
        self.source, self.real, self.target = source, real, target
        self.copier = copies.Copier(source, target)
        self.gone = b"\0"  # the directory that was removed last
        self.modes: dict[bytes, int] = {}  # of directories that are written into until the end

    def put(self, path: bytes, was: Entry | None, now: Entry | None) -> None:
        """Make a path what it was."""
        if path.startswith(self.gone + b"/") and was is None:
            return
        folder, _, name = path.rpartition(b"/")
        if was is None:
            self.gone = path
            disk.whiteout(name, self._folder(folder))
        elif now is None or was.type is not now.type or self._differs(path, was, now):
            self._folder(folder)
            self.copier.copy(path, was)
            if was.type is not FileType.DIRECTORY:
                self.gone = path  # with all that is in it, if it is a directory now
            if was.type is FileType.DIRECTORY:
                if now is not None and now.type is not FileType.DIRECTORY:
                    copies.with_attributes(self.target, path, Entry(FileType.DIRECTORY), ("user.overlay.opaque", b"y"))
                copies.with_mode(self.target, path, was.mode & 0o777 | 0o700)
                if was.mode & 0o700 == 0o500:
                    self.modes[path] = was.mode & 0o777

    def close(self) -> None:
        """Give directories that were not to be written into their modes."""
        for path, mode in sorted(self.modes.items(), reverse=True):
            copies.with_mode(self.target, path, mode)

    def _differs(self, path: bytes, was: Entry, now: Entry) -> bool:
        if (was.mode, was.attributes, was.target) != (now.mode, now.attributes, now.target):
            return True
        return was.type is FileType.FILE and (was.size != now.size or not files.are_equal(self.source, self.real, path))

    def _folder(self, path: bytes) -> int:
        """Return a directory of the upper, made with what the real one has where it does not come back itself."""
        if not path:
            return self.target.fd
        if self.target.look(path, attributes=False) is None:
            folder, _, name = path.rpartition(b"/")
            entry = self.real.look(path) or Entry(FileType.DIRECTORY, 0o755)
            disk.mkdir(name, self._folder(folder), entry.mode & 0o777)
            copies.with_attributes(self.target, path, entry)
        return self.target.folder(path)


def run_direct(request: Request, notice: merge.Notice) -> run.Outcome:
    """Run an agent in the real tree. Raises AgentDevError; without a snapshot nothing is started."""
    found: list[tuple[Taken, Prepared, int]] = []

    def begin(prepared: Prepared) -> None:
        taken, profile = before(prepared, request, notice), prepared.settings.profile
        found.append((taken, prepared, clock.beside(lambda: _keep_on(taken, profile)) if profile.checkpoint_minutes else 0))

    is_over = True
    try:
        return run.run(request, notice, begin)
    except AgentDevError:
        is_over = False
        raise
    finally:
        for taken, prepared, timer in found:
            if timer:
                clock.end(timer)
            if is_over or not _forgotten(taken):
                after(taken, prepared, request.environ, notice)


def _forgotten(taken: Taken) -> bool:
    """Remove the copy of a tree in which no agent started; whether it is one. What a tool keeps stays that tool's."""
    if taken.snapshot.provider not in (snapshots.COPY, snapshots.REFLINK):
        return False
    remove.remove_tree(taken.folder)
    return True
