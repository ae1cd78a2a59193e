"""What an undo or a redo did, and the merges that there were, as text or JSON on stdout."""

import time
from collections import Counter
from collections.abc import Sequence

from agent_dev.cli.render.commits import called
from agent_dev.cli.render.format import as_document, few, fitted, left_rows, line, name
from agent_dev.merge.history import Recorded
from agent_dev.merge.undo import Undone
from agent_dev.overlay.changes import in_order
from agent_dev.sanitize import visible


def undone(done: Undone, *, as_json: bool, word: str) -> None:
    """Print what an undo or a redo did."""
    if as_json:
        as_document(
            {
                "version": 1,
                "merge": done.merge,
                "refs": [{"name": ref.name, "before": ref.old or None, "after": ref.new or None} for ref in done.refs],
                "paths": [name(key, done.roots) for key in done.paths],
                "left": left_rows(done.left, done.roots),
                "offered": [name(one.key, done.roots) for one in done.left if one.key in done.offered],
                "kept": [name(key, done.roots) for key in done.paths if key in done.kept],
            }
        )
        return
    for ref in done.refs:
        line(f"{called(ref.name)} leads to {ref.new[:10] or 'nothing'} again")
    rows = [
        f"{word} {visible(name(key, done.roots))}{' (what you changed since stays)' * (key in done.kept)}" for key in done.paths
    ]
    few(rows, f"{word} {{}} more")
    how = "after a redo, --three-way" if done.refs else "--three-way"  # refs that are back cannot go back again
    for left in done.left:
        offer = f" ({how} takes back what the merge did, and keeps what you did)" * (left.key in done.offered)
        line(f"left {visible(name(left.key, done.roots))}: {visible(left.why)}; it stays as you have it{offer}")
    # What of a session a redo had nothing to do with is not known here: "nothing left" would be read as of the session.
    line(f"merge {done.merge}: {len(done.paths)} {word}" + (f", {len(done.left)} left" if done.left else ""))


def merges(found: Sequence[Recorded], *, as_json: bool, with_roots: bool) -> None:
    """Print merges."""
    if as_json:
        rows = [
            {
                "merge": one.id,
                "session": one.session,
                "roots": list(one.roots),
                "time": one.time,
                "state": one.state,
                "changes": [{"path": name(change.key, one.roots), "kind": change.kind} for change in in_order(one.changes)],
                "refs": [{"name": ref.name, "before": ref.old or None, "after": ref.new or None} for ref in one.refs],
                "problem": one.problem or None,
            }
            for one in found
        ]
        as_document({"version": 1, "merges": rows})
        return
    for one in found:
        if one.problem:
            fitted(f"{one.id}  damaged  {visible(one.problem)}")
            continue
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.time // 10**9))
        kinds = Counter(change.kind for change in one.changes)
        what = ", ".join([*(called(ref.name) for ref in one.refs), *(f"{count} {kind}" for kind, count in kinds.items())])
        place = f"  {visible(one.roots[0])}" if with_roots else ""
        fitted(f"{one.id}  {one.state:<13}  {when}  {what}{place}")
    if not found:
        line("nothing was merged here")
