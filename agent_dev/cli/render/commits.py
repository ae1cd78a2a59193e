"""Print the commits of a session as text or JSON. All text from an agent passes through `visible`."""

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_dev.agent_git.changes import HEADS, GitChanges, RefChange
from agent_dev.cli.render.colour import OutputTone, Palette
from agent_dev.cli.render.format import limit_rows, print_json, print_line, print_outcome
from agent_dev.cli.render.revert_commands import describe_place, undo_command
from agent_dev.commits.gitlinks import SubmoduleChange
from agent_dev.commits.report import CommitReport
from agent_dev.fs.entry import Key
from agent_dev.git.formats.commit_format import Commit, CommitIdentity, ParsedCommit
from agent_dev.overlay.changes import ChangeKind
from agent_dev.overlay.labels import SIGNS, display_path, format_count
from agent_dev.quick_dataclass import dataclass
from agent_dev.risk.commit_risks import SUBMODULE_MOVED
from agent_dev.sanitize import visible

if TYPE_CHECKING:
    from agent_dev.commits.decline import DeclineResult
    from agent_dev.commits.import_result import ImportedCommits, ImportResult  # imports all of merging
    from agent_dev.commits.risks import RiskyFile

_FILES = 6  # shown per commit; the others are counted
_RISKY = 200  # checked per commit for risks to show
_SHORT = 10
IMPORTED, DECLINED = "imported", "declined"  # marks of a commit that the user has, or does not want


def print_commits(reports: Sequence[CommitReport], session: str, *, as_json: bool, is_running: bool = False) -> None:
    """Print the commits and the other changes of a session's git directories, by repository."""
    if as_json:
        _print_commits_json(reports, session, is_running=is_running)
        return
    if not any(report.changes.commits for report in reports):
        print_line("no commits")
    for report in reports:
        for row in repository_title(report, reports):
            print_line(f"{row}:")
        _print_report(report)
    is_left = any(not decision(one.id, report.changes) for report in reports for one in report.changes.commits)
    if is_left or any(report.changes.refs and not report.changes.commits for report in reports):
        print_line("to import commits: agent-dev merge --commits [BRANCH] [--as NAME]")
    if is_left:
        print_line("to decline commits: agent-dev commits --decline [ID]")


def decision(oid: str, found: GitChanges) -> str:
    """Return what the user decided about a commit: `imported`, `declined`, or ""."""
    if oid in found.imported_ids:
        return IMPORTED
    return DECLINED if oid in found.declined_ids else ""


def repository_title(report: CommitReport, reports: Sequence[CommitReport]) -> Iterator[str]:
    """Yield the escaped path of a repository that has something to report, if the session has several repositories."""
    found = report.changes
    if len(reports) > 1 and (found.commits or any(describe_other_changes(report))):
        yield visible(report.path)


def _print_report(report: CommitReport) -> None:
    for one in report.changes.commits:
        remote = " (on a remote branch, too)" if one.id in report.changes.remote_ids else ""
        decided = decision(one.id, report.changes)
        print_line(f"{one.id} {visible(one.subject)}{f' ({decided})' if decided else ''}{remote}")
        for row in (*describe_commit(one, report), *describe_submodules(report.submodule_changes, one.id)):
            print_line(f"  {row}")
    if report.changes.is_truncated:
        print_line("… and older commits")
    loose = [f"{line} (agent-dev merge applies them)" for line in describe_uncommitted(report)]
    for row in (*loose, *describe_other_changes(report)):
        print_line(row)


def describe_other_changes(report: CommitReport) -> Iterator[str]:
    """Yield the changes of the session's git directory except commits: refs, stashes, operations, work in submodules."""
    found = report.changes
    if found.fetched_count:
        yield f"fetched to remote branches only: {format_count(found.fetched_count, 'commit')}"
    yield from map(_ref, found.refs)
    for stash in found.stashes:
        yield f"stash: {visible(stash.subject)} ({stash.id[:_SHORT]}), not imported"
    for operation in found.operations_in_progress:
        yield f"{operation} in progress, not imported"
    for work in report.unlisted:
        yield visible(work.describe(report.session))


def describe_uncommitted(report: CommitReport) -> Iterator[str]:
    """Yield a line about the files that differ from the agent's last commit, if there are any, and commits."""
    if report.uncommitted and report.changes.commits:
        yield f"uncommitted: {format_count(len(report.uncommitted), 'file')}"


def describe_commit(commit: ParsedCommit, report: CommitReport, max_files: int = _FILES) -> Iterator[str]:
    """Yield a commit's author and time, signature, up to `max_files` files, and which uncommitted edits of the user it includes.

    Files with risks are shown beyond `max_files`.
    """
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(commit.author.time))
    signature = f", {commit.signature} signature, not verified" if commit.signature else ""
    yield f"{visible(commit.author.name)} <{visible(commit.author.email)}>, {when}{signature}"
    hidden = 0
    for number, one in enumerate(_fold_renames(commit, report)):
        if number >= max_files and not (one.rules and number < _RISKY):
            hidden += 1
            continue
        name = f"{visible(one.renamed_from)} → {visible(one.path)}" if one.renamed_from else visible(one.path)
        yield f"{SIGNS[one.kind]} {name}{' ! ' + ', '.join(one.rules) if one.rules else ''}"
    if hidden:
        yield f"… {format_count(hidden, 'more file')}"
    for path in report.user_edits.get(commit.id, ()):
        yield f"includes your uncommitted edits of {visible(path)}"


@dataclass(frozen=True, slots=True)
class _CommitFile:
    path: bytes
    kind: ChangeKind
    renamed_from: bytes
    rules: tuple[str, ...]


def _fold_renames(commit: ParsedCommit, report: CommitReport) -> Iterator[_CommitFile]:
    """Yield the changed files of a commit with each renamed file as one, and the rules of their risks."""
    renames, risks = report.renames.get(commit.id, {}), report.risks.get(commit.id, {})
    old_paths = frozenset(renames.values())
    for one in commit.changed_files:
        if one.path in old_paths and not one.new_mode:
            continue
        old = renames.get(one.path, b"")
        rules = dict.fromkeys(risk.rule for path in (one.path, old) for risk in risks.get(path, ()))
        yield _CommitFile(one.path, ChangeKind.RENAMED if old else ChangeKind(one.kind), old, tuple(rules))


def patch_header(commit: ParsedCommit) -> bytes:
    """Return the lines above a commit's patch, as git prints them; the bytes of the agent are not escaped."""
    author, when = commit.author, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(commit.author.time))
    merged = f"Merge: {' '.join(one[:_SHORT] for one in commit.parents)}\n" if len(commit.parents) > 1 else ""
    head = f"commit {commit.id}\n{merged}Author: {author.name} <{author.email}>\nDate:   {when}\n\n"
    message = b"".join(b"    %b\n" % line for line in commit.message.rstrip(b"\n").split(b"\n"))
    return head.encode("utf-8", "surrogateescape") + message + b"\n"


def describe_session_commit(commit: Commit, pointers: Sequence[SubmoduleChange], palette: Palette) -> Iterator[str]:
    """Yield a commit of a session in one line, and the submodules that it moved."""
    mark = f" ({IMPORTED})" if commit.is_imported else f" ({DECLINED})" if commit.is_declined else ""
    place = f" in {visible(commit.place)}" if commit.place else ""
    yield f"{palette.paint(f'commit {commit.id[:_SHORT]}', OutputTone.CHANGED)} {visible(commit.subject)}{place}{mark}"
    for text in describe_submodules(pointers, commit.id):
        yield f"  {text}"


def session_commit_as_json(commit: Commit, pointers: Sequence[SubmoduleChange]) -> dict[str, object]:
    """Return a commit of a session as JSON data; each submodule that it moved is a risk."""
    own = [one for one in pointers if one.commit == commit.id]
    risks = [{"rule": SUBMODULE_MOVED.rule, "reason": SUBMODULE_MOVED.why, **submodule_as_json(one)} for one in own]
    decided = {"imported": commit.is_imported, "declined": commit.is_declined}
    return {"id": commit.id, "subject": commit.subject, "repository": commit.place or None, **decided, "risks": risks}


def describe_submodules(pointers: Sequence[SubmoduleChange], commit: str) -> Iterator[str]:
    """Yield a description of the submodules that a commit moved; they are always a risk."""
    for one in pointers:
        if one.commit == commit:
            yield from _describe_link(one)


def _describe_link(one: SubmoduleChange) -> Iterator[str]:
    before, after = ((value or "nothing")[:_SHORT] for value in (one.old, one.new))
    yield f"! submodule {visible(one.path)}: {before} → {after}"
    if one.log is None:
        yield "  its commits are not in the session"
    elif not one.log and one.old and one.new:
        yield "  moved back to an older commit"
    yield from limit_rows([f"  {row.id[:_SHORT]} {visible(row.subject)}" for row in one.log or ()], "  … {} more")


def ref_label(name: str) -> str:
    """Return the display name of a ref: its kind and short name, escaped."""
    for prefix, kind in ((HEADS, "branch"), ("refs/tags/", "tag"), ("refs/remotes/", "remote branch")):
        if name.startswith(prefix):
            return f"{kind} {visible(name.removeprefix(prefix))}"
    return visible(name)


def _ref(ref: RefChange) -> str:
    before, after = ((value or "nothing")[:_SHORT] for value in (ref.before, ref.after))
    return f"{ref_label(ref.name)}: {ref.status}, {before} → {after}"


def print_decline(result: "DeclineResult", *, as_json: bool) -> None:
    """Print the result of declining commits."""
    if as_json:
        repositories = [{"root": part.path, "commits": [one.id for one in part.commits]} for part in result.repositories]
        over = {"session_empty": result.is_session_empty, "repositories": repositories}
        print_json({"version": 1, "session": result.session, "merge": result.merge, **over})
        return
    for row in describe_decline(result):
        print_outcome(row)


def describe_decline(result: "DeclineResult") -> Iterator[str]:
    """Yield the result of declining commits, line by line."""
    paths = [part.path for part in result.repositories]
    for part in result.repositories:
        place = f" in {visible(part.path)}" if len(paths) > 1 else describe_place(paths)
        yield from limit_rows(
            [f"declined {one.id[:_SHORT]} {visible(one.subject)}{place}" for one in part.commits], "declined {} more"
        )
    count = format_count(sum(len(part.commits) for part in result.repositories), "commit")
    left = ", nothing left in the session" if result.is_session_empty else ""
    yield f"{count} declined{left} ({undo_command(paths, result.merge)})"


def print_import(result: "ImportResult", *, is_dry: bool, as_json: bool) -> None:
    """Print the result of an import of commits."""
    if as_json:
        _print_import_json(result, is_dry=is_dry)
        return
    is_incomplete = result.conflicts or result.risky or result.not_updated or result.refused_lfs or result.reason
    emit = print_line if is_dry or is_incomplete else print_outcome
    for row in describe_import(result, is_dry=is_dry):
        emit(row)


def describe_import(result: "ImportResult", *, is_dry: bool = False) -> Iterator[str]:
    """Yield the result of an import of commits, line by line."""
    for left in result.conflicts:
        yield f"conflict: {_path(left.key, result)}: {visible(left.reason)}"
    yield from limit_rows([_risky(one, result) for one in result.risky], "risky: {} more")
    verb = "would import" if is_dry else "imported"
    for part in result.repositories:
        rows = [f"{verb} {one.id[:_SHORT]} {visible(one.subject)}{_place(part, result)}" for one in part.commits]
        yield from limit_rows(rows, f"{verb} {{}} more{_place(part, result)}")
        yield from _describe_attachments(part, verb, is_done=bool(result.merge))
    if result.merge or is_dry:
        rows = [f"merged with your uncommitted changes: {_path(one, result)}" for one in result.merged_files]
        yield from limit_rows(rows, "merged with your uncommitted changes: {} more")
    verb = "would skip" if is_dry else "skipped"
    rows = [f"{verb} {_path(one.key, result)}: {visible(one.reason)}" for one in result.not_updated]
    yield from limit_rows(rows, f"{verb} {{}} more, which differ from the commit")
    rows = [f"split hard links: other names of {_path(one, result)} keep the old content" for one in result.split_links]
    yield from limit_rows(rows, "split hard links: {} more")
    yield from _describe_ends(result, is_dry=is_dry)


def _describe_ends(result: "ImportResult", *, is_dry: bool) -> Iterator[str]:
    """Yield the new values of refs, and what was not done."""
    if result.failure:
        yield visible(result.failure)
    verb = "would point" if is_dry else "now points"
    for part in result.repositories:
        if part.reason:
            yield f"{visible(part.reason)}{_place(part, result)}"
        if result.merge or (is_dry and part.commits):
            root = result.roots.index(part.path)
            changed = sum(key.root == root for key in result.applied)
            files = f", {format_count(changed, 'file')} changed" if changed else ""
            undo = "" if is_dry else f" ({undo_command(result.roots, result.merge)})"
            yield f"{ref_label(part.ref)} {verb} to {part.after[:_SHORT]}{_place(part, result)}{files}{undo}"
    for command in dict.fromkeys((result.failure_command, *(part.next_command for part in result.repositories))):
        if command:
            yield f"hint: {visible(command)}"


def _place(part: "ImportedCommits", result: "ImportResult") -> str:
    """Return where commits were imported, if the session has several roots or is of another repository."""
    return f" in {visible(part.path)}" if len(result.roots) > 1 else describe_place(result.roots)


def _path(key: Key, result: "ImportResult") -> str:
    return visible(display_path(key, result.roots))


def _risky(one: "RiskyFile", result: "ImportResult") -> str:
    location = f" ({one.commit[:_SHORT]})" if one.commit else ""
    return f"risky: {_path(one.key, result)}: {', '.join(risk.rule for risk in one.risks)}{location}"


def _describe_attachments(result: "ImportedCommits", verb: str, *, is_done: bool) -> Iterator[str]:
    if result.lfs_count and (is_done or verb != "imported"):
        yield f"{verb} {format_count(result.lfs_count - len(result.refused_lfs), 'LFS file')}"
    for oid in result.refused_lfs:
        yield f"skipped LFS file {oid}: its content does not match its hash"
    for one in result.submodules:
        name = f"submodule {visible(one.path)}, {one.commit[:_SHORT]}"
        yield f"{name}: {visible(one.reason)}" if one.reason else f"{verb} {name} (git submodule update checks it out)"


def _print_import_json(result: "ImportResult", *, is_dry: bool) -> None:
    print_json(
        {
            "version": 1,
            "session": result.session,
            "merge": result.merge or None,
            "dry_run": is_dry,
            "ref": result.ref or None,
            "before": result.before or None,
            "after": result.after or None,
            "commits": [{"id": one.id, "subject": one.subject} for one in result.commits],
            "repositories": [
                {
                    "root": part.path,
                    "ref": part.ref or None,
                    "before": part.before or None,
                    "after": part.after or None,
                    "commits": [one.id for one in part.commits],
                    "reason": part.reason or None,
                    "hint": part.next_command or None,
                }
                for part in result.repositories
            ],
            "applied": [display_path(key, result.roots) for key in result.applied],
            "three_way": [display_path(key, result.roots) for key in result.merged_files],
            "conflicts": [{"path": display_path(left.key, result.roots), "reason": left.reason} for left in result.conflicts],
            "risky": [
                {
                    "commit": one.commit or None,
                    "path": display_path(one.key, result.roots),
                    "risks": [risk.rule for risk in one.risks],
                }
                for one in result.risky
            ],
            "reason": result.reason or None,
            "hint": result.next_command or None,
            "lfs": result.lfs_count,
            "rejected_lfs": list(result.refused_lfs),
            "skipped": [{"path": display_path(left.key, result.roots), "reason": left.reason} for left in result.not_updated],
            "split_links": [display_path(key, result.roots) for key in result.split_links],
            "submodules": [
                {"path": os.fsdecode(one.path), "commit": one.commit, "ref": one.ref or None, "reason": one.reason or None}
                for one in result.submodules
            ],
        }
    )


def _print_commits_json(reports: Sequence[CommitReport], session: str, *, is_running: bool) -> None:
    first = reports[0] if reports else CommitReport(GitChanges())
    others = [{"root": one.path, **_report_as_json(one)} for one in reports[1:]]
    head = {"version": 1, "session": session, "running": is_running}
    print_json({**head, **_report_as_json(first), "other_repositories": others})


def _report_as_json(report: CommitReport) -> dict[str, object]:
    found = report.changes
    return {
        "commits": [_row(commit, report) for commit in found.commits],
        "truncated": found.is_truncated,
        "fetched": found.fetched_count,
        "refs": [{"name": one.name, "change": one.status, "before": one.before, "after": one.after} for one in found.refs],
        "stashes": [{"id": one.id, "subject": one.subject} for one in found.stashes],
        "in_progress": list(found.operations_in_progress),
        "submodules": [submodule_as_json(one) for one in report.submodule_changes],
        "unlisted": [
            {
                "submodule": one.path or None,
                "commits": one.commits,
                "unreferenced": one.unreferenced,
                "stashes": one.stashes,
                "refs": one.refs,
                "problem": one.problem or None,
            }
            for one in report.unlisted
        ],
        "start": found.start_branch or None,
        "head": found.head_branch or None,
        "uncommitted": None if report.uncommitted is None else [os.fsdecode(path) for path in report.uncommitted],
    }


def submodule_as_json(one: SubmoduleChange) -> dict[str, object]:
    """Return a moved submodule as JSON data."""
    log = None if one.log is None else [{"id": row.id, "subject": row.subject} for row in one.log]
    return {"commit": one.commit, "path": os.fsdecode(one.path), "before": one.old or None, "after": one.new or None, "log": log}


def _row(commit: ParsedCommit, report: CommitReport) -> dict[str, object]:
    return {
        "id": commit.id,
        "subject": commit.subject,
        "message": commit.message.decode("utf-8", "surrogateescape"),
        "parents": list(commit.parents),
        "author": _person(commit.author),
        "committer": _person(commit.committer),
        "signature": commit.signature or None,
        "files": [
            {
                "path": os.fsdecode(one.path),
                "kind": one.kind,
                "from": os.fsdecode(one.renamed_from) if one.renamed_from else None,
                "risks": list(one.rules),
            }
            for one in _fold_renames(commit, report)
        ],
        "includes_uncommitted": [os.fsdecode(path) for path in report.user_edits.get(commit.id, ())],
        "on_remote": commit.id in report.changes.remote_ids,
        "imported": commit.id in report.changes.imported_ids,
        "declined": commit.id in report.changes.declined_ids,
    }


def _person(one: CommitIdentity) -> dict[str, object]:
    return {"name": one.name, "email": one.email, "time": one.time, "zone": one.zone}
