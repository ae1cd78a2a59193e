"""Values as text or JSON on stdout. What an agent wrote goes through `visible` first."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from agent_dev.commands.merge import Merged
from agent_dev.commands.review import Review
from agent_dev.commands.sessions import Listed
from agent_dev.commands.undo import Recorded, Undone
from agent_dev.core import blocks
from agent_dev.core.changes import Change, ChangeSet, Key, Kind
from agent_dev.core.commits import Commit
from agent_dev.core.merge import Left
from agent_dev.host.store import Record
from agent_dev.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.commands.doctor import Finding
    from agent_dev.commands.show import Shown

_MANY = 30  # rows: past that a number stands for the rest
_SIGNS = {Kind.ADDED: "+", Kind.EDITED: "~", Kind.DELETED: "-", Kind.RETYPED: "%", Kind.METADATA: "m"}


def line(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text + "\n")


def _json(value: object) -> None:
    line(json.dumps(value, indent=1))


def name(key: Key, roots: Sequence[str]) -> str:
    """Return how a path is called: relative in the first root, absolute in the others; not yet made visible."""
    path = os.fsdecode(key.path)
    return path if key.root == 0 else f"{roots[key.root]}/{path}"


def _change(change: Change, roots: Sequence[str]) -> dict[str, object]:
    return {
        "path": name(change.key, roots),
        "kind": str(change.kind),
        "type": str(change.type),
        "ignored": change.ignored,
        "binary": change.binary,
        "insertions": change.insertions,
        "deletions": change.deletions,
        "risks": [{"rule": risk.rule, "why": risk.why} for risk in change.risks],
        "conflict": change.conflict or change.obstacle,
        "merged": change.is_merged,
    }


def _roots(record: Record) -> list[str]:
    return record["roots"]


def status(one: Listed, changes: ChangeSet, made: Sequence[Commit], *, as_json: bool) -> None:
    """Print what a session holds."""
    roots = _roots(one.record)
    if as_json:
        _json(
            {
                "version": 1,
                "session": one.session.id,
                "root": one.record["root"],
                "state": one.state,
                "exit": one.record.get("exit"),
                "changes": [_change(change, roots) for change in changes.changes],
                "notes": list(changes.notes),
                "commits": [{"id": commit.id, "subject": commit.subject} for commit in made],
            }
        )
        return
    words = one.record["command"]
    line(f"session {one.name}, {one.state}: {visible(' '.join(map(str, words)))} in {visible(str(one.record['root']))}")
    _list(changes, roots)
    for commit in made:
        line(f"commit {commit.id[:10]} {visible(commit.subject)}")


def summary(review: Review, count: int, made: int) -> None:
    """Print the list of changes after a run, on stderr's side of the talk: it is no data that was asked for."""
    roots = _roots(review.record)
    more = f", {made} commit{'s' * (made != 1)}" if made else ""
    lines = [f"agent-dev: {count} change{'s' * (count != 1)}{more}", *(f"  {text}" for text in _rows(review.changes, roots))]
    try:
        sys.stdout.flush()
        sys.stderr.write("".join(f"{text}\n" for text in lines))
        sys.stderr.flush()
    except OSError:
        return  # a terminal that went away


def _list(changes: ChangeSet, roots: Sequence[str]) -> None:
    for text in _rows(changes, roots):
        line(f"  {text}")
    if not changes.changes:
        line("  no changes")


def _rows(changes: ChangeSet, roots: Sequence[str]) -> Iterable[str]:
    hidden = [change for change in changes.changes if change.ignored and not change.risks]
    for change in changes.changes:
        if change not in hidden or len(hidden) <= 3:
            yield _row(change, roots)
    if len(hidden) > 3:
        yield f"{len(hidden)} more, ignored by git (agent-dev status --json lists them)"
    for problem in changes.problems:
        yield f"not read: {visible(problem)}"
    for note in changes.notes:
        yield f"note: {visible(note)}"


def _row(change: Change, roots: Sequence[str]) -> str:
    parts = [_SIGNS[change.kind], f"{change.kind:<8}", visible(name(change.key, roots))]
    if change.type != "file":
        parts.append(f"({change.type})")
    if change.insertions is not None:
        parts.append(f"+{change.insertions} -{change.deletions}")
    if change.ignored:
        parts.append("[ignored]")
    if change.is_merged:
        parts.append("(yours stays)" if change.is_dropped else "(with what you changed)")
    if change.risks:
        parts.append("! " + ", ".join(risk.rule for risk in change.risks))
    if change.conflict or change.obstacle:
        parts.append(f"✗ {visible(change.conflict or change.obstacle or '')}")
    return " ".join(parts)


def diff(review: Review, keys: Sequence[Key], *, is_stat: bool, with_blocks: bool = False) -> None:
    """Print changes as a patch that git can apply, or as numbers."""
    roots = _roots(review.record)
    wanted = [c for key in keys for c in review.changes.below(key.root, key.path)] if keys else list(review.changes.changes)
    if is_stat:
        counted = {change.key: change for change in review.counted().changes}
        for change in wanted:
            line(_row(counted[change.key], roots))
        return
    sys.stdout.flush()
    is_looked_at = sys.stdout.isatty()  # by a person: then an escape of the agent's must not reach the terminal
    for change in wanted:
        before, after = review.content(change.key)
        path = os.fsencode(name(change.key, roots).lstrip("/"))
        patch = blocks.patch(change, path, before, after, with_numbers=with_blocks)
        if is_looked_at:
            sys.stdout.writelines(visible(row, tab="\t") + "\n" for row in patch.rstrip(b"\n").split(b"\n"))
        else:
            sys.stdout.buffer.write(patch)
            sys.stdout.buffer.flush()


def merged(done: Merged, review: Review, *, is_dry: bool, as_json: bool) -> None:
    """Print what a merge did or would do."""
    roots = _roots(review.record)
    if as_json:
        _json(
            {
                "version": 1,
                "session": review.session.id,
                "merge": done.id or None,
                "dry_run": is_dry,
                "taken": [name(change.key, roots) for change in done.taken],
                "left": _left(done.left, roots),
                "conflicts": _left(done.conflicts, roots),
            }
        )
        return
    word = "would take" if is_dry else "merged"
    _few([f"{word} {_row(change, roots)}" for change in done.taken], f"{word} {{}} more")
    for left in done.conflicts:
        line(f"conflict: {visible(name(left.key, roots))}: {visible(left.why)}; it stays as you have it")
    if done.conflicts:
        label = review.record["name"] or review.session.id
        line(f"conflicts stay in the session: agent-dev merge {label} --resolve PATH=mine|agent|both|edit settles one")
    _few([f"left {visible(name(left.key, roots))}: {visible(left.why)}" for left in done.left], "left {} more (agent-dev status)")
    _last_line(done, is_dry=is_dry)


def _few(rows: Sequence[str], rest: str) -> None:
    for row in rows[:_MANY]:
        line(row)
    if len(rows) > _MANY:
        line(rest.format(len(rows) - _MANY))


def _last_line(done: Merged, *, is_dry: bool) -> None:
    if not done.taken:
        line("nothing would be merged" if is_dry else "nothing was merged")
    elif not is_dry:
        line(f"merge {done.id}: {len(done.taken)} taken, {'nothing' if done.is_all else len(done.left)} left (agent-dev undo)")


def undone(done: Undone, *, as_json: bool, word: str) -> None:
    """Print what an undo or a redo did."""
    if as_json:
        paths = [name(key, done.roots) for key in done.paths]
        _json({"version": 1, "merge": done.merge, "paths": paths, "left": _left(done.left, done.roots)})
        return
    _few([f"{word} {visible(name(key, done.roots))}" for key in done.paths], f"{word} {{}} more")
    for left in done.left:
        line(f"left {visible(name(left.key, done.roots))}: {visible(left.why)}; it stays as you have it")
    line(f"merge {done.merge}: {len(done.paths)} {word}, {len(done.left) or 'nothing'} left")


def exported(count: int, target: str, gone: Sequence[str]) -> None:
    """Print what was written out, and what a directory cannot show."""
    line(f"{count} changes written to {visible(target)}; nothing was merged")
    for path in gone:
        line(f"deleted by the agent: {visible(path)}")


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
                "changes": [{"path": name(change.key, one.roots), "kind": change.kind} for change in one.changes],
                "problem": one.problem or None,
            }
            for one in found
        ]
        _json({"version": 1, "merges": rows})
        return
    for one in found:
        if one.problem:
            line(f"{one.id}  damaged  {visible(one.problem)}")
            continue
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.time // 10**9))
        kinds = Counter(change.kind for change in one.changes)
        what = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        place = f"  {visible(one.roots[0])}" if with_roots else ""
        line(f"{one.id}  {one.state:<13}  {when}  {what}{place}")
    if not found:
        line("nothing was merged here")


def _left(left: Iterable[Left], roots: Sequence[str]) -> list[dict[str, str]]:
    return [{"path": name(one.key, roots), "why": one.why} for one in left]


def commits(made: Sequence[Commit], moved: Sequence[str], *, as_json: bool) -> None:
    """Print commits; without any, the refs that moved nevertheless."""
    if as_json:
        _json({"version": 1, "commits": [{"id": commit.id, "subject": commit.subject} for commit in made]})
        return
    for commit in made:
        line(f"{commit.id} {visible(commit.subject)}")
    line("they stay in the session for now" if made else "no commits")
    if moved and not made:
        line(f"branches and tags that moved, in the session for now: {', '.join(map(visible, moved))}")


def sessions(found: Sequence[Listed], *, as_json: bool, with_roots: bool) -> None:
    """Print sessions."""
    if as_json:
        rows = [
            {
                "session": one.session.id,
                "name": one.record.get("name") or None,
                "state": one.state,
                "root": one.record.get("root"),
                "command": one.record.get("command"),
                "started": one.record.get("started"),
                "exit": one.record.get("exit"),
                "problem": one.problem or None,
            }
            for one in found
        ]
        _json({"version": 1, "sessions": rows})
        return
    for one in found:
        if one.problem:
            line(f"{one.session.id}  unreadable  {one.problem}")
            continue
        started, words = one.record.get("started"), one.record.get("command")
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(started // 10**9))
        label = f"  {one.record['name']}" if one.record.get("name") else ""
        place = f"  {visible(str(one.record['root']))}" if with_roots else ""
        line(f"{one.session.id}  {one.state:<8}  {when}  {visible(' '.join(map(str, words)))[:60]}{label}{place}")
    if not found:
        line("no sessions are running or waiting here")


def shown(value: "Shown", *, as_json: bool) -> None:
    """Print what a run would look like."""
    if as_json:
        rows = [{"what": label, "value": text, "origin": origin or None} for label, text, origin in value.rows]
        _json({"version": 1, "rows": rows, "bwrap": value.shell_line})
        return
    for label, text, origin in value.rows:
        line(f"{label:<10} {visible(text)}" + (f"   ({visible(origin)})" if origin else ""))
    line("")
    line(value.shell_line)


def profiles(known: Iterable[tuple[str, str, str]], *, as_json: bool) -> None:
    """Print the profiles."""
    if as_json:
        rows = [{"name": profile, "path": path, "about": about} for profile, path, about in known]
        _json({"version": 1, "profiles": rows})
        return
    for profile, path, about in known:
        line(f"{profile:<12} {about}  ({path})")


def findings(found: "Sequence[Finding]", *, as_json: bool) -> None:
    """Print what doctor found."""
    if as_json:
        rows = [{"what": one.what, "found": one.found, "wrong": one.is_wrong, "cure": one.cure or None} for one in found]
        _json({"version": 1, "findings": rows})
        return
    for one in found:
        line(f"{'✗' if one.is_wrong else '✓'} {one.what}: {visible(one.found)}")
        if one.cure:
            line(f"    → {one.cure}")
