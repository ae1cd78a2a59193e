"""The flags that select changes for `merge`."""

import argparse
import os
import re
import sys

from agent_dev.diff.merge3 import ConflictSide
from agent_dev.errors import CannotMerge, UsageError
from agent_dev.fs.entry import Key
from agent_dev.merge.review import Review
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.merge_engine.merge_plan import MergePlan
from agent_dev.session.sessions import CommandContext

_PARTS = re.compile(r"(.+):(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)", re.DOTALL)  # a name may hold a newline


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that select."""
    parser.add_argument(
        "--take",
        action="append",
        default=[],
        metavar="PATH[:HUNK,…]",
        help="select PATH and everything below it, or some of its hunks",
    )
    parser.add_argument("--all", "--safe", action="store_true", help="select all changes but risky, ignored and conflicting ones")
    parser.add_argument("--include-risky", action="store_true", help="with --all or --commits: risky changes, too")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="RULE", help="with --all: changes with this risk, too (agent-dev status)"
    )
    parser.add_argument("--patch", default="", metavar="FILE", help="select the hunks in this patch (-: stdin)")
    parser.add_argument(
        "--resolve",
        action="append",
        default=[],
        metavar="PATH=SIDE",
        help="resolve and select; SIDE: yours, agent, both or edit",
    )


def selects_changes(args: argparse.Namespace) -> bool:
    """Return whether any flag selects changes. Raises UsageError for flags that conflict."""
    if args.include_risky and not args.all and args.commits is None:
        raise UsageError(message="--include-risky requires --all or --commits", hint="--take PATH selects a risky path by name")
    if args.allow and (not args.all or args.include_risky):
        raise UsageError(message="--allow requires --all, without --include-risky", hint="agent-dev merge --all --allow RULE")
    has_selection = bool(args.take or args.all or args.patch or args.resolve)
    if args.export and not has_selection:
        raise UsageError(message="--export needs a selection", hint="add --all, --take PATH or --patch FILE")
    return has_selection


def read_patch(args: argparse.Namespace) -> bytes | None:
    """Return the patch to select. It is read before the session is locked: its writer may read that session."""
    return _read(args.patch) if args.patch else None


def parse_selection(args: argparse.Namespace, patch: bytes | None, review: Review, context: CommandContext) -> SelectionRequest:
    """Return the selection that the flags describe. Raises UsageError for a path that did not change."""
    whole: list[Key] = []
    parts: list[tuple[Key, frozenset[int]]] = []
    for text in args.take:
        match = None if _is_known(text, review, context) else _PARTS.fullmatch(text)
        if match is None:
            whole += resolve_paths([text], review, context)
        else:
            parts.append((resolve_paths([match[1]], review, context)[0], _numbers(match[2])))
    return SelectionRequest(
        tuple(whole),
        tuple(parts),
        patch,
        args.all,
        args.include_risky,
        tuple(_resolution(text, review, context) for text in args.resolve),
        frozenset(args.allow),
    )


def _numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) - int(first) > 1_000_000:
            raise UsageError(message=f"{part}: no file has that many hunks", hint="agent-dev diff --hunks shows their numbers")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(message=f"{path}: {error.strerror}", hint="--patch FILE, as printed by agent-dev diff") from None


def _resolution(text: str, review: Review, context: CommandContext) -> tuple[Key, ConflictSide | bytes]:
    path, _, side = text.rpartition("=")
    if not path or side not in (*ConflictSide, "edit"):
        raise UsageError(
            message=f"--resolve {text}: expected PATH=yours, agent, both or edit", hint="agent-dev merge --resolve PATH=edit"
        )
    key = resolve_paths([path], review, context)[0]
    if side != "edit":
        return key, ConflictSide(side)
    from agent_dev.cli import editor  # rare

    return key, editor.resolve_in_editor(review, key, context.environ)


def refuse_mass_deletion(review: Review, planned: MergePlan, context: CommandContext) -> None:
    """Refuse to delete a large share of the tree without --yes-delete-many."""
    percent = context.profile.many_deletions
    from agent_dev.merge import merge  # not needed by a diff

    many = merge.excessive_deletions(review, planned, percent)
    if many:
        reason = f"this would delete {many} files, more than {percent} % of the tree; nothing was merged"
        raise CannotMerge(path=context.root, reason=reason, hint="add --yes-delete-many, or set `many_deletions:` in config.yaml")


def _is_known(path: str, review: Review, context: CommandContext) -> bool:
    try:
        return bool(resolve_paths([path], review, context))
    except UsageError:
        return False


def resolve_paths(paths: list[str], review: Review, context: CommandContext) -> tuple[Key, ...]:
    """Convert typed paths, relative to the current directory or the root, to keys. Raises UsageError for unknown ones."""
    found = []
    for path in paths:
        if not path:
            raise UsageError(message="empty path", hint="--take . selects everything below this directory")
        candidates = [os.path.normpath(os.path.join(folder, path)) for folder in (context.cwd, context.root)]
        candidates.append(os.path.join(os.path.realpath(os.path.dirname(candidates[0])), os.path.basename(candidates[0])))
        keys = [key for full in candidates for key in review.keys_at(full)]
        known = [key for key in keys if review.changes.below(key.root, key.path)]
        if not known:
            raise UsageError(message=f"no changes at {path}", hint="agent-dev status lists the changes")
        found.append(known[0])
    return tuple(found)
