"""What a session committed, what its agent left uncommitted, and which of its commits hold edits of the user's."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_dev.agent_git.changes import Found
from agent_dev.commits.prefetch import Begun, begun
from agent_dev.commits.submodules import Pointer, moved
from agent_dev.config import load
from agent_dev.errors import CommandFailed
from agent_dev.fs.dir_tree import Tree
from agent_dev.git import lfs_pointer as large_files
from agent_dev.git.bare import Bare
from agent_dev.git.formats.commit_format import Told, TreeChange
from agent_dev.merge.review import LARGEST_DIFF, Review
from agent_dev.overlay.changes import Entry, FileType, Risk
from agent_dev.risk.commits import looked_at, of_commit
from agent_dev.risk.content import LOOKED_AT

_MANY = 100_000  # bytes of paths on a command line
MOST_LOOKED_AT = 64 << 20  # bytes of what commits change, for risks
_AT_ONCE = 8 << 20  # bytes of them that are read before their sizes are known
_BATCH = ("cat-file", "--batch", "--buffer")
GITLINK, SYMLINK = 0o160000, 0o120000
Side = tuple[int, str] | None  # of a tree: mode and id


@dataclass(frozen=True, slots=True)
class Looked:
    """All of it. `uncommitted`: paths at which the agent's work tree is not its last commit, None where that is not known.

    `holds`: by commit the paths whose edits the user had not committed when the session began. `pointers`: submodules that moved.
    `risks`: by commit and path why it needs a careful look. `standing`: by commit the paths whose contents only
    the agent's work tree tells.
    """

    found: Found
    uncommitted: tuple[bytes, ...] | None = None
    holds: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    pointers: tuple[Pointer, ...] = ()
    risks: Mapping[str, Mapping[bytes, tuple[Risk, ...]]] = field(default_factory=dict)
    standing: Mapping[str, frozenset[bytes]] = field(default_factory=dict)


def look(review: Review) -> Looked:
    """Look at a session's git dir and work tree. Raises CommandFailed when git cannot read what the agent left."""
    with begun(review.session, review.record, review.environ) as one:
        return looked(review, one)


def looked(review: Review, one: Begun | None) -> Looked:
    """Return what `look` does, of a session at whose git dir git is at work already."""
    if one is None:
        return Looked(Found())
    found, skeleton, tree = one.end(), one.skeleton, WorkTree(review)
    pairs = looked_at(found.commits)
    with _looking(skeleton, pairs) as texts_of:
        try:
            moves = {each.path: each for each in one.moved()}
            uncommitted = _uncommitted(tree, one, moves)
            at_head = {path: moves[path].new for path in uncommitted if path in moves}
        except CommandFailed:
            at_head, uncommitted = None, None  # of what the agent removed or broke; its commits are told all the same
        if not (review.changes.changes or found.commits or one.start != one.head):
            return Looked(found, ())
        links = moved(review.session, review.record, found.commits, review.environ)
        rules = load.risk_rules(review.environ)
        texts = texts_of()
    risks = {each.id: risky for each in found.commits if (risky := of_commit(each, rules, texts))}
    standing = {each.id: _standing(each, at_head, texts) for each in found.commits}
    return Looked(found, uncommitted, _holding(tree, skeleton, found, one.start), links, risks, standing)


def _standing(told: Told, at_head: Mapping[bytes, str] | None, texts: Mapping[str, bytes]) -> frozenset[bytes]:
    """Return the paths of a commit whose contents only the work tree tells.

    `at_head`: what its last commit has where it does not hold those bytes, by a filter of git's or an edit since; None where
    that is not known. What lies with LFS has only names in commits.
    """
    return frozenset(
        one.path
        for one in told.files
        if at_head is None or at_head.get(one.path) == one.new or large_files.parse(texts.get(one.new, b"")) is not None
    )


class WorkTree:
    """What the agent saw: its own files over what the root held."""

    def __init__(self, review: Review) -> None:
        self.review = review
        self.base = review.base.entries(0)
        self.changes = {change.key.path: change for change in review.changes.changes if change.key.root == 0}

    def at(self, path: bytes) -> tuple[Entry | None, bytes | None]:
        """Return what stands at a path, and the bytes of a file or link where they are known."""
        change, upper = self.changes.get(path), self.review.uppers[0]
        entry = change.after if change is not None else upper.look(path)
        if entry is not None:
            return (None, None) if entry.type is FileType.DEVICE else (entry, self._read(upper, path, entry))
        return (None, None) if change is not None else self.at_start(path)

    def at_start(self, path: bytes) -> tuple[Entry | None, bytes | None]:
        """Return what stood at a path when the session began."""
        entry, real = self.base.get(path), self.review.reals[0]
        if entry is None:
            return None, None
        now = real.look(path)
        if now is not None and now.identity == entry.identity:
            return entry, self._read(real, path, entry)
        if entry.type is FileType.SYMLINK:
            return entry, entry.target
        return entry, self.review.base.content(0, path)

    @staticmethod
    def _read(tree: Tree, path: bytes, entry: Entry) -> bytes | None:
        if entry.type is FileType.SYMLINK:
            return entry.target
        try:
            return tree.read(path, LARGEST_DIFF) if entry.type is FileType.FILE else None
        except OSError:
            return None

    def is_(self, path: bytes, wanted: Side, *, is_sha256: bool) -> bool:
        """Whether a tree with `wanted` at a path is what stands there, as far as that is known; line ends do not count."""
        entry, data = self.at(path)
        if entry is None or entry.type is FileType.DIRECTORY:
            return wanted is None
        return wanted is not None and is_same(entry, data, wanted, is_sha256=is_sha256)


def is_same(entry: Entry, data: bytes | None, wanted: tuple[int, str], *, is_sha256: bool) -> bool:
    """Whether a file or link is what a tree says: bytes that are not known are taken to be."""
    mode, oid = wanted
    if mode != tree_mode(entry):
        return False
    if data is None:
        return True
    forms = {data, data.replace(b"\r\n", b"\n")}
    return any(blob_id(form, is_sha256=is_sha256) == oid for form in forms)


def tree_mode(entry: Entry) -> int:
    """Return the mode by which a tree knows a file or link."""
    if entry.type is FileType.SYMLINK:
        return SYMLINK
    return 0o100755 if entry.mode & 0o100 else 0o100644


def blob_id(data: bytes, *, is_sha256: bool) -> str:
    """Return the id of bytes as a blob."""
    kind = hashlib.sha256 if is_sha256 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _uncommitted(tree: WorkTree, one: Begun, moved: Mapping[bytes, TreeChange]) -> tuple[bytes, ...]:
    skeleton, end = one.skeleton, one.head
    wanted: dict[bytes, Side] = {path: (each.new_mode, each.new) if each.new_mode else None for path, each in moved.items()}
    others = [path for path, change in tree.changes.items() if path not in moved and not change.ignored]
    at_end = _entries(skeleton, end, others) if others and end else {}
    wanted |= {path: at_end.get(path) for path in others}
    return tuple(
        sorted(
            path
            for path, side in wanted.items()
            if (side is None or side[0] != GITLINK) and not tree.is_(path, side, is_sha256=skeleton.is_sha256)
        )
    )


def _entries(skeleton: Bare, commit: str, paths: list[bytes]) -> dict[bytes, Side]:
    """Return some files of a commit, or all of them where there are too many to name."""
    found: dict[bytes, Side] = {}
    few = tuple(os.fsdecode(path) for path in paths) if sum(map(len, paths)) < _MANY else ()
    for row in skeleton.ask("ls-tree", "-r", "-z", "--full-tree", commit, *few).split(b"\0"):
        head, _, path = row.partition(b"\t")
        if path:
            mode, _, oid = head.split(b" ")
            found[path] = (int(mode, 8), oid.decode("ascii"))
    return found


# Edits that the user had not committed


def _holding(tree: WorkTree, skeleton: Bare, found: Found, start: str) -> dict[str, tuple[bytes, ...]]:
    """Return by commit the paths at which it holds what the user had not committed when the session began."""
    dirty = _dirty(tree, skeleton, {one.path for told in found.commits for one in told.files}, start)
    if not dirty:
        return {}
    from agent_dev.diff import contains_edit as edits  # which compares texts

    rows = [(told.id, one) for told in found.commits for one in told.files if one.path in dirty and one.new_mode != GITLINK]
    texts = blobs(skeleton, [one.new for _, one in rows if one.new_mode])
    holding: dict[str, list[bytes]] = {}
    for oid, one in rows:
        before, edited = dirty[one.path]
        if one.new in texts and edits.holds(before, edited, texts[one.new]):
            holding.setdefault(oid, []).append(one.path)
    return {oid: tuple(sorted(paths)) for oid, paths in holding.items()}


def _dirty(tree: WorkTree, skeleton: Bare, paths: set[bytes], start: str) -> dict[bytes, tuple[bytes, bytes]]:
    """Return by path what the first commit held and what the work tree held instead, of those that were not committed."""
    stored = [path for path in sorted(paths) if tree.review.base.stored(0, path) is not None]
    at_start = _entries(skeleton, start, stored) if stored and start else {}
    texts = blobs(skeleton, [side[1] for path in stored if (side := at_start.get(path)) is not None and side[0] != GITLINK])
    found = {}
    for path in stored:
        side, edited = at_start.get(path), tree.review.base.content(0, path)
        before = texts.get(side[1], b"") if side is not None else b""
        if edited is not None and before.replace(b"\r\n", b"\n") != edited.replace(b"\r\n", b"\n"):
            found[path] = (before, edited)
    return found


_Pairs = tuple[tuple[str, ...], ...]


@contextmanager
def _looking(skeleton: Bare, pairs: _Pairs) -> Iterator[Callable[[], dict[str, bytes]]]:
    """Have git at work on the blobs that rules look at, and what waits for them: as a rule they are few, and read at once."""
    ids = list(dict.fromkeys(oid for pair in pairs for oid in pair))
    if not ids:
        yield dict
        return
    with skeleton.started(*_BATCH, question=_lines(ids), most=_AT_ONCE) as answer:

        def end() -> dict[str, bytes]:
            try:
                texts = _parsed(skeleton, answer()[1], ids)
            except CommandFailed:
                return _looked_at(skeleton, pairs)
            return {oid: texts[oid] for oid in _chosen(pairs, {oid: len(data) for oid, data in texts.items()})}

        yield end


def _looked_at(skeleton: Bare, pairs: _Pairs) -> dict[str, bytes]:
    """Return the blobs that rules look at where they are not few: asked for when their sizes are known."""
    said = skeleton.run("cat-file", "--batch-check", "--buffer", question=_lines([oid for pair in pairs for oid in pair]))[1]
    rows = (row.split(" ") for row in said.decode("ascii", "replace").split("\n"))
    sizes = {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[1] == "blob"}
    try:
        return blobs(skeleton, list(_chosen(pairs, sizes)))
    except CommandFailed:
        return {}


def _chosen(pairs: _Pairs, sizes: Mapping[str, int]) -> dict[str, None]:
    """Return what is looked at, of the newest commits first, as many as are looked at; none that git stumbles over."""
    chosen: dict[str, None] = {}
    room = MOST_LOOKED_AT
    for pair in pairs:
        some = [oid for oid in pair if oid in sizes and oid not in chosen]
        size = sum(sizes[oid] for oid in some)
        if size <= room and all(sizes[oid] <= LOOKED_AT for oid in some):
            room -= size
            chosen |= dict.fromkeys(some)
    return chosen


def blobs(place: Bare, ids: list[str]) -> dict[str, bytes]:
    """Return the bytes of blobs by their ids. Raises CommandFailed for one that is not there or not what its id says."""
    wanted = sorted(set(ids))
    found = _parsed(place, place.ask(*_BATCH, question=_lines(wanted)), wanted) if wanted else {}
    missing = [oid for oid in wanted if oid not in found]
    if missing:
        raise CommandFailed(program="git cat-file", reason=f"{missing[0]} is no blob")
    return found


def _lines(ids: list[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in ids).encode()


def _parsed(place: Bare, said: bytes, ids: list[str]) -> dict[str, bytes]:
    """Return the blobs of an answer to some ids, without what is no blob. Raises CommandFailed for what its id does not say."""
    found, at = {}, 0
    for oid in ids:
        end = said.find(b"\n", at)
        words = said[at:end].split(b" ")
        if end < 0 or len(words) not in (2, 3):
            raise CommandFailed(program="git cat-file", reason=f"{oid} cannot be read")
        if len(words) == 2:  # missing, or a name of several
            at = end + 1
            continue
        size = int(words[2])
        data, at = said[end + 1 : end + 1 + size], end + size + 2
        if words[1] == b"blob":
            if blob_id(data, is_sha256=place.is_sha256) != oid:
                raise CommandFailed(program="git cat-file", reason=f"{oid} is not what its id says")
            found[oid] = data
    return found
