"""Conflicts of commits as `git merge-tree` reports them, and their resolutions."""

from collections.abc import Iterator, Mapping

from agent_dev.diff.merge3 import ConflictSide
from agent_dev.git.formats.packed_blobs import Blob
from agent_dev.quick_dataclass import dataclass, field, replace

NO_BLOB: Blob = (0, "")
DIRECTORY, GITLINK = 0o040000, 0o160000

# Conflicts that are resolved path by path: git reports all sides under one path (git: merge-ort.c, type_short_descriptions).
_RESOLVED_BY_PATH = {
    b"CONFLICT (contents)",
    b"CONFLICT (binary)",
    b"CONFLICT (modify/delete)",
    b"CONFLICT (rename/delete)",
    b"CONFLICT (directory rename suggested)",
}
_RENAMED_TWICE = b"CONFLICT (rename/rename)"
# Git renamed one side's file: positions of its new and its original path among the message's paths.
_RENAMED_BY_GIT = {b"CONFLICT (file/directory)": (0, 1), b"CONFLICT (distinct modes)": (1, 0)}
# A submodule that both sides moved: git gives one of several reasons, and ends with advice in prose.
_SUBMODULE = b"CONFLICT (submodule"
_ADVICE = b"Recursive merging with submodules"
_MODES = {0o100644, 0o100755, 0o120000}
_STAGES = {b"1": 0, b"2": 1, b"3": 2}


@dataclass(frozen=True, slots=True)
class PathConflict:
    """A path with a conflict: per side a blob, a submodule's commit, a tree or NOTHING. Equal sides have equal resolutions.

    `renamed_to`: git's new name of one side's file, if the other side has another kind of entry. `is_rename_rename`: the two
    sides renamed the file differently, and the lines under the other name, which conflict with these, are not included.
    """

    path: bytes
    base: Blob = NO_BLOB
    yours: Blob = NO_BLOB
    agent: Blob = NO_BLOB
    renamed_to: bytes = field(default=b"", compare=False)  # contains commit ids, which may change
    is_rename_rename: bool = field(default=False, compare=False)

    @property
    def mode(self) -> int:
        """The mode of a file merged from both sides."""
        return self.agent[0] if self.yours[0] in (self.base[0], 0) else self.yours[0]


ConflictResolution = ConflictSide | bytes  # one side unchanged, or the bytes of the merged file
ConflictResolutions = Mapping[PathConflict, ConflictResolution]


@dataclass(frozen=True, slots=True)
class MergeTreeResult:
    """The result of a merge with conflicts: a tree with conflict markers, the paths in conflict, and resolvable conflicts.

    `conflicts` is empty if one cannot be resolved path by path, like a submodule in conflict with a file. `maybe_marked`: blobs
    that git may have merged, with conflict markers in them.
    """

    tree: str
    paths: tuple[bytes, ...]
    conflicts: tuple[PathConflict, ...]
    maybe_marked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Message:
    kind: bytes
    paths: tuple[bytes, ...]


def parse_merge_tree(output: bytes) -> MergeTreeResult:
    """Parse the output of `git merge-tree -z --messages` for a merge with conflicts (git: Documentation/git-merge-tree).

    The tree id of a directory in conflict is still empty.
    """
    head, _, messages = output.partition(b"\0\0")
    tree, *rows = head.split(b"\0")
    sides: dict[bytes, list[Blob]] = {}
    for row in rows:
        details, _, path = row.partition(b"\t")
        mode, oid, stage = details.split(b" ")
        sides.setdefault(path, [NO_BLOB, NO_BLOB, NO_BLOB])[_STAGES[stage]] = (int(mode, 8), oid.decode("ascii"))
    reports = [one for one in _messages(messages) if one.kind.startswith(b"CONFLICT")]
    modes = {path: {side[0] for side in three if side is not NO_BLOB} for path, three in sides.items()}
    links = {path for path, found in modes.items() if found == {GITLINK}}
    is_plain = all(found <= _MODES or path in links for path, found in modes.items())
    is_by_path = all(_is_by_path(one, links) for one in reports)
    conflicts = _conflicts(sides, reports) if is_plain and is_by_path else ()
    renamed = {path for one in reports if one.kind == _RENAMED_TWICE for path in one.paths}
    possibly_marked = tuple(side[1] for path in sorted(renamed & sides.keys()) for side in sides[path][1:] if side is not NO_BLOB)
    return MergeTreeResult(tree.decode("ascii").strip(), tuple(sorted(sides)), conflicts, possibly_marked)


def _is_by_path(message: _Message, links: set[bytes]) -> bool:
    if message.kind.startswith(_SUBMODULE):
        return bool(links) and links.issuperset(message.paths)
    return message.kind in {*_RESOLVED_BY_PATH, _RENAMED_TWICE, *_RENAMED_BY_GIT}


def _conflicts(sides: Mapping[bytes, list[Blob]], messages: list[_Message]) -> tuple[PathConflict, ...]:
    """Return the conflicts that can be resolved, () if git names a path that is not listed."""
    found = {path: PathConflict(path, base, yours, agent) for path, (base, yours, agent) in sides.items()}
    for one in messages:
        if one.kind in _RENAMED_BY_GIT and not _rejoin(found, one):
            return ()
    unresolved = (one for one in found.values() if (one.yours, one.agent) != (NO_BLOB, NO_BLOB))  # else both sides deleted it
    return tuple(sorted(unresolved, key=lambda one: one.path))


def _rejoin(conflicts: dict[bytes, PathConflict], message: _Message) -> bool:
    """Join a renamed file with the conflict at its original path; return False if they do not belong together."""
    if len(message.paths) != 2:
        return False
    renamed, path = (message.paths[index] for index in _RENAMED_BY_GIT[message.kind])
    if renamed not in conflicts:
        return False
    file, other = conflicts.pop(renamed), conflicts.pop(path, PathConflict(path))
    pairs = zip((file.base, file.yours, file.agent), (other.base, other.yours, other.agent), strict=True)
    if any(NO_BLOB not in pair for pair in pairs):
        return False
    base, yours, agent = (max(pair) for pair in ((file.base, other.base), (file.yours, other.yours), (file.agent, other.agent)))
    if GITLINK in (base[0], yours[0], agent[0]):
        return False
    joined = PathConflict(path, base, yours, agent, renamed)
    if message.kind == b"CONFLICT (file/directory)":
        if NO_BLOB not in (yours, agent):
            return False
        joined = replace(joined, agent=(DIRECTORY, "")) if agent == NO_BLOB else replace(joined, yours=(DIRECTORY, ""))
    conflicts[path] = joined
    return True


def _messages(messages: bytes) -> Iterator[_Message]:
    fields = iter(messages.split(b"\0"))
    for record in fields:
        if not record:
            return
        if not record.isdigit():  # prose until the end: advice about submodules, or unknown
            yield _Message(_SUBMODULE if record.startswith(_ADVICE) else b"CONFLICT", ())
            return
        paths = tuple(next(fields, b"") for _ in range(int(record)))
        yield _Message(next(fields, b""), paths)
        next(fields, b"")


def resolve_paths(conflict: PathConflict, resolution: ConflictSide | Blob, existing: frozenset[bytes]) -> dict[bytes, Blob]:
    """Return the blobs by path that resolve a conflict; NOTHING deletes a path. `existing`: all paths of the tree.

    `resolution` may be a new blob. BOTH is for entries of different kinds: yours, or the directory, keeps the name.
    """
    changes: dict[bytes, Blob] = {conflict.renamed_to: NO_BLOB} if conflict.renamed_to else {}
    is_both = resolution is ConflictSide.BOTH
    result = (
        conflict.yours
        if resolution is ConflictSide.YOURS or is_both
        else conflict.agent
        if resolution is ConflictSide.AGENT
        else resolution
    )
    if is_both and conflict.agent[0] == DIRECTORY:
        changes[_free_name(conflict.path + b"~yours", existing)] = conflict.yours
        result = conflict.agent
    elif is_both:
        changes[_free_name(conflict.path + b"~agent", existing)] = conflict.agent
    if not isinstance(result, ConflictSide) and result[0] != DIRECTORY:
        if DIRECTORY in (conflict.yours[0], conflict.agent[0]):
            changes |= {path: NO_BLOB for path in existing if path.startswith(conflict.path + b"/")}
        changes[conflict.path] = result
    return changes


def _free_name(name: bytes, existing: frozenset[bytes]) -> bytes:
    while name in existing or any(path.startswith(name + b"/") for path in existing):
        name += b"~"
    return name


def has_conflict_markers(data: bytes) -> bool:
    """Return whether a file seems to contain conflict markers."""
    lines = data.split(b"\n")
    return all(any(line.startswith(mark) for line in lines) for mark in (b"<<<<<<<", b">>>>>>>"))
