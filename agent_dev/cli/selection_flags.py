"""The flags by which `merge` chooses, and what they mean for a review."""

import argparse
import os
import re
import sys

from agent_dev.diff.merge3 import Side
from agent_dev.errors import CannotMerge, UsageError
from agent_dev.merge import merge
from agent_dev.merge.review import Review
from agent_dev.merge.select_by_flags import Wish
from agent_dev.merge_engine.merge_plan import MergePlan
from agent_dev.overlay.changes import Key
from agent_dev.session.sessions import Here

_PARTS = re.compile(r"(.+):(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that choose."""
    parser.add_argument(
        "--take", action="append", default=[], metavar="PATH[:BLOCK,…]", help="take PATH and all below it, or blocks of a file"
    )
    parser.add_argument("--all", action="store_true", help="take all that is clean, neither risky nor ignored by git")
    parser.add_argument("--include-risky", action="store_true", help="with --all: the risky ones too")
    parser.add_argument("--patch", default="", metavar="FILE", help="take exactly the hunks in this patch (-: from stdin)")
    parser.add_argument(
        "--resolve",
        action="append",
        default=[],
        metavar="PATH=mine|agent|both|edit",
        help="take a path that is in conflict, settled so; edit opens $EDITOR",
    )


def chooses(args: argparse.Namespace) -> bool:
    """Whether any flag chooses something. Raises UsageError for flags that do not go together."""
    if args.include_risky and not args.all:
        raise UsageError(message="--include-risky goes with --all", hint="--take PATH takes a risky path by name")
    chosen = bool(args.take or args.all or args.patch or args.resolve)
    if args.export and not chosen:
        raise UsageError(message="--export what?", hint="--all, --take PATH or --patch FILE chooses")
    return chosen


def patch_of(args: argparse.Namespace) -> bytes | None:
    """Return the patch that is to be taken. Before the session is held: what writes it may look at that session."""
    return _read(args.patch) if args.patch else None


def wish(args: argparse.Namespace, patch: bytes | None, review: Review, where: Here) -> Wish:
    """Return what the flags ask for. Raises UsageError for a path that did not change."""
    whole: list[Key] = []
    parts: list[tuple[Key, frozenset[int]]] = []
    for text in args.take:
        match = None if _is_known(text, review, where) else _PARTS.fullmatch(text)
        if match is None:
            whole += keys([text], review, where)
        else:
            parts.append((keys([match[1]], review, where)[0], _numbers(match[2])))
    return Wish(
        tuple(whole),
        tuple(parts),
        patch,
        args.all,
        args.include_risky,
        tuple(_resolution(text, review, where) for text in args.resolve),
    )


def _numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) - int(first) > 1_000_000:
            raise UsageError(message=f"{part}: that many blocks no file has", hint="agent-dev diff --blocks shows their numbers")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(message=f"{path}: {error.strerror}", hint="--patch FILE, as agent-dev diff writes it") from None


def _resolution(text: str, review: Review, where: Here) -> tuple[Key, Side | bytes]:
    path, _, how = text.rpartition("=")
    if not path or how not in (*Side, "edit"):
        raise UsageError(message=f"--resolve {text}: how?", hint="--resolve PATH=mine, =agent, =both or =edit")
    key = keys([path], review, where)[0]
    if how != "edit":
        return key, Side(how)
    from agent_dev.merge import editor  # rare

    return key, editor.edited(review, key, where.environ)


def guard(review: Review, planned: MergePlan, where: Here) -> None:
    """Refuse to delete a large share of the tree by flags that do not say so."""
    percent = where.profile.many_deletions
    many = merge.deletes_too_much(review, planned, percent)
    if many:
        reason = f"this would delete {many} files, more than {percent} % of the tree; nothing was changed"
        raise CannotMerge(path=where.root, reason=reason, hint="--yes-delete-many; or `many_deletions:` in config.yaml")


def _is_known(path: str, review: Review, where: Here) -> bool:
    try:
        return bool(keys([path], review, where))
    except UsageError:
        return False


def keys(paths: list[str], review: Review, where: Here) -> tuple[Key, ...]:
    """Turn paths as a person types them, seen from here or from the root, into keys. Raises UsageError for unknown ones."""
    found = []
    for path in paths:
        if not path:
            raise UsageError(message="an empty path names nothing", hint="--take . takes all below this directory")
        candidates = [os.path.normpath(os.path.join(place, path)) for place in (where.cwd, where.root)]
        candidates.append(os.path.join(os.path.realpath(os.path.dirname(candidates[0])), os.path.basename(candidates[0])))
        keys = [key for full in candidates for key in _below_roots(full, review)]
        known = [key for key in keys if review.changes.below(key.root, key.path)]
        if not known:
            raise UsageError(message=f"nothing changed at {path}", hint="agent-dev status lists what changed")
        found.append(known[0])
    return tuple(found)


def _below_roots(full: str, review: Review) -> list[Key]:
    keys = []
    for number, tree in enumerate(review.reals):
        if full == tree.path:
            keys.append(Key(number, b""))
        elif full.startswith(tree.path + "/"):
            keys.append(Key(number, os.fsencode(full[len(tree.path) + 1 :])))
    return keys
