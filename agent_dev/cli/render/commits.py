"""What a session committed, as text or JSON on stdout. All of it was written by an agent, and goes through `visible` first."""

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_dev.agent_git.changes import HEADS, RefChange
from agent_dev.cli.render.format import as_document, fewer, line, numbered
from agent_dev.commits.report import Looked
from agent_dev.commits.submodules import Pointer
from agent_dev.git.formats.commit_format import Person, Told
from agent_dev.sanitize import visible

if TYPE_CHECKING:
    from agent_dev.commits.bring import Brought  # with all of merging, which telling of commits does not need

_SIGNS = {"added": "+", "deleted": "-", "edited": "~", "retyped": "%"}
_FILES = 6  # of a commit: past that a number stands for the rest
_RISKY = 200  # of them that are looked at for risks to name
_SHORT = 10


def commits(looked: Looked, session: str, *, as_json: bool) -> None:
    """Print all that came of a session's git dir."""
    if as_json:
        _as_json(looked, session)
        return
    for one in looked.found.commits:
        line(f"{one.id} {visible(one.subject)}{' (on a remote branch, too)' if one.id in looked.found.remote else ''}")
        for row in (*about(one, looked), *links(looked.pointers, one.id)):
            line(f"  {row}")
    if looked.found.is_cut:
        line("… and older ones")
    if not looked.found.commits:
        line("no commits")
    for row in others(looked):
        line(row)
    if looked.found.commits or looked.found.refs:
        line("they stay in the session: agent-dev merge --commits [BRANCH] [--as NAME] brings them home")


def others(looked: Looked) -> Iterator[str]:
    """Yield what came of the session's git dir beside commits: refs that moved, stashes, what is half done or not committed."""
    found = looked.found
    if found.fetched:
        yield f"fetched, and on remote branches only: {found.fetched} commits"
    yield from map(_ref, found.refs)
    for stash in found.stashes:
        yield f"stash: {visible(stash.subject)} ({stash.id[:_SHORT]}); it stays in the session"
    for what in found.unfinished:
        yield f"in the middle of a {what}: it stays in the session as it is"
    if looked.uncommitted and found.commits:
        left = [f"not in its last commit: {visible(path)}" for path in looked.uncommitted]
        yield from fewer(left, "not in its last commit: {} more")


def about(told: Told, looked: Looked, most: int = _FILES) -> Iterator[str]:
    """Yield who made a commit and when, its signature, up to `most` of its files, and which of the user's edits it holds.

    Of files beyond that, those with risks.
    """
    risks = looked.risks.get(told.id, {})
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(told.author.time))
    signed = f", with a signature ({told.signature}) that nobody has verified" if told.signature else ""
    yield f"{visible(told.author.name)} <{visible(told.author.email)}>, {when}{signed}"
    shown = [one for number, one in enumerate(told.files) if number < most or (one.path in risks and number < _RISKY)]
    for one in shown:
        why = ", ".join(risk.rule for risk in risks.get(one.path, ()))
        yield f"{_SIGNS[one.kind]} {visible(one.path)}{f' ! {why}' if why else ''}"
    if len(told.files) > len(shown):
        yield f"… {len(told.files) - len(shown)} more files"
    for path in looked.holds.get(told.id, ()):
        yield f"holds what you had not committed of {visible(path)}"


def links(pointers: Sequence[Pointer], commit: str) -> Iterator[str]:
    """Yield what is said of submodules that point elsewhere since a commit: always a risk."""
    for one in pointers:
        if one.commit == commit:
            yield from _link(one)


def _link(one: Pointer) -> Iterator[str]:
    before, after = ((value or "nothing")[:_SHORT] for value in (one.old, one.new))
    yield f"! submodule {visible(one.path)}: {before} → {after}"
    if one.log is None:
        yield "  its commits are not in the session"
    elif not one.log and one.old and one.new:
        yield "  back to an older commit"
    yield from fewer([f"  {row.id[:_SHORT]} {visible(row.subject)}" for row in one.log or ()], "  … {} more commits")


def called(name: str) -> str:
    """Return how a ref is called: a branch by its name; made visible."""
    for start, what in ((HEADS, "branch"), ("refs/tags/", "tag"), ("refs/remotes/", "remote branch")):
        if name.startswith(start):
            return f"{what} {visible(name.removeprefix(start))}"
    return visible(name)


def _ref(ref: RefChange) -> str:
    before, after = ((value or "nothing")[:_SHORT] for value in (ref.before, ref.after))
    return f"{called(ref.name)}: {ref.motion}, {before} → {after}"


def brought(done: "Brought", *, is_dry: bool, as_json: bool) -> None:
    """Print what became of commits that were to come home."""
    if as_json:
        _brought_as_json(done, is_dry=is_dry)
        return
    for row in told(done, is_dry=is_dry):
        line(row)


def told(done: "Brought", *, is_dry: bool = False) -> Iterator[str]:
    """Yield what became of commits that were to come home."""
    for left in done.conflicts:
        yield f"conflict: {visible(left.key.path)}: {visible(left.why)}"
    word = "would take" if is_dry else "took"
    yield from fewer([f"{word} {one.id[:_SHORT]} {visible(one.subject)}" for one in done.commits], f"{word} {{}} more commits")
    yield from _beside(done, word)
    if done.merge or is_dry:
        rows = [f"merged with what you had not committed of {visible(one.path)}" for one in done.together]
        yield from fewer(rows, "merged with what you had not committed of {} more files")
    if done.why:
        yield visible(done.why)
    if done.merge or (is_dry and done.commits):
        verb = "would lead" if is_dry else "leads"
        files = f", {numbered(len(done.taken), 'file')} changed" if done.taken else ""
        yield f"{called(done.ref)} {verb} to {done.after[:_SHORT]}{files}{'' if is_dry else ' (agent-dev undo)'}"
    if done.next:
        yield f"next: {visible(done.next)}"


def _beside(done: "Brought", word: str) -> Iterator[str]:
    if done.large and (done.merge or word != "took"):
        yield f"{word} {numbered(done.large - len(done.refused), 'file')} of LFS"
    for oid in done.refused:
        yield f"left the LFS file {oid}: it is not what its name says"
    for one in done.submodules:
        name = f"submodule {visible(one.path)}, {one.commit[:_SHORT]}"
        yield f"{name}: {visible(one.why)}" if one.why else f"{word} {name} (git submodule update checks it out)"


def _brought_as_json(done: "Brought", *, is_dry: bool) -> None:
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
            "merged": [os.fsdecode(key.path) for key in done.together],
            "conflicts": [{"path": os.fsdecode(left.key.path), "why": left.why} for left in done.conflicts],
            "why": done.why or None,
            "next": done.next or None,
            "lfs": done.large,
            "refused_lfs": list(done.refused),
            "submodules": [
                {"path": os.fsdecode(one.path), "commit": one.commit, "ref": one.ref or None, "why": one.why or None}
                for one in done.submodules
            ],
        }
    )


def _as_json(looked: Looked, session: str) -> None:
    found = looked.found
    as_document(
        {
            "version": 1,
            "session": session,
            "commits": [_row(told, looked) for told in found.commits],
            "cut": found.is_cut,
            "fetched": found.fetched,
            "refs": [{"name": one.name, "motion": one.motion, "before": one.before, "after": one.after} for one in found.refs],
            "stashes": [{"id": one.id, "subject": one.subject} for one in found.stashes],
            "unfinished": list(found.unfinished),
            "submodules": [moved(one) for one in looked.pointers],
            "start": found.start or None,
            "head": found.head or None,
            "uncommitted": None if looked.uncommitted is None else [os.fsdecode(path) for path in looked.uncommitted],
        }
    )


def moved(one: Pointer) -> dict[str, object]:
    """Return a submodule that moved as plain data."""
    log = None if one.log is None else [{"id": row.id, "subject": row.subject} for row in one.log]
    return {"commit": one.commit, "path": os.fsdecode(one.path), "before": one.old or None, "after": one.new or None, "log": log}


def _row(told: Told, looked: Looked) -> dict[str, object]:
    risks = looked.risks.get(told.id, {})
    return {
        "id": told.id,
        "subject": told.subject,
        "message": told.message.decode("utf-8", "surrogateescape"),
        "parents": list(told.parents),
        "author": _person(told.author),
        "committer": _person(told.committer),
        "signature": told.signature or None,
        "files": [
            {"path": os.fsdecode(one.path), "kind": one.kind, "risks": [risk.rule for risk in risks.get(one.path, ())]}
            for one in told.files
        ],
        "holds": [os.fsdecode(path) for path in looked.holds.get(told.id, ())],
        "remote": told.id in looked.found.remote,
    }


def _person(one: Person) -> dict[str, object]:
    return {"name": one.name, "email": one.email, "time": one.time, "zone": one.zone}
