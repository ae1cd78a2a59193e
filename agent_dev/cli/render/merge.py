"""Print the result of a merge as text or JSON."""

import os
from collections.abc import Mapping, Sequence

from agent_dev.agent_git.unlisted_work import describe_all
from agent_dev.cli.render.format import (
    MAX_ROWS,
    change_row,
    print_first,
    print_json,
    print_limited,
    print_line,
    print_outcome,
    roots_of,
    skipped_as_json,
)
from agent_dev.cli.render.revert_commands import describe_place, undo_command
from agent_dev.fs.entry import Key
from agent_dev.merge import select_by_options
from agent_dev.merge.merge import MergeResult
from agent_dev.merge.review import Review
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.overlay.fold_renames import fold_changes
from agent_dev.overlay.labels import display_path, format_count
from agent_dev.quick_dataclass import replace
from agent_dev.sanitize import visible

_FEW = 3  # names that are shown
_IGNORED = "ignored by git"
_REASONS = ("risky", _IGNORED)  # how a reason begins


def print_merge(result: MergeResult, review: Review, *, is_dry: bool, as_json: bool, is_restore: bool = False) -> None:
    """Print the result of a merge or of its dry run; `is_restore`: it applied a snapshot, not an agent's changes."""
    result = _fold_result(result, review)
    roots = roots_of(review.record)
    if as_json:
        print_json(
            {
                "version": 1,
                "session": review.session.id,
                "merge": result.id or None,
                "dry_run": is_dry,
                "applied": [display_path(change.key, roots) for change in result.applied],
                "skipped": skipped_as_json(result.skipped, roots),
                "conflicts": skipped_as_json(result.conflicts, roots),
                "problems": list(review.changes.problems),
                "split_links": [display_path(key, roots) for key in result.hard_linked],
            }
        )
        return
    action = "restore" if is_restore else "merge"
    verb = f"would {action}" if is_dry else f"{action}d"
    done = print_line if is_dry else print_outcome  # a dry run is asked for its lists
    print_first(result.applied, lambda change: f"{verb} {change_row(change, roots)}", f"{verb} {{}} more", done)
    if result.hard_linked:
        print_line(_describe_split_links(result, roots, is_dry=is_dry))
    for left in result.conflicts:
        print_line(f"conflict: {visible(display_path(left.key, roots))}: {visible(left.reason)}; your version is kept")
    if result.conflicts and not (is_restore and is_dry):  # its session is removed
        _print_resolution_hints(result.conflicts, review)
    if result.conflicts and is_restore:
        print_line("in a restore `yours` is the current version, `agent` the one before the run")
    print_first(
        result.skipped,
        lambda left: f"skipped {visible(display_path(left.key, roots))}: {visible(left.reason)}",
        "skipped {} more (agent-dev status)",
        done,
    )
    verb = "not restored" if is_restore else "unreadable"
    print_limited([f"{verb}: {visible(problem)}" for problem in review.changes.problems], f"{verb}: {{}} more (agent-dev status)")
    if why := _reasons_left(result):
        print_line(f"not {action}d: {why} ({_next_command(result, review)})")
    _print_total(result, review, action, is_dry=is_dry)


def _print_resolution_hints(conflicts: Sequence[SkippedChange], review: Review) -> None:
    """Print how the conflicts can be resolved: each by some of the sides, or by a change of the real tree."""
    found = {select_by_options.possible_sides(review, one.key) for one in conflicts} - {()}
    if ways := ["|".join(sides) for sides in sorted(found, key=len)]:
        label = visible(str(review.record["name"] or review.session.id))
        only = f" (whole files: {ways[0]})" if len(ways) > 1 else ""
        print_line(f"resolve conflicts: agent-dev merge {label} --resolve PATH={ways[-1]}{only}")
    others = [one.key for one in conflicts if not select_by_options.possible_sides(review, one.key)]
    for hint in dict.fromkeys(select_by_options.resolution_hint(review, key) for key in others[:_FEW]):
        print_line(f"hint: {visible(hint)}")


def _fold_result(result: MergeResult, review: Review) -> MergeResult:
    """Return a result with each renamed file as one change."""
    renames = review.changes.renames
    if not renames:
        return result
    skipped, conflicts = (_without_old_paths(some, renames) for some in (result.skipped, result.conflicts))
    return replace(result, applied=fold_changes(result.applied, renames), skipped=skipped, conflicts=conflicts)


def _without_old_paths(some: Sequence[SkippedChange], renames: Mapping[Key, Key]) -> tuple[SkippedChange, ...]:
    old = {renames[one.key] for one in some if one.key in renames}
    return tuple(one for one in some if one.key not in old)


def _reasons_left(result: MergeResult) -> str:
    """Return why changes were left, with their numbers; "" if they were only not selected."""
    words = [left.reason.partition(":")[0] for left in result.skipped]
    known = {word: words.count(word) for word in (*_REASONS, "in conflict", "not selected")}
    counts = {word: known[word] for word in _REASONS}
    counts |= {"in conflict": len(result.conflicts) + known["in conflict"], "blocked": len(words) - sum(known.values())}
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)


def _next_command(result: MergeResult, review: Review) -> str:
    """Return what to do with the changes that are left; if git ignores all of them, they are seldom wanted."""
    is_more_left = result.partly or result.has_commits_left or result.unlisted
    has_more = result.conflicts or is_more_left or any(one.reason != _IGNORED for one in result.skipped)
    if has_more or not (result.id and result.applied) or review.is_running or review.record.get("is_restore"):
        return "agent-dev merge shows them"
    return f"agent-dev discard {visible(str(review.record['name'] or review.session.id))} moves them to the trash"


def _describe_split_links(result: MergeResult, roots: Sequence[str], *, is_dry: bool = False) -> str:
    """Return a line about hard links that became two files."""
    shown = ", ".join(visible(display_path(key, roots)) for key in result.hard_linked[:_FEW])
    stale = f" and {len(result.hard_linked) - _FEW} more" if len(result.hard_linked) > _FEW else ""
    return f"{'would split' if is_dry else 'split'} hard links: other names of {shown}{stale} keep the old content"


def _print_total(result: MergeResult, review: Review, action: str, *, is_dry: bool) -> None:
    """Print the number of changes that were merged or restored (`action`), and how many are left."""
    if not result.applied:
        print_line(f"nothing {'would be' if is_dry else 'was'} {action}d")
    elif not is_dry:
        roots = roots_of(review.record)
        done = f"{format_count(len(result.applied), 'change')} {action}d{describe_place(roots)}"
        left = "" if action == "restore" and result.is_session_empty else f", {_describe_left(result, review)} in the session"
        print_outcome(f"merge {result.id}: {done}{left} ({undo_command(roots, result.id)})")
        if result.has_commits_left:
            name = visible(str(review.record["name"] or review.session.id))
            print_line(
                f"hint: agent-dev merge {name} --commits imports its commits, agent-dev commits {name} --decline declines them"
            )
        for line in _describe_unlisted(result, review):
            print_line(line)


def _describe_left(result: MergeResult, review: Review, *, none: str = "nothing") -> str:
    """Return what a merge left in the session: `2 left`, `2 changes and commits left`; `none`: the word for nothing."""
    count = count_left(result, review)
    others = ["commits"] if result.has_commits_left else []
    others += ["work in submodules"] if result.unlisted else []
    parts = [format_count(count, "change") if others else str(count)] if count else []
    return f"{' and '.join((*parts, *others)) or none} left"


def _describe_unlisted(result: MergeResult, review: Review) -> tuple[str, ...]:
    lines = describe_all(result.unlisted, review.record, review.session) if result.unlisted else ()
    return tuple(map(visible, lines))


def count_left(result: MergeResult, review: Review) -> int:
    """Return how many changes a merge left in the session: skipped, in conflict, partly merged, or unreadable."""
    if result.is_session_empty:
        return 0
    return len(result.skipped) + len(result.conflicts) + result.partly + len(review.changes.problems)


def describe_merge(result: MergeResult, stale: Sequence[SkippedChange], review: Review) -> tuple[str, ...]:
    """Return the report for the screen: conflicts, the numbers of a merge, and how to undo it."""
    result = _fold_result(result, review)
    roots = roots_of(review.record)
    lines = [_describe_split_links(result, roots)] if result.hard_linked else []
    lines += [
        f"not merged: {visible(display_path(one.key, roots))}: {visible(one.reason)}" for one in (*result.conflicts, *stale)
    ]
    if len(lines) > MAX_ROWS:
        lines = [*lines[:MAX_ROWS], f"not merged: {len(lines) - MAX_ROWS} more (agent-dev status)"]
    if not result.applied:
        return (*lines, "nothing was merged")
    count = sum(not change.is_session_only for change in result.applied)
    kept = len(result.applied) - count
    suffix = f", yours kept in {kept}" if kept else ""
    merged = f"{format_count(count, 'change')} merged{suffix}, {_describe_left(result, review, none='nothing is')} in the session"
    rest = _describe_unlisted(result, review)
    return (*lines, merged, *rest, f"{undo_command(roots, result.id)} reverts it (merge {result.id})")


def print_export(count: int, target: str, deleted: Sequence[str], *, is_patch: bool) -> None:
    """Print the result of an export and the changes that it does not contain."""
    if is_patch and not os.path.getsize(target):
        print_outcome(f"{visible(target)} is empty: no git patch can contain the {format_count(count, 'change')}")
    else:
        print_outcome(f"{format_count(count, 'change')} exported to {visible(target)}; nothing was merged")
    for path in deleted:
        print_line(f"{'not in the patch' if is_patch else 'deleted by the agent'}: {visible(path)}")
