"""Back up a directory of the user's: once, or every so many minutes."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent_dev.backup import backup_store as backups
from agent_dev.backup.backup_store import Backup, Progress
from agent_dev.checkpoint.restore_plan import MINUTE, Keep
from agent_dev.errors import BackupBusy, BackupFailed, UsageError
from agent_dev.sandbox.plan import is_below


@dataclass(frozen=True, slots=True)
class Terms:
    """What is backed up, where to, without what, how often (in minutes), and how many are kept (0: all)."""

    source: str
    target: str
    excludes: tuple[str, ...] = ()
    minutes: float = 5
    keep: int = 100


@dataclass(frozen=True, slots=True)
class Done:
    """What came of one: the backup, if anything had changed, and those that were let go for it."""

    made: Backup | None
    gone: tuple[Backup, ...] = ()


def checked(terms: Terms) -> Terms:
    """Return the terms with whole paths. Raises UsageError for places that cannot be."""
    source, target = os.path.realpath(terms.source), os.path.realpath(terms.target)
    if not os.path.isdir(source):
        raise UsageError(message=f"backup: {terms.source} is no directory", hint="agent-dev backup once DIR --to DIR")
    if os.path.lexists(target) and not os.path.isdir(target):
        raise UsageError(message=f"backup: --to {terms.target} is no directory", hint="agent-dev backup once DIR --to DIR")
    if target == source:
        raise UsageError(message=f"backup: {source} cannot be backed up into itself", hint="--to a directory elsewhere")
    if is_below(target, source):
        raise UsageError(message=f"backup: {target} lies in {source}, which is backed up", hint="--to a directory elsewhere")
    if is_below(source, target):
        raise UsageError(
            message=f"backup: {source} lies in {target}, where the backups are to lie", hint="--to a directory elsewhere"
        )
    return Terms(source, target, terms.excludes, terms.minutes, terms.keep)


def once(terms: Terms, progress: Progress) -> Done:
    """Make one backup, if anything changed, and let go of what need not be kept. Raises BackupBusy, BackupFailed."""
    rules = backups.rules_of(terms.source, terms.excludes)
    made = backups.take(backups.Wish(terms.source, terms.target, rules, progress=progress))
    if made is None:
        return Done(None)
    return Done(made, backups.let_go(terms.target, Keep(terms.keep), int(terms.minutes * MINUTE)))


def every(terms: Terms, progress: Progress, shown: Callable[[Done | str], None], *, skip_first: bool) -> None:
    """Make one again and again, until somebody ends us. `shown` is told of each, or why there is none."""
    while True:
        if not skip_first:
            try:
                shown(once(terms, progress))
            except (BackupBusy, BackupFailed) as error:
                shown(error.message)  # a full disk, a source that is not mounted: it may be better the next time
        skip_first = False
        time.sleep(terms.minutes * 60)
