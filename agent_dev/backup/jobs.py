"""Back up a directory of the user, once or at an interval."""

import os
import time
from collections.abc import Callable

from agent_dev.backup import backup_store
from agent_dev.backup.backup_store import Backup, ProgressCallback
from agent_dev.errors import BackupBusy, BackupFailed, UsageError
from agent_dev.paths import is_below
from agent_dev.quick_dataclass import dataclass
from agent_dev.snapshot_retention import MINUTE, RetentionLimits


@dataclass(frozen=True, slots=True)
class BackupJob:
    """A backup job: source, target, exclusions, interval in minutes, number of backups to keep (0: all)."""

    source: str
    target: str
    excludes: tuple[str, ...] = ()
    minutes: float = 5
    keep: int = 100


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a backup: the new one, None if nothing changed, what the newest one lacks, and the backups removed for it."""

    backup: Backup | None
    problems: tuple[str, ...]
    removed: tuple[Backup, ...] = ()


def check_job(spec: BackupJob) -> BackupJob:
    """Return the spec with absolute paths. Raises UsageError for invalid directories."""
    source, target = os.path.realpath(spec.source), os.path.realpath(spec.target)
    if not os.path.isdir(source):
        raise UsageError(message=f"backup: {spec.source} is not a directory", hint="agent-dev backup once DIR --to DIR")
    if os.path.lexists(target) and not os.path.isdir(target):
        raise UsageError(message=f"backup: --to {spec.target} is not a directory", hint="agent-dev backup once DIR --to DIR")
    if target == source:
        raise UsageError(message=f"backup: cannot back up {source} into itself", hint="use --to with a directory elsewhere")
    if is_below(target, source):
        raise UsageError(message=f"backup: --to {target} is inside {source}", hint="use --to with a directory elsewhere")
    if is_below(source, target):
        raise UsageError(message=f"backup: {source} is inside --to {target}", hint="use --to with a directory elsewhere")
    return BackupJob(source, target, spec.excludes, spec.minutes, spec.keep)


def back_up_once(spec: BackupJob, progress: ProgressCallback) -> JobResult:
    """Make a backup if anything changed, and remove old ones. Raises BackupBusy, BackupFailed."""
    rules = backup_store.load_rules(spec.source, spec.excludes)
    made = backup_store.make_backup(backup_store.BackupSpec(spec.source, spec.target, rules, progress=progress))
    if made is None:
        return JobResult(None, backup_store.list_backups(spec.target)[-1].problems)
    removed = backup_store.prune_backups(spec.target, RetentionLimits(spec.keep), int(spec.minutes * MINUTE))
    return JobResult(made, made.problems, removed)


def back_up_periodically(
    spec: BackupJob, progress: ProgressCallback, report: Callable[[JobResult | str], None], *, skip_first: bool
) -> None:
    """Make backups until killed. `report` is called with each result, or the reason of a failure."""
    while True:
        if not skip_first:
            try:
                report(back_up_once(spec, progress))
            except (BackupBusy, BackupFailed) as error:
                report(error.message)  # such as a full disk or an unmounted source: the next one may succeed
        skip_first = False
        time.sleep(spec.minutes * 60)
