"""Print checkpoints and logs as text or JSON."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from agent_dev.checkpoint.checkpoint_store import Checkpoint
from agent_dev.checkpoint.compare import PathDifference
from agent_dev.checkpoint.deleted_files import DeletedFile
from agent_dev.checkpoint.history import CheckpointChanges
from agent_dev.checkpoint.operations import FileVersion
from agent_dev.checkpoint.restore_plan import is_git_path
from agent_dev.checkpoint.rollback import RollbackResult
from agent_dev.cli.render import pager
from agent_dev.cli.render.changes import describe_omitted
from agent_dev.cli.render.colour import PLAIN, OutputTone, Palette
from agent_dev.cli.render.format import (
    change_row,
    format_table,
    print_json,
    print_limited,
    print_line,
    print_outcome,
    print_wrapped,
    roots_of,
)
from agent_dev.cli.render.log_words import describe_command, describe_connection, describe_event
from agent_dev.cli.render.pager import PatchStyle
from agent_dev.merge import patches
from agent_dev.overlay import patch_write
from agent_dev.overlay.labels import format_count, format_size, patch_path
from agent_dev.sanitize import visible
from agent_dev.session.events import LogContents
from agent_dev.session.sessions import ListedSession
from agent_dev.session.store import Record


def describe(one: Checkpoint) -> str:
    """Return the size of a checkpoint as one text."""
    return ", ".join(describe_parts(one))


def describe_parts(one: Checkpoint) -> tuple[str, ...]:
    """Return the size of a checkpoint as separate texts."""
    return (
        f"{format_count(one.changed, 'path')} changed",
        format_count(one.files, "file"),
        format_size(one.size),
        f"{format_size(one.copied)} new",
    )


def print_checkpoints(one: ListedSession, found: Sequence[Checkpoint], *, as_json: bool) -> None:
    """Print a session's checkpoints, oldest first."""
    if as_json:
        print_json({"version": 1, "session": one.session.id, "checkpoints": [_row(each) for each in found]})
        return
    for each, text in zip(found, format_table([_cells(each) for each in found]), strict=True):
        print_wrapped(text)
        print_limited([f"      problem: {visible(problem)}" for problem in each.problems], "      {} more (--json)")
    if not found:
        print_line(f"session {one.name} has no checkpoints")


def _cells(one: Checkpoint) -> tuple[str, ...]:
    why = f"{one.cause}: {one.message}" if one.message else one.cause
    return (
        f"{one.number:>4}",
        _when(one.time),
        *(f"{part}," for part in describe_parts(one)[:-1]),
        describe_parts(one)[-1],
        visible(why),
    )


def _row(one: Checkpoint) -> dict[str, object]:
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


def print_taken(one: ListedSession, new: Checkpoint, *, as_json: bool) -> None:
    """Print a new checkpoint."""
    if as_json:
        print_json({"version": 1, "session": one.session.id, **_row(new)})
        return
    print_outcome(f"checkpoint {new.number} of session {one.name}: {describe(new)}")


def print_pruned(one: ListedSession, pruned: Sequence[Checkpoint], *, is_dry: bool, as_json: bool) -> None:
    """Print the checkpoints that were or would be pruned."""
    if as_json:
        print_json(
            {"version": 1, "session": one.session.id, "dry_run": is_dry, "removed": sorted(each.number for each in pruned)}
        )
        return
    done = print_line if is_dry else print_outcome
    for each in sorted(pruned, key=lambda each: each.number):
        verb = "would remove" if is_dry else "removed"
        done(f"{verb}: {each.number:>4}  {_when(each.time)}  {visible(each.message or each.cause)}")
    if not pruned:
        done("no checkpoints to remove")


def print_versions(found: Sequence[FileVersion], *, as_json: bool) -> None:
    """Print the versions of a path in all checkpoints; text output omits repeated ones."""
    if as_json:
        rows = [
            {"checkpoint": one.checkpoint, "time": one.time, "state": one.state, "bytes": one.size, "digest": one.digest or None}
            for one in found
        ]
        print_json({"version": 1, "versions": rows})
        return
    last: tuple[object, ...] = ()
    for one in found:
        state = (one.state, one.size, one.digest)
        if state != last:
            size_text = f", {format_size(one.size)}" if one.state == "file" else ""
            suffix = " (does not exist now)" if one.is_missing else ""
            print_line(f"{one.checkpoint:>4}  {_when(one.time)}  {one.state}{size_text}{suffix}  {one.digest[:10]}".rstrip())
        last = state
    if not found:
        print_line("no checkpoints")


def print_comparison(found: Iterable[PathDifference], record: Record, shown: PatchStyle, *, is_stat: bool) -> str:
    """Print the differences of two checkpoints as a patch or one line each; return a note about what is not in the patch."""
    roots, skipped = roots_of(record), []
    form = patches.patch_format_for(record, is_exact=shown.is_exact)
    for one in found:
        if is_stat:
            print_line(change_row(one.change, roots))
            continue
        path = patch_path(one.change.key, roots)
        pager.write_patch(patch_write.change_patch(one.change, path, one.before, one.after, form), shown)
        why = patch_write.omitted_part(one.change, path, one.before, one.after)
        if why:
            skipped.append((path, why))
    return describe_omitted(skipped)


def _as_json(one: ListedSession, result: RollbackResult) -> None:
    row = {"to": result.target or None, "before": result.previous, "paths": list(result.paths), "problems": list(result.problems)}
    print_json({"version": 1, "session": one.session.id, **row})


def print_rollback(one: ListedSession, result: RollbackResult, *, as_json: bool) -> None:
    """Print the result of a rollback."""
    if as_json:
        _as_json(one, result)
        return
    shown = [path for path in result.paths if not is_git_path(path)]
    print_limited([f"  {visible(path or '.')}" for path in shown], "  {} more", print_outcome)
    if len(shown) != len(result.paths):
        print_outcome(f"  and {len(result.paths) - len(shown)} in the agent's git directory")
    count = format_count(len(shown), "path")
    print_outcome(f"session {one.name} rolled back to checkpoint {result.target}: {count} changed")
    for problem in result.problems:
        print_line(f"  failed: {visible(problem)}")
    print_outcome(f"the previous state is checkpoint {result.previous}")


def print_log(one: ListedSession, found: LogContents, *, kind: str, as_json: bool, palette: Palette = PLAIN) -> None:
    """Print a session's events, its agent's commands or its connections."""
    if as_json:
        document = {"version": 1, "session": one.session.id, kind: iter(found.rows)}
        print_json({**document, "left_out": found.dropped, "problem": found.problem or None})
        return
    is_empty = True
    for row in found.rows.by_time():  # the start may be logged after the first checkpoint
        is_empty = False
        text = _DESCRIBE[kind](row, one.record["root"])
        time_ns = row.get("time")
        when = palette.paint(_when(time_ns), OutputTone.DIM) + "  " if isinstance(time_ns, int) else ""
        print_line(f"{when}{visible(text)}".rstrip())
    if found.dropped:
        print_line(f"{found.dropped:,} more were not logged: the log or the disk was full")
    elif is_empty and not found.problem:
        print_line(f"session {one.name} has no {kind}")


_DESCRIBE: dict[str, Callable[[Mapping[str, object], str], str]] = {
    "events": lambda row, _: describe_event(row),
    "commands": describe_command,
    "connections": lambda row, _: describe_connection(row),
}


def print_changes(one: ListedSession, found: Sequence[CheckpointChanges], *, as_json: bool) -> None:
    """Print the changes from checkpoint to checkpoint."""
    if as_json:
        rows = [{"checkpoint": each.checkpoint.number, "time": each.checkpoint.time, "paths": list(each.paths)} for each in found]
        print_json({"version": 1, "session": one.session.id, "changes": rows})
        return
    for each in found:
        print_line(
            f"{_when(each.checkpoint.time)}  checkpoint {each.checkpoint.number}: {format_count(len(each.paths), 'path')} changed"
        )
        print_limited([f"  {visible(path)}" for path in each.paths], "  {} more")
    if not found:
        print_line(f"session {one.name} has no checkpoints")


def print_deleted(one: ListedSession, found: Sequence[DeletedFile], *, as_json: bool) -> None:
    """Print the files deleted in a session."""
    if as_json:
        rows = [
            {"path": each.path, "type": each.kind, "bytes": each.size, "checkpoint": each.checkpoint or None} for each in found
        ]
        print_json({"version": 1, "session": one.session.id, "deleted": rows})
        return
    for each in found:
        source = f"checkpoint {each.checkpoint}" if each.checkpoint else "the repository"
        print_line(f"{visible(each.path)}  {each.kind}, {format_size(each.size)}, in {source}")
    if not found:
        print_line(f"no deleted files found in session {one.name}")


def print_restored(one: ListedSession, result: RollbackResult, *, as_json: bool) -> None:
    """Print the result of restoring deleted files."""
    if as_json:
        _as_json(one, result)
        return
    print_limited([f"  {visible(path)}" for path in result.paths], "  {} more", print_outcome)
    print_outcome(f"{format_count(len(result.paths), 'path')} restored in session {one.name}")
    for problem in result.problems:
        print_line(f"  failed: {visible(problem)}")
