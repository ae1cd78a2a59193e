"""Print the changes of sessions as text or JSON. All text from an agent passes through `visible`."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agent_dev.cli.render import pager
from agent_dev.cli.render.colour import PLAIN, Palette, Tone
from agent_dev.cli.render.commits import describe_submodules, submodule_as_json
from agent_dev.cli.render.format import (
    MAX_ROWS,
    change_row,
    change_rows,
    format_table,
    print_json,
    print_line,
    print_wrapped,
    roots_of,
)
from agent_dev.cli.render.pager import PatchStyle
from agent_dev.commits.gitlinks import SubmoduleChange
from agent_dev.fs.entry import Key
from agent_dev.git.formats.commit_format import Commit
from agent_dev.merge import patches
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Change, ChangeSet
from agent_dev.overlay.labels import display_path, format_count, kind_name, origin_key
from agent_dev.risk.commit_risks import SUBMODULE_MOVED
from agent_dev.sanitize import visible
from agent_dev.session import approvals
from agent_dev.session.sessions import ListedSession
from agent_dev.session.store import KILLED, RUNNING, WAITING

STATE_TONES = {RUNNING: Tone.ADDED, WAITING: Tone.CHANGED, KILLED: Tone.REMOVED}
_FEW = 3  # paths that are listed


def _change(change: Change, roots: Sequence[str]) -> dict[str, object]:
    return {
        "path": display_path(change.key, roots),
        "kind": kind_name(change),
        "from": display_path(origin, roots) if (origin := origin_key(change)) else None,
        "type": str(change.type),
        "ignored": change.is_ignored,
        "binary": change.is_binary,
        "insertions": change.insertions,
        "deletions": change.deletions,
        "risks": [{"rule": risk.rule, "reason": risk.why} for risk in change.known_risks],
        "conflict": change.conflict or change.obstacle,
        "three_way": change.is_combined,
    }


@dataclass(frozen=True, slots=True)
class SessionContents:
    """The contents of a session: changes, commits, and the submodules that these moved."""

    changes: ChangeSet
    commits: Sequence[Commit] = ()
    pointers: Sequence[SubmoduleChange] = ()


def _commit(commit: Commit, pointers: Sequence[SubmoduleChange]) -> dict[str, object]:
    own = [one for one in pointers if one.commit == commit.id]
    risks = [{"rule": SUBMODULE_MOVED.rule, "reason": SUBMODULE_MOVED.why, **submodule_as_json(one)} for one in own]
    return {"id": commit.id, "subject": commit.subject, "risks": risks}


def print_status(one: ListedSession, contents: SessionContents, *, as_json: bool, palette: Palette = PLAIN) -> None:
    """Print the contents of a session."""
    changes = contents.changes
    roots = roots_of(one.record)
    if as_json:
        print_json(
            {
                "version": 1,
                "session": one.session.id,
                "root": one.record["root"],
                "state": one.state,
                "running": one.state == RUNNING,
                "exit": one.record.get("exit"),
                "changes": [_change(change, roots) for change in changes.changes],
                "notes": list(changes.notes),
                "commits": [_commit(commit, contents.pointers) for commit in contents.commits],
            }
        )
        return
    argv = one.record["command"]
    state = palette.paint(one.state, STATE_TONES.get(one.state))
    print_line(f"session {one.name}, {state}: {visible(' '.join(map(str, argv)))} in {visible(str(one.record['root']))}")
    _list(changes, roots, palette)
    for commit in contents.commits:
        print_line(f"{palette.paint(f'commit {commit.id[:10]}', Tone.CHANGED)} {visible(commit.subject)}")
        for text in describe_submodules(contents.pointers, commit.id):
            print_line(f"  {text}")


def print_summary(review: Review, count: int, commit_total: int) -> None:
    """Print the list of changes after a run, on stderr, since it is not requested output."""
    roots = roots_of(review.record)
    commit_count = f", {format_count(commit_total, 'commit')}" if commit_total else ""
    review.assess_visible(MAX_ROWS)
    rows = change_rows(review.folded, roots, MAX_ROWS)
    lines = [f"agent-dev: {format_count(count, 'change')}{commit_count}", *(f"  {text}" for text in rows)]
    try:
        sys.stdout.flush()
        sys.stderr.write("".join(f"{text}\n" for text in lines))
        sys.stderr.flush()
    except OSError:
        return  # the terminal is gone


def _list(changes: ChangeSet, roots: Sequence[str], palette: Palette) -> None:
    for text in change_rows(changes, roots, palette=palette):
        print_line(f"  {text}")
    if not changes.changes:
        print_line("  no changes")


def print_diff(review: Review, keys: Sequence[Key], style: PatchStyle, *, is_stat: bool, with_hunks: bool = False) -> str:
    """Print changes as a patch for git or for a reader, or as a diffstat; return a note about changes that are not in it."""
    roots = roots_of(review.record)
    wanted = _changes_at(review.folded, keys)
    if is_stat:
        counted = review.assess_with_counts([change.key for change in wanted]).by_key()
        for change in wanted:
            print_line(change_row(counted[change.key], roots))
        return ""
    form = patches.patch_format_for(review.record, is_exact=style.is_exact, with_numbers=with_hunks)
    patch_set = patches.PatchWriter(review, wanted, lambda key: os.fsencode(display_path(key, roots).lstrip("/")), form)
    for patch in patch_set:
        pager.write_patch(patch, style)
    return describe_omitted(patch_set.omitted)


def _changes_at(changes: ChangeSet, keys: Sequence[Key]) -> list[Change]:
    """Return the changes at some paths and below them, or from there if they are renames; without keys all changes."""
    return [change for change in changes.changes if not keys or any(_is_at(change, key) for key in keys)]


def _is_at(change: Change, key: Key) -> bool:
    places = [place for place in (change.key, change.renamed_from) if place is not None and place.root == key.root]
    return any(not key.path or place.path == key.path or place.path.startswith(key.path + b"/") for place in places)


def describe_omitted(rows: Sequence[tuple[bytes, str]]) -> str:
    """Return a line about changes that git's format cannot represent, or ""."""
    if not rows:
        return ""
    named = [f"{visible(path)} ({visible(why)})" for path, why in rows[:_FEW]]
    commit_count = f" and {len(rows) - _FEW} more" if len(rows) > _FEW else ""
    return f"not in the patch: {', '.join(named)}{commit_count}"


def print_sessions(found: Sequence[ListedSession], *, as_json: bool, with_roots: bool, palette: Palette = PLAIN) -> None:
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
                "approvals": count_questions(one),
                "problem": one.problem or None,
            }
            for one in found
        ]
        print_json({"version": 1, "sessions": rows})
        return
    healthy = [one for one in found if not one.problem]
    for one, text in zip(healthy, format_table([_listed(one, with_root=with_roots) for one in healthy]), strict=True):
        print_wrapped(text, palette, STATE_TONES.get(one.state))
    for one in found:
        if one.problem:
            print_wrapped(f"{one.session.id}  damaged  {one.problem}")
    if not found:
        print_line("no running or waiting sessions")


def _listed(one: ListedSession, *, with_root: bool) -> tuple[str, ...]:
    started, argv = one.record.get("started"), one.record.get("command")
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(started // 10**9))
    command = visible(" ".join(map(str, argv)))[:60]
    root = visible(str(one.record["root"])) if with_root else ""
    waiting = count_questions(one)
    note = f"{format_count(waiting, 'command')} waiting (agent-dev approve)" if waiting else ""
    return one.session.id, one.state, when, command, str(one.record.get("name") or ""), root, note


def count_questions(one: ListedSession) -> int:
    """Return the number of commands of a session that wait for the user's answer."""
    return len(approvals.list_questions(one.session.folder)) if one.state == RUNNING else 0
