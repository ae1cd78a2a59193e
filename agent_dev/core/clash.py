"""Where commits are in each other's way: what `git merge-tree` says of it, and what a person answered."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent_dev.core.threeway import Side

Blob = tuple[int, str]  # mode and id
NOTHING: Blob = (0, "")

# What can be settled path by path: both sides' files are where they were (git: merge-ort.c, type_short_descriptions).
_SETTLED_BY_PATH = {b"CONFLICT (contents)", b"CONFLICT (binary)", b"CONFLICT (modify/delete)"}
_MODES = {0o100644, 0o100755, 0o120000}
_STAGES = {b"1": 0, b"2": 1, b"3": 2}


@dataclass(frozen=True, slots=True)
class Clash:
    """A path whose three sides do not fit together: a blob each, or NOTHING. The same three always have the same answer."""

    path: bytes
    base: Blob = NOTHING
    mine: Blob = NOTHING
    agent: Blob = NOTHING

    @property
    def mode(self) -> int:
        """The mode of a file that is made of both."""
        return self.agent[0] if self.mine[0] in (self.base[0], 0) else self.mine[0]


Answer = Side | bytes  # a side as it is, or the bytes of the file that both become
Answers = Mapping[Clash, Answer]


@dataclass(frozen=True, slots=True)
class Tangle:
    """What git made of two commits that do not fit: a tree with marks in it, the paths in conflict, what can be settled.

    `clashes` is empty when something of it cannot be settled path by path: a directory against a file, a rename.
    """

    tree: str
    paths: tuple[bytes, ...]
    clashes: tuple[Clash, ...]


def parse(said: bytes) -> Tangle:
    """Read what `git merge-tree -z --messages` says of a merge with conflicts (git: Documentation/git-merge-tree)."""
    head, _, messages = said.partition(b"\0\0")
    tree, *rows = head.split(b"\0")
    sides: dict[bytes, list[Blob]] = {}
    for row in rows:
        about, _, path = row.partition(b"\t")
        mode, oid, stage = about.split(b" ")
        sides.setdefault(path, [NOTHING, NOTHING, NOTHING])[_STAGES[stage]] = (int(mode, 8), oid.decode("ascii"))
    is_plain = all(side is NOTHING or side[0] in _MODES for three in sides.values() for side in three)
    is_by_path = {kind for kind in _kinds(messages) if kind.startswith(b"CONFLICT")} <= _SETTLED_BY_PATH
    clashes = tuple(Clash(path, *three) for path, three in sorted(sides.items())) if is_plain and is_by_path else ()
    return Tangle(tree.decode("ascii").strip(), tuple(sorted(sides)), clashes)


def _kinds(messages: bytes) -> Iterator[bytes]:
    fields = iter(messages.split(b"\0"))
    for count in fields:
        if not count:
            return
        if not count.isdigit():  # advice in sentences, as of submodules: what it is about is not settled here
            yield b"CONFLICT"
            return
        for _ in range(int(count)):
            next(fields, b"")
        yield next(fields, b"")
        next(fields, b"")
