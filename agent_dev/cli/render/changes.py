"""What sessions hold, as text or JSON on stdout. What an agent wrote goes through `visible` first."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agent_dev.cli.render.commits import links, moved
from agent_dev.cli.render.format import MANY, as_document, fitted, line, name, roots_of, row_of, rows_of, table
from agent_dev.commits.submodules import Pointer
from agent_dev.diff import hunks as blocks
from agent_dev.git.formats.commit_format import Commit
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Change, ChangeSet, Key
from agent_dev.risk.commits import MOVED
from agent_dev.sanitize import visible
from agent_dev.session.sessions import Listed


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
        "merged": change.has_yours,
    }


@dataclass(frozen=True, slots=True)
class Held:
    """What a session holds: changes, commits, and the submodules that these moved."""

    changes: ChangeSet
    commits: Sequence[Commit] = ()
    pointers: Sequence[Pointer] = ()


def _commit(commit: Commit, pointers: Sequence[Pointer]) -> dict[str, object]:
    own = [one for one in pointers if one.commit == commit.id]
    risks = [{"rule": MOVED.rule, "why": MOVED.why, **moved(one)} for one in own]
    return {"id": commit.id, "subject": commit.subject, "risks": risks}


def status(one: Listed, held: Held, *, as_json: bool) -> None:
    """Print what a session holds."""
    changes = held.changes
    roots = roots_of(one.record)
    if as_json:
        as_document(
            {
                "version": 1,
                "session": one.session.id,
                "root": one.record["root"],
                "state": one.state,
                "exit": one.record.get("exit"),
                "changes": [_change(change, roots) for change in changes.changes],
                "notes": list(changes.notes),
                "commits": [_commit(commit, held.pointers) for commit in held.commits],
            }
        )
        return
    words = one.record["command"]
    line(f"session {one.name}, {one.state}: {visible(' '.join(map(str, words)))} in {visible(str(one.record['root']))}")
    _list(changes, roots)
    for commit in held.commits:
        line(f"commit {commit.id[:10]} {visible(commit.subject)}")
        for text in links(held.pointers, commit.id):
            line(f"  {text}")


def summary(review: Review, count: int, made: int) -> None:
    """Print the list of changes after a run, on stderr's side of the talk: it is no data that was asked for."""
    roots = roots_of(review.record)
    more = f", {made} commit{'s' * (made != 1)}" if made else ""
    rows = rows_of(review.changes, roots, MANY)
    lines = [f"agent-dev: {count} change{'s' * (count != 1)}{more}", *(f"  {text}" for text in rows)]
    try:
        sys.stdout.flush()
        sys.stderr.write("".join(f"{text}\n" for text in lines))
        sys.stderr.flush()
    except OSError:
        return  # a terminal that went away


def _list(changes: ChangeSet, roots: Sequence[str]) -> None:
    for text in rows_of(changes, roots):
        line(f"  {text}")
    if not changes.changes:
        line("  no changes")


def diff(review: Review, keys: Sequence[Key], *, is_stat: bool, with_blocks: bool = False) -> None:
    """Print changes as a patch that git can apply, or as numbers."""
    roots = roots_of(review.record)
    wanted = [c for key in keys for c in review.changes.below(key.root, key.path)] if keys else list(review.changes.changes)
    if is_stat:
        counted = {change.key: change for change in review.counted().changes}
        for change in wanted:
            line(row_of(counted[change.key], roots))
        return
    for change in wanted:
        before, after = review.content(change.key)
        path = os.fsencode(name(change.key, roots).lstrip("/"))
        as_patch(blocks.patch(change, path, before, after, with_numbers=with_blocks))


def as_patch(patch: bytes) -> None:
    """Print a patch: as it is, but made visible to a person, whose terminal no escape of the agent's must reach."""
    if sys.stdout.isatty():
        sys.stdout.writelines(visible(text, tab="\t") + "\n" for text in patch.rstrip(b"\n").split(b"\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(patch)
        sys.stdout.buffer.flush()


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
        as_document({"version": 1, "sessions": rows})
        return
    for text in table([_listed(one, with_root=with_roots) for one in found if not one.problem]):
        fitted(text)
    for one in found:
        if one.problem:
            fitted(f"{one.session.id}  unreadable  {one.problem}")
    if not found:
        line("no sessions are running or waiting here")


def _listed(one: Listed, *, with_root: bool) -> tuple[str, ...]:
    started, words = one.record.get("started"), one.record.get("command")
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(started // 10**9))
    what = visible(" ".join(map(str, words)))[:60]
    place = visible(str(one.record["root"])) if with_root else ""
    return one.session.id, one.state, when, what, str(one.record.get("name") or ""), place
