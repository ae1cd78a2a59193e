"""Print undo and redo results and the list of merges as text or JSON."""

import time
from collections import Counter
from collections.abc import Sequence

from agent_dev.cli.render.commits import ref_label
from agent_dev.cli.render.format import print_json, print_limited, print_line, print_outcome, print_wrapped, skipped_as_json
from agent_dev.fs.entry import Key
from agent_dev.merge.history import MergeRecord
from agent_dev.merge.undo import UndoResult
from agent_dev.overlay.changes import sorted_changes
from agent_dev.overlay.fold_renames import fold_recorded
from agent_dev.overlay.labels import display_path, format_count
from agent_dev.sanitize import visible


def print_undo(result: UndoResult, *, as_json: bool, verb: str) -> None:
    """Print the result of an undo or a redo."""
    if as_json:
        print_json(
            {
                "version": 1,
                "merge": result.merge,
                "refs": [{"name": ref.name, "before": ref.old or None, "after": ref.new or None} for ref in result.refs],
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
    old_paths = {result.renames[key] for key in result.paths if result.renames.get(key) in result.paths}
    paths = [key for key in result.paths if key not in old_paths]
    rows = [f"{verb} {_describe_path(key, result, is_renamed=result.renames.get(key) in old_paths)}" for key in paths]
    print_limited(rows, f"{verb} {{}} more", print_outcome)
    flags = "after a redo, --three-way" if result.refs else "--three-way"  # reset refs cannot be reset again
    for left in result.skipped:
        suffix = f" ({flags} reverts it and keeps your changes)" * (left.key in result.three_way_candidates)
        print_line(
            f"skipped {visible(display_path(left.key, result.roots))}: {visible(left.reason)}; your version is kept{suffix}"
        )
    # Not "nothing left": that would be read as said of the session, whose other changes are unknown here.
    print_outcome(
        f"merge {result.merge}: {format_count(len(paths), 'change')} {verb}"
        + (f", {len(result.skipped)} skipped" if result.skipped else "")
    )


def _describe_path(key: Key, result: UndoResult, *, is_renamed: bool) -> str:
    origin = f" (renamed from {visible(display_path(result.renames[key], result.roots))})" if is_renamed else ""
    return visible(display_path(key, result.roots)) + origin + " (your later changes kept)" * (key in result.merged_with_yours)


def print_merges(found: Sequence[MergeRecord], *, as_json: bool, with_roots: bool) -> None:
    """Print merges."""
    if as_json:
        rows = [
            {
                "merge": one.id,
                "session": one.session,
                "roots": list(one.roots),
                "time": one.time,
                "state": one.state,
                "changes": [
                    {
                        "path": display_path(change.key, one.roots),
                        "kind": change.kind,
                        "from": display_path(change.renamed_from, one.roots) if change.renamed_from else None,
                    }
                    for change in sorted_changes(fold_recorded(one.changes))
                ],
                "refs": [{"name": ref.name, "before": ref.old or None, "after": ref.new or None} for ref in one.refs],
                "problem": one.problem or None,
            }
            for one in found
        ]
        print_json({"version": 1, "merges": rows})
        return
    for one in found:
        if one.problem:
            print_wrapped(f"{one.id}  damaged  {visible(one.problem)}")
            continue
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.time // 10**9))
        kinds = Counter(change.kind for change in fold_recorded(one.changes))
        summary = ", ".join([*(ref_label(ref.name) for ref in one.refs), *(f"{count} {kind}" for kind, count in kinds.items())])
        root = f"  {visible(one.roots[0])}" if with_roots else ""
        print_wrapped(f"{one.id}  {one.state:<13}  {when}  {summary}{root}")
    if not found:
        print_line("no merges in this repository")
