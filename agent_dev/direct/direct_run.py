"""Direct mode: take a snapshot and run an agent in the real tree; find snapshots to restore."""

import fcntl
import os
import shlex
import stat
import time
from collections.abc import Iterator
from typing import Any

from agent_dev.backup import backup_store
from agent_dev.backup.backup_store import Backup
from agent_dev.checkpoint import timer_process
from agent_dev.config.profile import Profile
from agent_dev.direct import overlay_attributes, snapshot_providers, unlocked_root
from agent_dev.direct.overlay_attributes import OverlayAttribute
from agent_dev.direct.snapshot_providers import Snapshot
from agent_dev.errors import (
    AgentDevError,
    BackupBusy,
    BackupFailed,
    CannotStart,
    NewerFile,
    UnusableStateDirectory,
    UsageError,
)
from agent_dev.fs import checksummed_json, dir_tree, fast_json, rmtree, snapshot_names, state_files, walk
from agent_dev.git import nested_repositories
from agent_dev.git.nested_repositories import DisabledRepository, NestedRepository
from agent_dev.linux import process, programs
from agent_dev.merge import merge
from agent_dev.overlay import lower_snapshot_request, lower_snapshot_take
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.run import job, run
from agent_dev.run.request import PreparedRun, RunRequest
from agent_dev.sanitize import visible
from agent_dev.session import session_ids
from agent_dev.session.sessions import CommandContext
from agent_dev.snapshot_retention import MINUTE, RetentionLimits

_ABOUT, AFTER_FOLDER, _ROUNDS = "about.json", "after", "rounds"
_LOCK = "lock"
_VERSION = 1
_FEW = 5
_ENTER_AND_LIST = stat.S_IRUSR | stat.S_IXUSR  # the snapshot needed both
_MANY = 256  # repositories; each needs mounts, and bubblewrap supports a few thousand


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A snapshot from before an agent worked in a tree. Times in ns since 1970; `ended` 0: the end was not recorded.

    `post_id`: the id of the snapshot after the run, if there is one. `repositories`: the user's own below the root; `disabled`:
    the agent's, which were renamed. `missing`: entries that are not in the snapshot, and why. `skipped_names`: the top-level
    names that are private to the agent: `.git`.
    """

    id: str
    folder: str
    root: str
    command: tuple[str, ...]
    started: int
    ended: int
    snapshot: Snapshot
    post_id: str = ""
    repositories: tuple[NestedRepository, ...] = ()
    disabled: tuple[DisabledRepository, ...] = ()
    skipped_names: tuple[bytes, ...] = (b".git",)
    missing: tuple[str, ...] = ()
    overlay_attributes: tuple[OverlayAttribute, ...] = ()  # overlay attributes that existed before
    root_mode: int = 0  # of the root before the run; 0 if not recorded
    root_attributes: tuple[tuple[str, str], ...] | None = None  # its user.* ones before, values in hex; None if not recorded


def take_snapshot(prepared: PreparedRun, request: RunRequest, notice: merge.Notify) -> RunSnapshot:
    """Take the snapshot of a run and report its path. Raises CannotStart."""
    clean_up_after_killed(prepared.store.path, prepared.location.root, notice)
    if prepared.overlays:
        raise CannotStart(
            message="--direct and --overlay cannot be combined", hint="use --rw for the directory, or drop --direct"
        )
    parent = f"{prepared.store.path}/snapshots"
    name = session_ids.new_id(state_files.list_names(parent))
    folder = f"{parent}/{name}"
    root = prepared.location.root
    try:
        os.makedirs(folder, 0o700)
        provider = request.options.direct if request.options.direct != "auto" else ""
        _lock(folder)
        skip = (b".git",) if prepared.location.git and prepared.location.git.inside else ()
        repositories = nested_repositories.find_repositories(
            root, skip=(*skip, *map(os.fsencode, snapshot_names.snapshots_in(root)))
        )
        if len(repositories) > _MANY:
            hint = f"at most {_MANY} repositories can be protected; use a smaller directory, or drop --direct"
            raise CannotStart(message=f"{root} holds {len(repositories)} git repositories", hint=hint)
        found = snapshot_providers.take_snapshot(_snapshot_spec(root, folder, prepared, request.environ), provider)
        before = tuple(sorted(overlay_attributes.find_attributes(root, skip=skip), key=lambda one: one[:2]))
        run_snapshot = RunSnapshot(name, folder, root, request.arguments, time.time_ns(), 0, found, "", repositories, (), skip)
        run_snapshot = replace(run_snapshot, missing=found.problems, overlay_attributes=before, **_root_metadata(root))
        _write(run_snapshot)
    except OSError as error:
        if os.path.isdir(folder):
            rmtree.remove_tree(folder)
        hint = "free disk space, or set `state:` in config.yaml to another directory"
        raise UnusableStateDirectory(path=prepared.store.path, reason=error.strerror, hint=hint) from error
    except BaseException:
        rmtree.remove_tree(folder)
        raise
    for problem in found.problems:
        notice(f"not in the snapshot: {problem}")
    notice(f"the agent works in {root} directly; snapshot {name} ({found.provider}): {found.path}")
    notice("do not run git in repositories that the agent creates; they are disabled when it ends")
    return run_snapshot


def _root_metadata(root: str) -> dict[str, Any]:
    return {"root_mode": stat.S_IMODE(os.stat(root).st_mode), "root_attributes": read_root_attributes(root)}


def read_root_attributes(root: str) -> tuple[tuple[str, str], ...]:
    """Return the user.* attributes of a root, without the overlay's, values in hex. Raises OSError."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return tuple((name, value.hex()) for name, value in walk.read_attributes(fd))
    finally:
        os.close(fd)


def _snapshot_spec(root: str, folder: str, prepared: PreparedRun, environ: dict[str, str]) -> snapshot_providers.SnapshotSpec:
    return snapshot_providers.SnapshotSpec(root, folder, os.path.basename(folder), environ, prepared.untrusted_paths)


def _lock(folder: str) -> None:
    """Lock a snapshot until this process ends."""
    lock = os.open(f"{folder}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)


def lock_if_free(run_snapshot: RunSnapshot) -> int | None:
    """Lock a snapshot until the descriptor is closed; return None if its run has not ended, or it is being restored."""
    try:
        lock = os.open(f"{run_snapshot.folder}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def clean_up_after_killed(state: str, root: str, notice: merge.Notify) -> None:
    """Do in a root what killed launchers and restores did not: disable the repositories of agents, restore modes."""
    for run_snapshot in _read_all(state):
        if run_snapshot.root != root or not os.path.isdir(root) or (lock := lock_if_free(run_snapshot)) is None:
            continue
        try:
            _restore_modes(run_snapshot, notice)
            if not run_snapshot.ended:
                _write(replace(disable_repositories(run_snapshot, notice), ended=time.time_ns()))
        finally:
            os.close(lock)


def _restore_modes(run_snapshot: RunSnapshot, notice: merge.Notify) -> None:
    try:
        unlocked_root.restore_modes(run_snapshot.folder)
    except OSError as error:
        notice(f"cannot restore the modes of directories in {visible(run_snapshot.root)}: {error.strerror}")


def _unlock_root(run_snapshot: RunSnapshot, notice: merge.Notify) -> None:
    """Restore the mode of a root that its owner can no longer enter. Raises OSError."""
    status = os.stat(run_snapshot.root, follow_symlinks=False)
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == os.geteuid() and mode & _ENTER_AND_LIST != _ENTER_AND_LIST:
        before = run_snapshot.root_mode or mode | stat.S_IRWXU
        os.chmod(run_snapshot.root, before)
        notice(f"the agent left {visible(run_snapshot.root)} with mode {mode:03o}; its mode is {before:03o} again")


def disable_repositories(run_snapshot: RunSnapshot, notice: merge.Notify) -> RunSnapshot:
    """Disable the git repositories that an agent created, and report them: git would run their hooks and use their settings."""
    _unlock_root(run_snapshot, notice)
    skip = (*run_snapshot.skipped_names, *map(os.fsencode, snapshot_names.snapshots_in(run_snapshot.root)))
    overlay_attributes.revert_attributes(run_snapshot.root, run_snapshot.overlay_attributes, skip=skip)
    done, problems = nested_repositories.disable_new_repositories(run_snapshot.root, run_snapshot.repositories, skip=skip)
    if done:
        noun = "a git repository" if len(done) == 1 else f"{len(done)} git repositories"
        notice(f"the agent created {noun}, now disabled, because git would run its hooks; to enable:")
        for one in done[:_FEW]:
            renamed = os.path.join(os.path.dirname(one.path), one.new_name)
            notice(f"  mv {shlex.quote(visible(renamed))} {shlex.quote(visible(one.path))}")
        if len(done) > _FEW:
            notice(f"    and {len(done) - _FEW} more (agent-dev restore --list --json)")
    for problem in problems[:_FEW]:
        notice(f"cannot search for git repositories that the agent created: {visible(problem)}")
    return replace(run_snapshot, disabled=(*run_snapshot.disabled, *done))


def record_end(run_snapshot: RunSnapshot, prepared: PreparedRun, environ: dict[str, str], notice: merge.Notify) -> None:
    """Record the tree at the end of the run, to distinguish later changes of the user from the agent's."""
    try:
        run_snapshot = disable_repositories(run_snapshot, notice)  # first, because everything below runs git
    except OSError as error:
        notice(f"cannot disable the git repositories that the agent created: {error.strerror}")
    git = prepared.location.git
    request_spec = lower_snapshot_request.SnapshotRequest(
        roots=(run_snapshot.root,),
        git=git.folder if git else "",
        program=programs.find_program("git", environ, prepared.untrusted_paths) or "",
        environ=environ,
        skip=run_snapshot.skipped_names,
    )
    try:  # first, since reading unreadable files changes their ctime
        _back_up(run_snapshot, prepared.settings.profile)
    except (BackupBusy, BackupFailed) as error:
        notice(f"the tree was not backed up after the run: {error.message}")
    try:
        _record_tree(run_snapshot, request_spec)
        run_snapshot = replace(run_snapshot, ended=time.time_ns())
        _write(run_snapshot)
    except OSError as error:
        notice(
            f"cannot record the tree after the run ({error.strerror}); a restore will treat every file as changed since the run"
        )
    _take_second(run_snapshot, prepared, environ, notice)
    notice(f"agent-dev restore --dry-run {run_snapshot.id}   show the changes")
    notice(f"agent-dev restore {run_snapshot.id}             restore the snapshot")


def _record_tree(run_snapshot: RunSnapshot, request_spec: lower_snapshot_request.SnapshotRequest) -> None:
    tree = dir_tree.Tree(run_snapshot.root)
    try:
        opened = unlocked_root.allow_unlocking(tree, run_snapshot.folder)
        try:
            lower_snapshot_take.take_snapshot(f"{run_snapshot.folder}/{AFTER_FOLDER}", request_spec, opened)
        finally:
            unlocked_root.lock_again(tree, run_snapshot.folder)
    finally:
        tree.close()


def _take_second(run_snapshot: RunSnapshot, prepared: PreparedRun, environ: dict[str, str], notice: merge.Notify) -> None:
    """Take the snapshot after the run, and report how to compare the two."""
    try:
        found = snapshot_providers.take_post_snapshot(
            run_snapshot.snapshot, _snapshot_spec(run_snapshot.root, run_snapshot.folder, prepared, environ)
        )
    except OSError as error:
        notice(f"no snapshot was taken after the run: {error.strerror}")
        return
    if found:
        _write(replace(run_snapshot, post_id=found))
        config, _, number = found.rpartition(" ")
        notice(
            f"snapper -c {config} status {run_snapshot.snapshot.id.rpartition(' ')[2]}..{number}   show the changes with snapper"
        )


def list_backups(run_snapshot: RunSnapshot) -> tuple[Backup, ...]:
    """Return the backups of the tree taken during the run and at its end, oldest first."""
    return backup_store.list_backups(f"{run_snapshot.folder}/{_ROUNDS}")


def _back_up_periodically(run_snapshot: RunSnapshot, profile: Profile) -> None:
    """Back up the tree at an interval if something changed; runs in its own process."""
    while True:
        time.sleep(profile.checkpoint_minutes * 60)
        try:
            _back_up(run_snapshot, profile)
        except (BackupBusy, BackupFailed):
            continue  # mostly a full disk: the agent continues, and the backup at the end reports it


def _back_up(run_snapshot: RunSnapshot, profile: Profile) -> None:
    """Back up the whole tree now; excluded files would look as if the agent had created them."""
    root, target = run_snapshot.root, f"{run_snapshot.folder}/{_ROUNDS}"
    skip = (*run_snapshot.skipped_names, *map(os.fsencode, snapshot_names.snapshots_in(root)))
    backup_store.make_backup(
        backup_store.BackupSpec(
            root, target, skipped_names=skip, seed=run_snapshot.snapshot.path, seed_time=run_snapshot.started, is_exact=True
        )
    )
    keep = RetentionLimits.from_settings(profile.keep_checkpoints, profile.keep_checkpoints_days, profile.keep_checkpoints_mib)
    backup_store.prune_backups(target, keep, max(1, profile.checkpoint_minutes) * MINUTE)


def _write(run_snapshot: RunSnapshot) -> None:
    row = {
        "version": _VERSION,
        "root": run_snapshot.root,
        "command": list(run_snapshot.command),
        "started": run_snapshot.started,
        "ended": run_snapshot.ended,
        "provider": run_snapshot.snapshot.provider,
        "snapshot": run_snapshot.snapshot.id,
        "path": run_snapshot.snapshot.path,
        "pair": run_snapshot.post_id,
        "repositories": [one.as_dict() for one in run_snapshot.repositories],
        "disabled": [one.as_dict() for one in run_snapshot.disabled],
        "has_git": bool(run_snapshot.skipped_names),
        "missing": list(run_snapshot.missing),
        "marks": list(run_snapshot.overlay_attributes),
        "root_mode": run_snapshot.root_mode,
        "root_attributes": run_snapshot.root_attributes,
    }
    state_files.replace_file(f"{run_snapshot.folder}/{_ABOUT}", checksummed_json.dumps(row), is_durable=True)


def list_snapshots(context: CommandContext, *, every: bool = False) -> tuple[RunSnapshot, ...]:
    """Return the snapshots of this repository, oldest first. Raises NewerFile if a newer agent-dev took one of them."""
    for name, row in _rows(context.store.path):
        if _is_newer(row) and (every or row.get("root") == context.root):
            hint = "upgrade agent-dev, or move the directory away"
            path = f"{context.store.path}/snapshots/{name}/{_ABOUT}"
            raise NewerFile(path=path, found=row["version"], known=_VERSION, hint=hint)
    return tuple(one for one in _read_all(context.store.path) if every or one.root == context.root)


def damaged_snapshots(context: CommandContext) -> tuple[str, ...]:
    """Return the directories of all snapshots whose description is damaged, so that their repository is unknown."""
    parent = f"{context.store.path}/snapshots"
    known = {name for name, row in _rows(context.store.path) if _is_newer(row)}
    known |= {one.id for one in _read_all(context.store.path)}
    names = sorted(os.listdir(parent)) if os.path.isdir(parent) else ()
    return tuple(f"{parent}/{name}" for name in names if name not in known and os.path.lexists(f"{parent}/{name}/{_ABOUT}"))


def _is_newer(row: dict[str, Any]) -> bool:
    version = row.get("version")
    return type(version) is int and version > _VERSION


def _rows(state: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and the descriptions of all snapshots; those being taken and damaged ones have none."""
    parent = f"{state}/snapshots"
    for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else ():
        try:
            with open(f"{parent}/{name}/{_ABOUT}", "rb") as file:
                data = file.read()
            # older ones have no checksum
            row = checksummed_json.loads(data) if data.startswith(b'{"check":') else fast_json.loads(data)
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield name, row


def _read_all(state: str) -> tuple[RunSnapshot, ...]:
    """Return the snapshots that this version can read."""
    found = []
    for name, row in _rows(state):
        try:
            if not _is_newer(row):
                found.append(_from_row(name, f"{state}/snapshots/{name}", row))
        except (ValueError, KeyError, TypeError):
            continue  # damaged
    return tuple(found)


def _from_row(name: str, folder: str, row: dict[str, Any]) -> RunSnapshot:
    return RunSnapshot(
        id=name,
        folder=folder,
        root=row["root"],
        command=tuple(map(str, row["command"])),
        started=row["started"],
        ended=row["ended"],
        snapshot=Snapshot(row["provider"], row["snapshot"], row["path"]),
        post_id=row.get("pair", ""),
        repositories=tuple(NestedRepository(**one) for one in row.get("repositories", ())),
        disabled=tuple(DisabledRepository(**one) for one in row.get("disabled", ())),
        skipped_names=(b".git",) if row.get("has_git", True) else (),
        missing=tuple(row.get("missing", ())),
        overlay_attributes=tuple((path, name, next(iter(value), None)) for path, name, *value in row.get("marks", ())),
        root_mode=row.get("root_mode", 0) & 0o7777,
        root_attributes=None if (own := row.get("root_attributes")) is None else tuple((name, value) for name, value in own),
    )


def find_snapshot(context: CommandContext, name: str) -> RunSnapshot:
    """Return the snapshot with this id, or backup `ID/BACKUP` of it, else the newest here.

    Raises UsageError, NewerFile, NewerBackup, AgentDevError.
    """
    name, _, backup_name = name.partition("/")
    found = [one for one in list_snapshots(context, every=bool(name)) if not name or one.id == name]
    _require_undamaged(context, name, found[-1].id if found else "")
    if not found:
        if name:
            raise UsageError(message=f"no snapshot {name}", hint="agent-dev restore --list")
        raise AgentDevError(message=f"no snapshots of {context.root}", hint="agent-dev run --direct AGENT")
    if not os.path.isdir(found[-1].snapshot.path):
        raise AgentDevError(
            message=f"the snapshot {found[-1].snapshot.path} does not exist any more",
            hint="agent-dev restore --list shows others",
        )
    return _select_backup(found[-1], backup_name) if backup_name else found[-1]


def _require_undamaged(context: CommandContext, name: str, newest: str) -> None:
    """Raise AgentDevError if the wanted snapshot is damaged; without a name, if one is that was taken after `newest`."""
    for folder in damaged_snapshots(context):
        damaged = os.path.basename(folder)
        if name == damaged or (not name and damaged > newest):  # ids sort by creation
            hint = f"look for a copy in {folder}, or name another snapshot of agent-dev restore --list"
            raise AgentDevError(message=f"snapshot {damaged} is damaged; nothing was changed", hint=hint)


def _select_backup(run_snapshot: RunSnapshot, name: str) -> RunSnapshot:
    for one in list_backups(run_snapshot):
        if one.name != name:
            continue
        backup_store.require_known((one,))
        if one.problems:  # missing files would look created since
            reason = f"backup {name} of snapshot {run_snapshot.id} is incomplete: {one.problems[0]}"
            raise AgentDevError(message=reason, hint="agent-dev restore --list shows others")
        return replace(run_snapshot, snapshot=Snapshot(snapshot_providers.COPY, name, one.path))
    raise UsageError(message=f"snapshot {run_snapshot.id} has no backup {name}", hint="agent-dev restore --list")


def run_direct(request: RunRequest, notice: merge.Notify) -> job.RunOutcome:
    """Run an agent in the real tree. Raises AgentDevError; without a snapshot nothing is started."""
    found: list[tuple[RunSnapshot, PreparedRun, int]] = []

    def on_prepared(prepared: PreparedRun) -> PreparedRun:
        run_snapshot, profile = take_snapshot(prepared, request, notice), prepared.settings.profile
        timer = (
            timer_process.start_background(lambda: _back_up_periodically(run_snapshot, profile))
            if profile.checkpoint_minutes
            else 0
        )
        found.append((run_snapshot, prepared, timer))
        return prepared.replace(nested_repositories=run_snapshot.repositories)

    has_run = True
    try:
        return run.run(request, notice, on_prepared)
    except AgentDevError:
        has_run = False
        raise
    finally:
        for run_snapshot, prepared, timer in found:
            if timer:
                process.terminate(timer)
            if has_run or not _discard_copy(run_snapshot):
                record_end(run_snapshot, prepared, request.environ, notice)


def _discard_copy(run_snapshot: RunSnapshot) -> bool:
    """Remove the copy for a run that did not start; return whether there was one. Snapshots of other tools are kept."""
    if run_snapshot.snapshot.provider not in (snapshot_providers.COPY, snapshot_providers.REFLINK):
        return False
    rmtree.remove_tree(run_snapshot.folder)
    return True
