"""What a merge did, as text or JSON on stdout."""

from collections.abc import Sequence

from agent_dev.cli.render.format import MANY, as_document, few, left_rows, line, name, numbered, roots_of, row_of
from agent_dev.merge.merge import Merged
from agent_dev.merge.review import Review
from agent_dev.merge_engine.merge_plan import Left
from agent_dev.sanitize import visible


def merged(done: Merged, review: Review, *, is_dry: bool, as_json: bool, is_restore: bool = False) -> None:
    """Print what a merge did or would do; `is_restore`: what it brings home is what was there before, not an agent's."""
    roots = roots_of(review.record)
    if as_json:
        as_document(
            {
                "version": 1,
                "session": review.session.id,
                "merge": done.id or None,
                "dry_run": is_dry,
                "taken": [name(change.key, roots) for change in done.taken],
                "left": left_rows(done.left, roots),
                "conflicts": left_rows(done.conflicts, roots),
                "problems": list(review.changes.problems),
            }
        )
        return
    word = "would take" if is_dry else "merged"
    few([f"{word} {row_of(change, roots)}" for change in done.taken], f"{word} {{}} more")
    for left in done.conflicts:
        line(f"conflict: {visible(name(left.key, roots))}: {visible(left.why)}; it stays as you have it")
    if done.conflicts and not (is_restore and is_dry):  # of which no session is left
        label = review.record["name"] or review.session.id
        line(f"conflicts stay in the session: agent-dev merge {label} --resolve PATH=mine|agent|both|edit settles one")
    if done.conflicts and is_restore:
        line("of a restore mine is what is there now, and agent what was there before the run")
    few([f"left {visible(name(left.key, roots))}: {visible(left.why)}" for left in done.left], "left {} more (agent-dev status)")
    few([f"not read: {visible(problem)}" for problem in review.changes.problems], "not read: {} more (agent-dev status)")
    _last_line(done, is_dry=is_dry)


def _last_line(done: Merged, *, is_dry: bool) -> None:
    if not done.taken:
        line("nothing would be merged" if is_dry else "nothing was merged")
    elif not is_dry:
        line(_sum(done))


def _sum(done: Merged) -> str:
    left = "nothing" if done.is_all else len(done.left) + len(done.conflicts)
    return f"merge {done.id}: {len(done.taken)} taken, {left} left (agent-dev undo)"


def told(done: Merged, more: Sequence[Left], review: Review) -> tuple[str, ...]:
    """Return what the screen says of a merge: what it did in numbers, what was in the way, and how it is taken back."""
    roots = roots_of(review.record)
    stopped = [f"not merged: {visible(name(one.key, roots))}: {visible(one.why)}" for one in (*done.conflicts, *more)]
    if len(stopped) > MANY:
        stopped = [*stopped[:MANY], f"not merged: {len(stopped) - MANY} more (agent-dev status)"]
    if not done.taken:
        return (*stopped, "nothing was merged")
    left = "nothing is left" if done.is_all else f"{len(done.left) + len(done.conflicts)} left in the session"
    count = sum(not change.is_dropped for change in done.taken)
    kept = len(done.taken) - count
    stays = f", yours kept in {kept}" if kept else ""
    merged = f"{count} change{'s' * (count != 1)} merged{stays}, {left}"
    return (*stopped, merged, f"agent-dev undo takes it back (merge {done.id})")


def exported(count: int, target: str, gone: Sequence[str]) -> None:
    """Print what was written out, and what a directory cannot show."""
    line(f"{numbered(count, 'change')} written to {visible(target)}; nothing was merged")
    for path in gone:
        line(f"deleted by the agent: {visible(path)}")
