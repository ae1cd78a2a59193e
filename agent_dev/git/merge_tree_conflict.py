"""Where commits are in each other's way: what `git merge-tree` says of it, and what a person answered."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent_dev.diff.merge3 import Side

Blob = tuple[int, str]  # mode and id
NOTHING: Blob = (0, "")
DIRECTORY, GITLINK = 0o040000, 0o160000

# What can be settled path by path: what each side has is told of the very path (git: merge-ort.c, type_short_descriptions).
_SETTLED_BY_PATH = {
    b"CONFLICT (contents)",
    b"CONFLICT (binary)",
    b"CONFLICT (modify/delete)",
    b"CONFLICT (rename/delete)",
    b"CONFLICT (directory rename suggested)",
}
_RENAMED_TWICE = b"CONFLICT (rename/rename)"
# One side's file was put aside under another name: where it stands, and whose path it was, as git's message names them.
_ASIDE = {b"CONFLICT (file/directory)": (0, 1), b"CONFLICT (distinct modes)": (1, 0)}
# A submodule that both moved: git names the path, with one of several reasons, and at last says what one might do by hand.
_OF_SUBMODULE = b"CONFLICT (submodule"
_ADVICE = b"Recursive merging with submodules"
_MODES = {0o100644, 0o100755, 0o120000}
_STAGES = {b"1": 0, b"2": 1, b"3": 2}


@dataclass(frozen=True, slots=True)
class Clash:
    """A path whose three sides do not fit: a blob each, a submodule's commit, a tree, or NOTHING. The same three have one answer.

    `aside`: where git put the file of one side, for the other has something of another kind at the path. `is_own`: of a file
    that has another name on the other side, and is without its lines, for they are in conflict with these.
    """

    path: bytes
    base: Blob = NOTHING
    mine: Blob = NOTHING
    agent: Blob = NOTHING
    aside: bytes = field(default=b"", compare=False)  # named after commits that may be made anew
    is_own: bool = field(default=False, compare=False)

    @property
    def mode(self) -> int:
        """The mode of a file that is made of both."""
        return self.agent[0] if self.mine[0] in (self.base[0], 0) else self.mine[0]


Answer = Side | bytes  # a side as it is, or the bytes of the file that both become
Answers = Mapping[Clash, Answer]


@dataclass(frozen=True, slots=True)
class Tangle:
    """What git made of two commits that do not fit: a tree with marks in it, the paths in conflict, what can be settled.

    `clashes` is empty when something of it cannot be settled path by path: a submodule beside a file. `maybe_marked`: blobs that
    git may have made of two, with marks in them.
    """

    tree: str
    paths: tuple[bytes, ...]
    clashes: tuple[Clash, ...]
    maybe_marked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Message:
    kind: bytes
    paths: tuple[bytes, ...]


def parse(said: bytes) -> Tangle:
    """Read what `git merge-tree -z --messages` says of a merge with conflicts (git: Documentation/git-merge-tree).

    A clash with a directory has no id of its tree yet.
    """
    head, _, messages = said.partition(b"\0\0")
    tree, *rows = head.split(b"\0")
    sides: dict[bytes, list[Blob]] = {}
    for row in rows:
        about, _, path = row.partition(b"\t")
        mode, oid, stage = about.split(b" ")
        sides.setdefault(path, [NOTHING, NOTHING, NOTHING])[_STAGES[stage]] = (int(mode, 8), oid.decode("ascii"))
    told = [one for one in _messages(messages) if one.kind.startswith(b"CONFLICT")]
    modes = {path: {side[0] for side in three if side is not NOTHING} for path, three in sides.items()}
    links = {path for path, found in modes.items() if found == {GITLINK}}
    is_plain = all(found <= _MODES or path in links for path, found in modes.items())
    is_by_path = all(_is_by_path(one, links) for one in told)
    clashes = _clashes(sides, told) if is_plain and is_by_path else ()
    renamed = {path for one in told if one.kind == _RENAMED_TWICE for path in one.paths}
    marked = tuple(side[1] for path in sorted(renamed & sides.keys()) for side in sides[path][1:] if side is not NOTHING)
    return Tangle(tree.decode("ascii").strip(), tuple(sorted(sides)), clashes, marked)


def _is_by_path(one: _Message, links: set[bytes]) -> bool:
    if one.kind.startswith(_OF_SUBMODULE):
        return bool(links) and links.issuperset(one.paths)
    return one.kind in {*_SETTLED_BY_PATH, _RENAMED_TWICE, *_ASIDE}


def _clashes(sides: Mapping[bytes, list[Blob]], told: list[_Message]) -> tuple[Clash, ...]:
    """Return what can be settled, () where git names something that is not among the paths."""
    found = {path: Clash(path, base, mine, agent) for path, (base, mine, agent) in sides.items()}
    for one in told:
        if one.kind in _ASIDE and not _put_back(found, one):
            return ()
    some = (one for one in found.values() if (one.mine, one.agent) != (NOTHING, NOTHING))  # else it is gone on either side
    return tuple(sorted(some, key=lambda one: one.path))


def _put_back(found: dict[bytes, Clash], one: _Message) -> bool:
    """Make one clash of a path and of what was put aside from there; return whether that is so."""
    if len(one.paths) != 2:
        return False
    aside, path = (one.paths[at] for at in _ASIDE[one.kind])
    if aside not in found:
        return False
    file, other = found.pop(aside), found.pop(path, Clash(path))
    pairs = zip((file.base, file.mine, file.agent), (other.base, other.mine, other.agent), strict=True)
    if any(NOTHING not in pair for pair in pairs):
        return False
    base, mine, agent = (max(pair) for pair in ((file.base, other.base), (file.mine, other.mine), (file.agent, other.agent)))
    if GITLINK in (base[0], mine[0], agent[0]):
        return False
    made = Clash(path, base, mine, agent, aside)
    if one.kind == b"CONFLICT (file/directory)":
        if NOTHING not in (mine, agent):
            return False
        made = replace(made, agent=(DIRECTORY, "")) if agent == NOTHING else replace(made, mine=(DIRECTORY, ""))
    found[path] = made
    return True


def _messages(messages: bytes) -> Iterator[_Message]:
    fields = iter(messages.split(b"\0"))
    for count in fields:
        if not count:
            return
        if not count.isdigit():  # advice in sentences, to the end: of submodules, or nothing that is known
            yield _Message(_OF_SUBMODULE if count.startswith(_ADVICE) else b"CONFLICT", ())
            return
        paths = tuple(next(fields, b"") for _ in range(int(count)))
        yield _Message(next(fields, b""), paths)
        next(fields, b"")


def outcome(one: Clash, answer: Side | Blob, taken: frozenset[bytes]) -> dict[bytes, Blob]:
    """Return what stands at which paths when a clash is settled; NOTHING for those that go. `taken`: all paths of the tree.

    `answer` may be a new blob. BOTH is for things of different kinds: yours, or what is no file, keeps the name.
    """
    moved: dict[bytes, Blob] = {one.aside: NOTHING} if one.aside else {}
    is_both = answer is Side.BOTH
    stays = one.mine if answer is Side.MINE or is_both else one.agent if answer is Side.AGENT else answer
    if is_both and one.agent[0] == DIRECTORY:
        moved[_beside(one.path + b"~yours", taken)] = one.mine
        stays = one.agent
    elif is_both:
        moved[_beside(one.path + b"~agent", taken)] = one.agent
    if not isinstance(stays, Side) and stays[0] != DIRECTORY:
        if DIRECTORY in (one.mine[0], one.agent[0]):
            moved |= {path: NOTHING for path in taken if path.startswith(one.path + b"/")}
        moved[one.path] = stays
    return moved


def _beside(name: bytes, taken: frozenset[bytes]) -> bytes:
    while name in taken or any(path.startswith(name + b"/") for path in taken):
        name += b"~"
    return name


def has_marks(data: bytes) -> bool:
    """Whether a file seems to hold the marks of a conflict."""
    lines = data.split(b"\n")
    return all(any(line.startswith(mark) for line in lines) for mark in (b"<<<<<<<", b">>>>>>>"))
