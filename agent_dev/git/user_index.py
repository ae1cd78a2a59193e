"""The user's index, read and made anew by a git that sees nothing of the user's repository but a copy of it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from agent_dev.commits.agent_git import refs
from agent_dev.git import bare
from agent_dev.git.bare import Bare
from agent_dev.git.conversion import ATTRIBUTES, Conversion, conversion
from agent_dev.git.formats.index_format import IndexEntry, IndexUnreadableError, parse_whole
from agent_dev.git.private_copy import copy_file
from agent_dev.merge_engine.journal import IndexMove

NOTHING = (0, "")
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """What an index holds at a path. `is_skipped`: nothing has to stand there (sparse); `is_assumed`: git does not look."""

    mode: int
    oid: str
    is_skipped: bool = False
    is_assumed: bool = False
    is_unmerged: bool = False

    @property
    def side(self) -> tuple[int, str]:
        """Mode and id."""
        return self.mode, self.oid


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of an index, in a repository of ours; with `entries`, what it holds at the paths that were asked for."""

    place: Bare
    path: str
    entries: Mapping[bytes, Entry]
    has_attributes: bool = False


def copied(place: Bare, folder: str, paths: frozenset[bytes], name: str = "index") -> Copy:
    """Copy the index of a git dir. Raises OSError, CommandFailed when git cannot read it."""
    copy = f"{place.path}/{name}"
    if os.path.lexists(f"{folder}/index"):
        copy_file(f"{folder}/index", copy)
    for entry in os.scandir(folder):
        if entry.name.startswith("sharedindex.") and not os.path.lexists(f"{place.path}/{entry.name}"):
            copy_file(entry.path, f"{place.path}/{entry.name}")
    if not paths:
        return Copy(place, copy, {})
    said = place.ask("ls-files", "-s", "-v", "-z", env={"GIT_INDEX_FILE": copy})
    return Copy(place, copy, _listed(said, paths), has_attributes=b".gitattributes\0" in said)


def _listed(said: bytes, paths: frozenset[bytes]) -> dict[bytes, Entry]:
    found: dict[bytes, Entry] = {}
    for row in said.split(b"\0"):
        head, _, path = row.partition(b"\t")
        if path in paths and head:
            tag, mode, oid, stage = head.split(b" ")
            letter = tag.decode("ascii")
            flags = {"is_skipped": letter in "Ss", "is_assumed": letter.islower(), "is_unmerged": stage != b"0"}
            found[path] = Entry(int(mode, 8), oid.decode("ascii"), **flags)
    return found


def change(copy: Copy, moves: tuple[IndexMove, ...]) -> None:
    """Let a copy hold what moves say; flags that the user gave a path stay. Raises CommandFailed."""
    place, env = copy.place, {"GIT_INDEX_FILE": copy.path}
    gone = [b"0 %b\t%b\0" % (place.zero.encode(), one.path) for one in moves if one.new == NOTHING]
    come = [b"%o %b\t%b\0" % (one.new[0], one.new[1].encode(), one.path) for one in moves if one.new != NOTHING]
    whole = ("-c", "core.splitIndex=false", "-c", "core.fsync=none", "update-index")  # a copy of ours, made durable later
    place.ask(*whole, "-z", "--index-info", question=b"".join(gone + come), env=env)
    kept = [(one.path, copy.entries[one.path]) for one in moves if one.new != NOTHING and one.path in copy.entries]
    for flag, paths in (
        ("--skip-worktree", [path for path, entry in kept if entry.is_skipped]),
        ("--assume-unchanged", [path for path, entry in kept if entry.is_assumed]),
    ):
        if paths:
            question = b"".join(path + b"\0" for path in paths)
            place.ask(*whole, flag, "-z", "--stdin", question=question, env=env | {"GIT_WORK_TREE": f"{place.path}/refs"})


def vouched(copy: Copy) -> tuple[IndexEntry, ...]:
    """Return the entries that git found clean when it last looked, long enough before it wrote the index."""
    try:
        with open(copy.path, "rb") as file:
            data, written = file.read(), os.fstat(file.fileno()).st_mtime_ns
        entries = parse_whole(data, 32 if copy.place.is_sha256 else 20, partial(_shared, copy.place.path))
        return tuple(one for one in entries if one.mtime < written)
    except (OSError, IndexUnreadableError):
        return ()


def _shared(folder: str, name: str) -> bytes:
    with open(f"{folder}/sharedindex.{name}", "rb") as file:
        return file.read()


def may_convert(copy: Copy, common: str, paths: tuple[bytes, ...], config: Mapping[str, str]) -> bool:
    """Whether anything at all could make other bytes of a blob on its way to the disk."""
    keys = ("core.autocrlf", "core.eol", "core.attributesfile")
    is_named = any(path.endswith(b".gitattributes") for path in paths)
    home = dict(copy.place.environ)
    usual = f"{home.get('XDG_CONFIG_HOME') or home.get('HOME', '') + '/.config'}/git/attributes"
    places = (f"{common}/info/attributes", usual)
    return copy.has_attributes or is_named or any(key in config for key in keys) or any(map(os.path.lexists, places))


def conversions(copy: Copy, common: str, paths: tuple[bytes, ...], config: Mapping[str, str]) -> dict[bytes, Conversion]:
    """Return what becomes of paths' blobs on the disk, by the attributes in a copy and the user's own."""
    if not paths:
        return {}
    own = refs.regular(f"{common}/info/attributes", _LARGEST)
    if own and not os.path.lexists(f"{copy.place.path}/info"):
        os.mkdir(f"{copy.place.path}/info", 0o700)
        bare.write(f"{copy.place.path}/info/attributes", own)
    home = dict(copy.place.environ)
    usual = f"{home.get('XDG_CONFIG_HOME') or home.get('HOME', '') + '/.config'}/git/attributes"
    every = os.path.expanduser(config.get("core.attributesfile", "")) or (usual if os.path.exists(usual) else "")
    words = ("-c", f"core.attributesFile={every}") if every else ()
    said = copy.place.ask(
        *words,
        "check-attr",
        "--cached",
        "-z",
        "--stdin",
        *ATTRIBUTES,
        question=b"".join(path + b"\0" for path in paths),
        env={"GIT_INDEX_FILE": copy.path},
    )
    told: dict[bytes, dict[str, str]] = {}
    rows = said.split(b"\0")
    for path, name, value in zip(rows[::3], rows[1::3], rows[2::3], strict=False):
        told.setdefault(path, {})[os.fsdecode(name)] = os.fsdecode(value)
    return {path: conversion(told.get(path, {}), config) for path in paths}
