"""Checkpoints as text or JSON on stdout."""

import os
import shlex
import time
from collections.abc import Iterable, Sequence

from agent_dev.checkpoint.checkpoint import Version
from agent_dev.checkpoint.checkpoint_store import About
from agent_dev.checkpoint.compare import Compared
from agent_dev.checkpoint.deleted_files import Deleted
from agent_dev.checkpoint.history import Changed
from agent_dev.checkpoint.rollback import RolledBack
from agent_dev.cli.render.changes import as_patch
from agent_dev.cli.render.format import as_document, few, fitted, line, name, numbered, row_of, size, table
from agent_dev.diff import hunks as blocks
from agent_dev.sanitize import visible
from agent_dev.session.events import Told
from agent_dev.session.sessions import Listed


def in_words(one: About) -> str:
    """Return how much a checkpoint holds."""
    return ", ".join(in_parts(one))


def in_parts(one: About) -> tuple[str, ...]:
    """Return the numbers of which that consists."""
    return f"{one.changed} changed", numbered(one.files, "file"), size(one.size), f"{size(one.copied)} new"


def checkpoints(one: Listed, found: Sequence[About], *, as_json: bool) -> None:
    """Print a session's checkpoints, oldest first."""
    if as_json:
        as_document({"version": 1, "session": one.session.id, "checkpoints": [_row(each) for each in found]})
        return
    for each, text in zip(found, table([_cells(each) for each in found]), strict=True):
        fitted(text)
        few([f"      not as it should be: {visible(problem)}" for problem in each.problems], "      {} more (--json)")
    if not found:
        line(f"session {one.name} has no checkpoint")


def _cells(one: About) -> tuple[str, ...]:
    why = f"{one.cause}: {one.message}" if one.message else one.cause
    return f"{one.number:>4}", _when(one.time), *(f"{part}," for part in in_parts(one)[:-1]), in_parts(one)[-1], visible(why)


def _row(one: About) -> dict[str, object]:
    return {
        "checkpoint": one.number,
        "time": one.time,
        "cause": one.cause,
        "message": one.message or None,
        "changed": one.changed,
        "files": one.files,
        "bytes": one.size,
        "copied": one.copied,
        "problems": list(one.problems),
    }


def _when(time_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ns // 10**9))


def taken(one: Listed, made: About, *, as_json: bool) -> None:
    """Print a checkpoint that was taken."""
    if as_json:
        as_document({"version": 1, "session": one.session.id, **_row(made)})
        return
    line(f"checkpoint {made.number} of session {one.name}: {in_words(made)}")


def thinned(one: Listed, gone: Sequence[About], *, is_dry: bool, as_json: bool) -> None:
    """Print what was let go, or would be."""
    if as_json:
        as_document({"version": 1, "session": one.session.id, "dry_run": is_dry, "gone": sorted(each.number for each in gone)})
        return
    for each in sorted(gone, key=lambda each: each.number):
        line(f"{'would go' if is_dry else 'gone'}: {each.number:>4}  {_when(each.time)}  {visible(each.message or each.cause)}")
    if not gone:
        line("every checkpoint is kept")


def versions(found: Sequence[Version], *, as_json: bool) -> None:
    """Print what one path was in each checkpoint; those that are like the one before are left out as text."""
    if as_json:
        rows = [
            {"checkpoint": one.checkpoint, "time": one.time, "state": one.state, "bytes": one.size, "digest": one.digest or None}
            for one in found
        ]
        as_document({"version": 1, "versions": rows})
        return
    last: tuple[object, ...] = ()
    for one in found:
        state = (one.state, one.size, one.digest)
        if state != last:
            large = f", {size(one.size)}" if one.state == "file" else ""
            nothing = ", where there is nothing now" if one.is_nothing else ""
            line(f"{one.checkpoint:>4}  {_when(one.time)}  {one.state}{large}{nothing}  {one.digest[:10]}".rstrip())
        last = state
    if not found:
        line("there is no checkpoint")


def compared(found: Iterable[Compared], roots: Sequence[str], *, is_stat: bool) -> None:
    """Print what differs between two checkpoints, as a patch or a line each."""
    for one in found:
        if is_stat:
            line(row_of(one.change, roots))
        else:
            path = os.fsencode(name(one.change.key, roots).lstrip("/"))
            as_patch(blocks.patch(one.change, path, one.before, one.after))


def _as_json(one: Listed, done: RolledBack) -> None:
    row = {"to": done.to or None, "before": done.before, "paths": list(done.paths), "problems": list(done.problems)}
    as_document({"version": 1, "session": one.session.id, **row})


def rolled_back(one: Listed, done: RolledBack, *, as_json: bool) -> None:
    """Print what a rollback did."""
    if as_json:
        _as_json(one, done)
        return
    shown = [path for path in done.paths if not _is_git(path)]
    few([f"  {visible(path or '.')}" for path in shown], "  {} more")
    if len(shown) != len(done.paths):
        line(f"  {len(done.paths) - len(shown)} of the agent's git directory")
    line(f"session {one.name} is as at checkpoint {done.to}: {len(done.paths)} path{'s' * (len(done.paths) != 1)} touched")
    for problem in done.problems:
        line(f"  left: {visible(problem)}")
    line(f"what it held before is checkpoint {done.before}")


def _is_git(path: str) -> bool:
    return path == ".git" or path.startswith((".git/", "git-0:"))


_UNTOLD = ("n", "time", "event", "steps")  # in lines: what is said otherwise, or has lines of its own in --json


def log(one: Listed, told: Told, *, what: str, as_json: bool) -> None:
    """Print a session's events, or its agent's commands."""
    if as_json:
        document = {"version": 1, "session": one.session.id, what: list(told.rows)}
        as_document({**document, "left_out": told.dropped, "problem": told.problem or None})
        return
    for row in sorted(told.rows, key=_moment):  # who notes the start may do so after the first checkpoint
        more = [_pair(key, value) for key, value in row.items() if key not in _UNTOLD and value not in (None, [])]
        moment = row.get("time")
        when = _when(moment) if isinstance(moment, int) else ""
        line(" ".join([when, f"{visible(str(row.get('event', '')))}", *more]).replace("  ", " ").rstrip())
    if told.dropped:
        line(f"{told.dropped:,} more were left out, since the log or the disk was full")
    elif not told.rows and not told.problem:
        line(f"session {one.name} has no {what}")


def _moment(row: dict[str, object]) -> int:
    moment = row.get("time")
    return moment if isinstance(moment, int) else 0


def _pair(key: str, value: object) -> str:
    if isinstance(value, dict):
        return " ".join(_pair(f"{key}.{name}", one) for name, one in value.items())
    words = shlex.join(map(str, value)) if isinstance(value, list) else str(value)
    return visible(f"{key}={words}")


def changes(one: Listed, found: Sequence[Changed], *, as_json: bool) -> None:
    """Print what changed from checkpoint to checkpoint."""
    if as_json:
        rows = [{"checkpoint": each.about.number, "time": each.about.time, "paths": list(each.paths)} for each in found]
        as_document({"version": 1, "session": one.session.id, "changes": rows})
        return
    for each in found:
        line(f"{_when(each.about.time)} checkpoint {each.about.number}: {len(each.paths)} changed")
        few([f"  {visible(path)}" for path in each.paths], "  {} more")
    if not found:
        line(f"session {one.name} has no checkpoint")


def deleted(one: Listed, found: Sequence[Deleted], *, as_json: bool) -> None:
    """Print what was deleted in a session."""
    if as_json:
        rows = [
            {"path": each.path, "type": each.kind, "bytes": each.size, "checkpoint": each.checkpoint or None} for each in found
        ]
        as_document({"version": 1, "session": one.session.id, "deleted": rows})
        return
    for each in found:
        source = f"checkpoint {each.checkpoint}" if each.checkpoint else "the repository"
        line(f"{visible(each.path)}  {each.kind}, {size(each.size)}, in {source}")
    if not found:
        line(f"nothing is known to be deleted in session {one.name}")


def brought(one: Listed, done: RolledBack, *, as_json: bool) -> None:
    """Print what was brought back."""
    if as_json:
        _as_json(one, done)
        return
    few([f"  {visible(path)}" for path in done.paths], "  {} more")
    line(f"{len(done.paths)} path{'s' * (len(done.paths) != 1)} brought back in session {one.name}")
    for problem in done.problems:
        line(f"  left: {visible(problem)}")
