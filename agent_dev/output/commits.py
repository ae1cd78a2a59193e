"""What a session committed, as text or JSON on stdout. All of it was written by an agent, and goes through `visible` first."""

import os
import time

from agent_dev.commands.bring import Brought
from agent_dev.commands.found import Looked
from agent_dev.commands.pointers import Pointer
from agent_dev.core.commits import Person, Told
from agent_dev.core.found import HEADS, RefChange
from agent_dev.output.words import as_document, few, line
from agent_dev.text import visible

_SIGNS = {"added": "+", "deleted": "-", "edited": "~", "retyped": "%"}
_FILES = 6  # of a commit: past that a number stands for the rest
_SHORT = 10


def commits(looked: Looked, session: str, *, as_json: bool) -> None:
    """Print all that came of a session's git dir."""
    if as_json:
        _as_json(looked, session)
        return
    for told in looked.found.commits:
        _commit(told, looked.holds.get(told.id, ()))
        for pointer in looked.pointers:
            if pointer.commit == told.id:
                _pointer(pointer)
    if looked.found.is_cut:
        line("… and older ones")
    if not looked.found.commits:
        line("no commits")
    _others(looked)


def _others(looked: Looked) -> None:
    found = looked.found
    for ref in found.refs:
        line(_ref(ref))
    for stash in found.stashes:
        line(f"stash: {visible(stash.subject)} ({stash.id[:_SHORT]}); it stays in the session")
    for what in found.unfinished:
        line(f"in the middle of a {what}: it stays in the session as it is")
    if looked.uncommitted and found.commits:
        few([f"not in its last commit: {visible(path)}" for path in looked.uncommitted], "not in its last commit: {} more")
    if found.commits or found.refs:
        line("they stay in the session: agent-dev merge --commits [BRANCH] [--as NAME] brings them home")


def _commit(told: Told, holds: tuple[bytes, ...]) -> None:
    line(f"{told.id} {visible(told.subject)}")
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(told.author.time))
    signed = f", with a signature ({told.signature}) that nobody has verified" if told.signature else ""
    line(f"  {visible(told.author.name)} <{visible(told.author.email)}>, {when}{signed}")
    for one in told.files[:_FILES]:
        line(f"  {_SIGNS[one.kind]} {visible(one.path)}")
    if len(told.files) > _FILES:
        line(f"  … {len(told.files) - _FILES} more files")
    for path in holds:
        line(f"  holds what you had not committed of {visible(path)}")


def _pointer(one: Pointer) -> None:
    before, after = ((value or "nothing")[:_SHORT] for value in (one.old, one.new))
    line(f"  submodule {visible(one.path)}: {before} → {after}")
    if one.log is None:
        line("    its commits are not in the session")
    elif not one.log and one.old and one.new:
        line("    back to an older commit")
    few([f"    {row.id[:_SHORT]} {visible(row.subject)}" for row in one.log or ()], "    … {} more commits")


def called(name: str) -> str:
    """Return how a ref is called: a branch by its name; made visible."""
    for start, what in ((HEADS, "branch"), ("refs/tags/", "tag"), ("refs/remotes/", "remote branch")):
        if name.startswith(start):
            return f"{what} {visible(name.removeprefix(start))}"
    return visible(name)


def _ref(ref: RefChange) -> str:
    before, after = ((value or "nothing")[:_SHORT] for value in (ref.before, ref.after))
    return f"{called(ref.name)}: {ref.motion}, {before} → {after}"


def brought(done: Brought, *, is_dry: bool, as_json: bool) -> None:
    """Print what became of commits that were to come home."""
    if as_json:
        _brought_as_json(done, is_dry=is_dry)
        return
    for left in done.conflicts:
        line(f"conflict: {visible(left.key.path)}: {visible(left.why)}")
    word = "would take" if is_dry else "took"
    few([f"{word} {told.id[:_SHORT]} {visible(told.subject)}" for told in done.commits], f"{word} {{}} more commits")
    if done.why:
        line(visible(done.why))
    if done.merge or (is_dry and done.commits):
        verb = "would lead" if is_dry else "leads"
        files = f", {len(done.taken)} files changed" if done.taken else ""
        line(f"{called(done.ref)} {verb} to {done.after[:_SHORT]}{files}{'' if is_dry else ' (agent-dev undo)'}")
    if done.next:
        line(f"next: {visible(done.next)}")


def _brought_as_json(done: Brought, *, is_dry: bool) -> None:
    as_document(
        {
            "version": 1,
            "session": done.session,
            "merge": done.merge or None,
            "dry_run": is_dry,
            "ref": done.ref or None,
            "before": done.before or None,
            "after": done.after or None,
            "commits": [{"id": told.id, "subject": told.subject} for told in done.commits],
            "taken": [os.fsdecode(key.path) for key in done.taken],
            "conflicts": [{"path": os.fsdecode(left.key.path), "why": left.why} for left in done.conflicts],
            "why": done.why or None,
            "next": done.next or None,
        }
    )


def _as_json(looked: Looked, session: str) -> None:
    found = looked.found
    as_document(
        {
            "version": 1,
            "session": session,
            "commits": [_row(told, looked.holds.get(told.id, ())) for told in found.commits],
            "cut": found.is_cut,
            "refs": [{"name": one.name, "motion": one.motion, "before": one.before, "after": one.after} for one in found.refs],
            "stashes": [{"id": one.id, "subject": one.subject} for one in found.stashes],
            "unfinished": list(found.unfinished),
            "submodules": [_moved(one) for one in looked.pointers],
            "start": found.start or None,
            "head": found.head or None,
            "uncommitted": None if looked.uncommitted is None else [os.fsdecode(path) for path in looked.uncommitted],
        }
    )


def _moved(one: Pointer) -> dict[str, object]:
    log = None if one.log is None else [{"id": row.id, "subject": row.subject} for row in one.log]
    return {"commit": one.commit, "path": os.fsdecode(one.path), "before": one.old or None, "after": one.new or None, "log": log}


def _row(told: Told, holds: tuple[bytes, ...]) -> dict[str, object]:
    return {
        "id": told.id,
        "subject": told.subject,
        "message": told.message.decode("utf-8", "surrogateescape"),
        "parents": list(told.parents),
        "author": _person(told.author),
        "committer": _person(told.committer),
        "signature": told.signature or None,
        "files": [{"path": os.fsdecode(one.path), "kind": one.kind} for one in told.files],
        "holds": [os.fsdecode(path) for path in holds],
    }


def _person(one: Person) -> dict[str, object]:
    return {"name": one.name, "email": one.email, "time": one.time, "zone": one.zone}
