"""Print undo and redo results and the list of merges as text or JSON."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from agent_dev.cli.render.commits import ref_label
from agent_dev.cli.render.format import (
    command_rows,
    print_json,
    print_limited,
    print_line,
    print_outcome,
    print_wrapped,
    skipped_as_json,
)
from agent_dev.cli.render.revert_commands import redo_command
from agent_dev.fs.entry import Key
from agent_dev.git.updates import RefUpdate
from agent_dev.merge.history import MergeRecord
from agent_dev.merge.undo import UndoResult
from agent_dev.overlay.changes import Change, ChangeKind, sorted_changes
from agent_dev.overlay.fold_renames import fold_recorded
from agent_dev.overlay.labels import display_path, format_count
from agent_dev.sanitize import visible

UNDONE, REDONE = "undone", "merged again"
_THREE_WAY = "agent-dev undo --three-way"


def print_undo(result: UndoResult, *, as_json: bool, verb: str, named: str = "") -> None:
    """Print the result of an undo or a redo, and the next commands; `named`: the merge that the command named."""
    if as_json:
        print_json(
            {
                "version": 1,
                "merge": result.merge,
                "session": result.session,
                "time": result.time,
                "refs": [{"name": ref.name, "before": ref.old or None, "after": ref.new or None} for ref in result.refs],
                "declined": list(result.declined),
                "paths": [display_path(key, result.roots) for key in result.paths],
                "skipped": skipped_as_json(result.skipped, result.roots),
                "mergeable": [
                    display_path(one.key, result.roots) for one in result.skipped if one.key in result.three_way_candidates
                ],
                "kept": [display_path(key, result.roots) for key in result.paths if key in result.merged_with_yours],
            }
        )
        return
    for ref in result.refs:
        print_outcome(f"{ref_label(ref.name)} reset to {ref.new[:10] or 'nothing'}")
    every = frozenset(result.paths)  # a search in the tuple for each path took 12 s for 30,000
    old_paths = {old for new, old in result.renames.items() if new in every and old in every}
    paths = [key for key in result.paths if key not in old_paths]
    rows = [f"{verb} {_describe_path(key, result, is_renamed=result.renames.get(key) in old_paths)}" for key in paths]
    print_limited(rows, f"{verb} {{}} more", print_outcome)
    for left in result.skipped:
        print_line(f"skipped {visible(display_path(left.key, result.roots))}: {visible(left.reason)}; your version is kept")
    # Not "nothing left": that would be read as said of the session, whose other changes are unknown here.
    parts = _ref_labels(result.refs) + ([format_count(len(paths), "change")] if paths else [])
    parts += [_describe_declined(result.declined)] if result.declined else []
    done = ", ".join(parts) or "nothing"
    skipped = f", {len(result.skipped)} skipped" if result.skipped else ""
    made = "declined" if result.declined and not paths and not result.refs else "merged"
    print_outcome(f"session {visible(result.name)}, {made} {_when(result.time)}: {done} {verb}{skipped}")
    for row in _next_commands(result, named, is_undo=verb == UNDONE):
        print_outcome(row)


def _next_commands(result: UndoResult, named: str, *, is_undo: bool) -> Iterator[str]:
    """Yield a line per command that completes, reverts or replaces an undo or a redo."""
    if result.three_way_candidates:
        about = f"to revert {len(result.three_way_candidates)} skipped and keep your edits in it"
        yield from command_rows(about, f"{_THREE_WAY} {named}".rstrip())
    if result.earlier:
        yield from command_rows("to undo the merge before it", f"agent-dev undo {result.earlier}")
    if result.has_effect and is_undo:
        yield from command_rows("to apply it again", redo_command(result.roots, result.merge))
    elif result.has_effect:
        yield from command_rows("to revert it", f"agent-dev undo {result.merge}")


def _ref_labels(refs: Sequence[RefUpdate]) -> list[str]:
    """Return each ref's display name once, with the number of repositories in which one of that name was updated."""
    labels = Counter(ref_label(ref.name) for ref in refs)
    return [f"{label} in {count} repositories" if count > 1 else label for label, count in labels.items()]


def _describe_declined(ids: Sequence[str]) -> str:
    return f"decline of {format_count(len(ids), 'commit')}"


def _describe_path(key: Key, result: UndoResult, *, is_renamed: bool) -> str:
    origin = f" (renamed from {visible(display_path(result.renames[key], result.roots))})" if is_renamed else ""
    return visible(display_path(key, result.roots)) + origin + " (your later changes kept)" * (key in result.merged_with_yours)


def _when(time_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(time_ns // 10**9))


def print_merges_as_json(found: Iterable[tuple[MergeRecord, Sequence[Change]]]) -> None:
    """Print merges with their changes as one JSON document."""
    rows = [
        {
            "merge": one.id,
            "session": one.session,
            "name": one.name,
            "roots": list(one.roots),
            "time": one.time,
            "state": one.state,
            "changes": [
                {
                    "path": display_path(change.key, one.roots),
                    "kind": change.kind,
                    "from": display_path(change.renamed_from, one.roots) if change.renamed_from else None,
                }
                for change in sorted_changes(fold_recorded(changes))
            ],
            "refs": [{"name": ref.name, "before": ref.old or None, "after": ref.new or None} for ref in one.refs],
            "declined": list(one.declined),
            "problem": one.problem or None,
        }
        for one, changes in found
    ]
    print_json({"version": 1, "merges": rows})


def print_merges(found: Sequence[MergeRecord], *, with_roots: bool) -> None:
    """Print merges, one per line."""
    for one in found:
        if one.problem:
            print_wrapped(f"{one.id}  damaged  {visible(one.problem)}")
            continue
        kinds = dict(one.kinds)
        counts = (f"{kinds[kind]} {kind}" for kind in ChangeKind if kind in kinds)
        declined = [_describe_declined(one.declined)] if one.declined else []
        summary = ", ".join([*_ref_labels(one.refs), *counts, *declined])
        root = f"  {visible(one.roots[0])}" if with_roots else ""
        print_wrapped(f"{one.id}  {one.state:<13}  {_when(one.time)}  {visible(one.name)}: {summary}{root}")
    if not found:
        print_line("no merges in this repository")
