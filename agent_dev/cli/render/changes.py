"""Print the changes of sessions as text or JSON. All text from an agent passes through `visible`."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_dev.cli.render import pager
from agent_dev.cli.render.colour import PLAIN, Palette
from agent_dev.cli.render.format import (
    MAX_ROWS,
    SHORTEST_COMMAND,
    STATE_TONES,
    change_row,
    change_rows,
    command_rows,
    command_text,
    cut_text,
    format_names,
    format_table,
    print_json,
    print_line,
    print_wrapped,
    roots_of,
    session_line,
    short_path,
    terminal_width,
)
from agent_dev.cli.render.pager import PatchStyle
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeSet
from agent_dev.overlay.labels import RISK_SIGN, display_path, format_count, kind_name, origin_key, patch_path
from agent_dev.quick_dataclass import dataclass
from agent_dev.sandbox.attaching.state import is_detached
from agent_dev.sanitize import visible
from agent_dev.session import approvals
from agent_dev.session.origin import describe_origin, origin_as_json, typed_words
from agent_dev.session.published import ListedPort, read_published, url_of
from agent_dev.session.sessions import ListedSession
from agent_dev.session.store import MERGED, RUNNING, is_direct

if TYPE_CHECKING:
    from agent_dev.commits.gitlinks import SubmoduleChange
    from agent_dev.git.formats.commit_format import Commit
    from agent_dev.merge.review import Review
    from agent_dev.session.shared_changes import SharedChange

_FEW = 3  # paths that are listed
_COMMAND = 3  # the column of the commands in the list of sessions
_GAP = 2  # columns between the cells of a table


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
    """The contents of a session: changes, commits, and the submodules that these moved.

    `postponed`: the number of changes that were not assessed. `is_already_applied`: the working tree has all changes.
    """

    changes: ChangeSet
    commits: "Sequence[Commit]" = ()
    pointers: "Sequence[SubmoduleChange]" = ()
    postponed: int = 0
    is_already_applied: bool = False


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
                "net": one.record.get("net"),
                "approvals": count_questions(one),
                "imported": origin_as_json(one.record),
                "attempt": _attempt_as_json(one),
                "direct": is_direct(one.record),
                "changes": (_change(change, roots) for change in changes.changes),
                "notes": list(changes.notes),
                "commits": _commits_as_json(contents),
                "published": [{**port.as_dict(), "url": url_of(port, one.name)} for port in _published(one)],
            }
        )
        return
    print_line(session_line(one, palette))
    for port in _published(one):
        print_line(f"published {url_of(port, one.name)}, port {port.inside} inside")
    for line in _origin_lines(one):
        print_line(line)
    _list(one, contents, palette)
    if contents.postponed:
        print_line(f"{RISK_SIGN} {format_count(contents.postponed, 'change')}: risks not checked yet")
        for row in command_rows("to check them", f"agent-dev diff {one.name} --stat"):
            print_line(row)
    for row in _describe_commits(contents, palette):
        print_line(row)
    for row in _next_commands(one, contents):
        print_line(row)


def _origin_lines(one: ListedSession) -> Iterator[str]:
    if origin := describe_origin(one.record):
        yield f"imported: {origin}"
    if attempt := _describe_attempt(one):
        yield f"{attempt} (agent-dev tx --compare {one.name})"


def _commits_as_json(contents: SessionContents) -> list[dict[str, object]]:
    if not contents.commits:
        return []
    from agent_dev.cli.render import commits  # few sessions have any, and the import takes as long as 1,000 changes

    return [commits.session_commit_as_json(commit, contents.pointers) for commit in contents.commits]


def _describe_commits(contents: SessionContents, palette: Palette) -> Iterator[str]:
    if not contents.commits:
        return
    from agent_dev.cli.render import commits  # as above

    for commit in contents.commits:
        yield from commits.describe_session_commit(commit, contents.pointers, palette)


def _published(one: ListedSession) -> Sequence[ListedPort]:
    return read_published(one.session.folder) if one.state == RUNNING else ()


def _next_commands(one: ListedSession, contents: SessionContents) -> Sequence[str]:
    """Return the next command for a session: what a user would most likely do with it."""
    if one.state == RUNNING:
        asked = command_rows("to answer what waits", f"agent-dev approve --in {one.name}") if count_questions(one) else ()
        return (*asked, *_restore_rows(one), *command_rows("to see it live", f"agent-dev watch {one.name}"))
    if one.state == MERGED:
        return command_rows("to see its merges", "agent-dev merges")
    if contents.changes.changes:
        return command_rows("to select and apply changes", f"agent-dev merge {one.name}")
    if contents.commits:
        return command_rows("to import the commits", f"agent-dev merge {one.name} --commits")
    if contents.is_already_applied:
        return command_rows("to end the session", f"agent-dev merge {one.name}")
    return _restore_rows(one) or command_rows("to run the agent again", f"agent-dev resume {one.name}")


def _restore_rows(one: ListedSession) -> Sequence[str]:
    """Return the commands for the changes of a session that works in the real tree."""
    if not is_direct(one.record):
        return ()
    restore = command_rows("to revert them", "agent-dev restore") if one.state != RUNNING else ()
    return (*command_rows("to list them", "agent-dev restore --dry-run"), *restore)


def print_summary(review: "Review", count: int, commit_total: int) -> None:
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


def _list(one: ListedSession, contents: SessionContents, palette: Palette) -> None:
    for text in change_rows(contents.changes, roots_of(one.record), palette=palette):
        print_line(f"  {text}")
    if is_direct(one.record):
        print_line("  its changes are in the real tree")
    elif not contents.changes.changes:
        print_line("  all changes are already in the working tree" if contents.is_already_applied else "  no changes")


def print_diff(review: "Review", keys: Sequence[Key], style: PatchStyle, *, is_stat: bool, with_hunks: bool = False) -> str:
    """Print changes as a patch for git or for a reader, or as a diffstat; return a note about changes that are not in it."""
    roots = roots_of(review.record)
    wanted = _changes_at(review.folded, keys)
    if is_stat:
        counted = review.assess_with_counts([change.key for change in wanted]).by_key()
        for change in wanted:
            print_line(change_row(counted[change.key], roots))
        return ""
    from agent_dev.merge import patches  # not needed by other subcommands

    form = patches.patch_format_for(review.record, is_exact=style.is_exact, with_numbers=with_hunks)
    patch_set = patches.PatchWriter(review, wanted, lambda key: patch_path(key, roots), form)
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


def print_sessions(
    found: Sequence[ListedSession],
    shared: "Sequence[SharedChange]" = (),
    *,
    as_json: bool,
    with_roots: bool,
    palette: Palette = PLAIN,
) -> None:
    """Print sessions, and the files that several of them have changed."""
    if as_json:
        rows = [
            {
                "session": one.session.id,
                "name": one.record.get("name") or None,
                "state": one.state,
                "detached": _is_detached(one),
                "root": one.record.get("root"),
                "command": one.record.get("command"),
                "started": one.record.get("started"),
                "exit": one.record.get("exit"),
                "approvals": count_questions(one),
                "imported": origin_as_json(one.record),
                "attempt": _attempt_as_json(one),
                "problem": one.problem or None,
            }
            for one in found
        ]
        print_json({"version": 1, "sessions": rows, "shared": [{"path": one.path, "sessions": one.sessions} for one in shared]})
        return
    healthy = [one for one in found if not one.problem]
    for one, text in zip(healthy, format_table(_session_rows(healthy, with_roots=with_roots)), strict=True):
        print_wrapped(text, palette, STATE_TONES.get(one.state))
    for one in found:
        if one.problem:
            print_wrapped(f"{one.session.id}  damaged  {one.problem}")
    if not found:
        print_line("no running or waiting sessions")
    _print_shared(found, shared)


def _print_shared(found: Sequence[ListedSession], shared: "Sequence[SharedChange]") -> None:
    """Print the files that several sessions have changed, relative to the repository of the first of them."""
    sessions = {one.session.id: one for one in found}
    if shared:
        print_line("changed by several sessions:")
    for one in shared[:MAX_ROWS]:
        root = str(sessions[one.sessions[0]].record["root"]).rstrip("/")
        names = format_names([sessions[session].name for session in one.sessions])
        print_line(f"  {visible(one.path.removeprefix(f'{root}/'))}  ({names})")
    if len(shared) > MAX_ROWS:
        print_line(f"  {len(shared) - MAX_ROWS} more (agent-dev sessions --json)")


def _session_rows(found: Sequence[ListedSession], *, with_roots: bool) -> list[tuple[str, ...]]:
    """Return the cells of sessions: the name first, and the command cut as far as a terminal is too narrow."""
    rows = [_listed(one, with_root=with_roots) for one in found]
    others = [max(map(len, column)) for number, column in enumerate(zip(*rows, strict=True)) if number != _COMMAND]
    width = terminal_width() - sum(width + _GAP for width in others if width)
    return [(*row[:_COMMAND], cut_text(row[_COMMAND], max(width, SHORTEST_COMMAND)), *row[_COMMAND + 1 :]) for row in rows]


def _listed(one: ListedSession, *, with_root: bool) -> tuple[str, ...]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.record["started"] // 10**9))
    root = short_path(str(one.record["root"])) if with_root else ""
    session_id = one.session.id if (with_root or one.has_shared_name) and one.record.get("name") else ""
    waiting = approvals.count_by_kind(one.session.folder) if one.state == RUNNING else (0, 0)
    note = ", ".join(filter(None, (describe_origin(one.record), _describe_attempt(one), _describe_waiting(*waiting))))
    shown_state = f"{one.state}, detached" if _is_detached(one) else one.state
    name = str(one.record.get("name") or one.session.id)
    return name, shown_state, when, command_text(typed_words(one.record)), session_id, root, note


def _describe_attempt(one: ListedSession) -> str:
    if "attempt" not in one.record:
        return ""
    from agent_dev.cli.render import best  # few sessions are attempts

    return best.describe_attempt(one.record)


def _attempt_as_json(one: ListedSession) -> dict[str, object] | None:
    if "attempt" not in one.record:
        return None
    from agent_dev.cli.render import best  # as above

    return best.kept_as_json(one.record)


def _describe_waiting(commands: int, connections: int) -> str:
    if not commands and not connections:
        return ""
    from agent_dev.cli.render import question_words  # few sessions wait for an answer

    return f"{question_words.count_questions(commands, connections)} waiting (agent-dev approve)"


def _is_detached(one: ListedSession) -> bool:
    """Return whether a session runs without a terminal, to which one can be attached."""
    return one.state == RUNNING and is_detached(one.session.folder) is True


def count_questions(one: ListedSession) -> int:
    """Return the number of commands and connections of a session that wait for the user's answer."""
    return len(approvals.list_questions(one.session.folder)) if one.state == RUNNING else 0
