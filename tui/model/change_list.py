"""The list of changes as rows: risky ones, then renamed directories, directories, lock files, ignored or generated files."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeSet
from agent_dev.overlay.directory_renames import directory_of
from agent_dev.quick_dataclass import dataclass, field, replace


class Section(StrEnum):
    """A section of the list."""

    RISKY = "risky"
    RENAMED = "renamed"  # one directory that was renamed as a whole
    DIRECTORY = "folder"
    FOLDED = "folded"  # ignored by git, or generated
    LOCK_FILES = "locks"


@dataclass(frozen=True, slots=True)
class Group:
    """Changes under one heading. `path` is the directory; `parent` is the index of the enclosing group, -1 for none.

    Of a renamed directory, `origin` is the old path, `held_back` are its files that need review, which are listed as risky.
    """

    section: Section
    root: int
    path: bytes
    depth: int
    parent: int
    keys: tuple[Key, ...]
    mergeable_count: int  # how many of them can be merged
    origin: bytes = b""
    held_back: tuple[Key, ...] = ()

    @property
    def is_folded(self) -> bool:
        """Return whether this group is initially closed."""
        return self.section in (Section.FOLDED, Section.RENAMED)

    @property
    def every_key(self) -> tuple[Key, ...]:
        """The keys of its changes, including those that need review."""
        return (*self.keys, *self.held_back)


@dataclass(frozen=True, slots=True)
class HeadingRow:
    """The heading of a group."""

    group: int


class ChangeRow(NamedTuple):  # a dataclass takes three times as long to create
    """A change of a group."""

    group: int
    key: Key


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """A path that could not be read, with the reason."""

    text: str


@dataclass(frozen=True, slots=True)
class NoteRow:
    """A note about all changes."""

    text: str


ListRow = HeadingRow | ChangeRow | ProblemRow | NoteRow


@dataclass(frozen=True, slots=True)
class ListFilter:
    """A filter of the list: changes with `text` in their path, without the `hidden` ones; nested if `is_tree`."""

    is_tree: bool = False
    text: str = ""
    hidden: frozenset[Key] = frozenset()


NO_FILTER = ListFilter()


@dataclass(frozen=True, slots=True)
class Listing:
    """The groups, the indices of the closed ones, and the visible rows.

    `group_of` maps each listed change to its innermost group. `all_rows` are the rows if all groups are open; `group_ends`
    are the indices in it at which each group ends.
    """

    groups: tuple[Group, ...] = ()
    closed: frozenset[int] = frozenset()
    rows: tuple[ListRow, ...] = ()
    filter: ListFilter = NO_FILTER
    group_of: Mapping[Key, int] = field(default_factory=dict, compare=False, repr=False)
    all_rows: tuple[ListRow, ...] = field(default=(), compare=False, repr=False)
    group_ends: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def heading_row(self, group: int) -> int:
        """Return the row of a group's heading; if it is hidden, that of the closed group around it."""
        while group >= 0:
            index = next((at for at, row in enumerate(self.rows) if isinstance(row, HeadingRow) and row.group == group), -1)
            if index >= 0:
                return index
            group = self.groups[group].parent
        return 0

    def groups_of(self, key: Key) -> Iterator[int]:
        """Yield the groups that contain a change, innermost first."""
        group = self.group_of.get(key, -1)
        while group >= 0:
            yield group
            group = self.groups[group].parent

    def row_of(self, key: Key) -> int:
        """Return the row of a change, or of the closed heading that hides it; -1 if it is not listed."""
        index = next((at for at, row in enumerate(self.rows) if isinstance(row, ChangeRow) and row.key == key), -1)
        return index if index >= 0 or key not in self.group_of else self.heading_row(self.group_of[key])


def build_listing(changes: ChangeSet, list_filter: ListFilter = NO_FILTER, closed: frozenset[bytes] | None = None) -> Listing:
    """Build the list of a change set. `closed` are the closed groups by `group_id`; None: those that are closed initially."""
    sections: dict[Section, list[Change]] = {section: [] for section in Section}
    shown = changes.changes
    if list_filter.text or list_filter.hidden:
        shown = tuple(change for change in shown if _passes(change, list_filter))
    renamed = _renamed_directories(shown, changes.directory_renames) if changes.directory_renames else {}
    grouped = frozenset(one.key for some in renamed.values() for one in some if not _is_held_back(one))
    for change in shown:
        if change.key not in grouped:
            sections[section_of(change)].append(change)
    builder = _Builder(list_filter)
    builder.add_flat(Section.RISKY, sections[Section.RISKY])
    for directory, some in sorted(renamed.items()):
        builder.add_renamed(directory, changes.directory_renames[directory].path, some)
    builder.add_directories(sections[Section.DIRECTORY])
    builder.add_flat(Section.LOCK_FILES, sections[Section.LOCK_FILES])
    builder.add_flat(Section.FOLDED, sections[Section.FOLDED])
    builder.rows += [*map(ProblemRow, changes.problems), *map(NoteRow, changes.notes)]
    groups = tuple(builder.groups())
    closed_groups = frozenset(
        at for at, group in enumerate(groups) if (group.is_folded if closed is None else group_id(group) in closed)
    )
    result = Listing(groups, closed_groups, (), list_filter, builder.group_of, tuple(builder.rows), tuple(builder.ends))
    return replace(result, rows=tuple(_visible_rows(result)))


def _renamed_directories(shown: Iterable[Change], directories: Mapping[Key, Key]) -> dict[Key, list[Change]]:
    """Return the files of each renamed directory, by its new path."""
    found: dict[Key, list[Change]] = {}
    for change in shown:
        directory = directory_of(change, directories)
        if directory is not None:
            found.setdefault(directory, []).append(change)
    return {key: some for key, some in found.items() if sum(not _is_held_back(one) for one in some) >= _MIN_RENAMED}


def _is_held_back(change: Change) -> bool:
    """Return whether a file is not applied with its renamed directory: it needs review, or its old path is in conflict."""
    return section_of(change) is Section.RISKY or change.renamed_from is None


def group_id(group: Group) -> bytes:
    """Return the identifier of a group, which stays the same when the list is rebuilt."""
    return b"%s:%d:%s" % (group.section.encode(), group.root, group.path)


def _passes(change: Change, list_filter: ListFilter) -> bool:
    paths = b"\0".join(key.path for key in (change.key, change.renamed_from) if key is not None)
    if list_filter.text and list_filter.text.casefold() not in paths.decode("utf-8", "surrogateescape").casefold():
        return False
    return change.key not in list_filter.hidden


def section_of(change: Change) -> Section:
    """Return the section of a change. A risky or unmergeable change is never in a folded section."""
    if change.risks or not change.is_clean:
        return Section.RISKY
    base = change.key.name
    if change.is_ignored or is_generated(change.key.path):
        return Section.FOLDED
    return Section.LOCK_FILES if base in _LOCKS else Section.DIRECTORY


_MIN_RENAMED = 2  # files; fewer are listed one by one
_LOCKS = frozenset(
    b"package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb Cargo.lock poetry.lock uv.lock pdm.lock "
    b"Pipfile.lock Gemfile.lock composer.lock go.sum flake.lock mix.lock pubspec.lock Podfile.lock gradle.lockfile "
    b"packages.lock.json deno.lock".split()
)
_GENERATED_FOLDERS = frozenset(b"node_modules __pycache__ .next .nuxt .turbo .pytest_cache .mypy_cache .ruff_cache .tox".split())
_GENERATED_ENDS = (
    *(b".min.js", b".min.css", b".js.map", b".css.map", b".pyc", b".snap"),
    *(b"_pb2.py", b"_pb2_grpc.py", b".pb.go", b".pb.cc", b".pb.h"),
)


def is_generated(path: bytes) -> bool:
    """Return whether a path has a name that generated files have."""
    return path.endswith(_GENERATED_ENDS) or is_in_generated_directory(path)


def is_in_generated_directory(path: bytes) -> bool:
    """Return whether a path is below a directory of downloads, build results or caches."""
    return _is_generated_directory(parent_directory(path))


@lru_cache(1024)  # changes are sorted by path
def _is_generated_directory(path: bytes) -> bool:
    return not _GENERATED_FOLDERS.isdisjoint(path.split(b"/"))


def parent_directory(path: bytes) -> bytes:
    """Return the parent directory of a path; empty for the root."""
    return path.rpartition(b"/")[0]


@dataclass(slots=True)
class _GroupBuilder:
    section: Section
    root: int
    path: bytes
    depth: int
    parent: int
    keys: list[Key]
    mergeable_count: int = 0
    origin: bytes = b""
    held_back: tuple[Key, ...] = ()


class _Builder:
    """Builds groups and rows in one pass over sorted changes."""

    def __init__(self, list_filter: ListFilter) -> None:
        self._sieve = list_filter
        self._groups: list[_GroupBuilder] = []
        self.rows: list[ListRow] = []
        self.ends: list[int] = []
        self.group_of: dict[Key, int] = {}

    def groups(self) -> Iterator[Group]:
        """Yield the groups; nested groups contain all changes below them."""
        for one in self._groups:
            keys, count = tuple(one.keys), one.mergeable_count
            yield Group(one.section, one.root, one.path, one.depth, one.parent, keys, count, one.origin, one.held_back)

    def _open(self, section: Section, root: int, path: bytes, depth: int, parent: int) -> int:
        self._groups.append(_GroupBuilder(section, root, path, depth, parent, []))
        self.ends.append(0)
        self.rows.append(HeadingRow(len(self._groups) - 1))
        return len(self._groups) - 1

    def _close(self, group: int) -> None:
        self.ends[group] = len(self.rows)

    def _add(self, some: list[Change], group: int) -> None:
        keys = [change.key for change in some]
        clean = sum(change.is_clean for change in some)
        self.group_of.update(dict.fromkeys(keys, group))
        self.rows += [ChangeRow(group, key) for key in keys]
        while group >= 0:
            self._groups[group].keys += keys
            self._groups[group].mergeable_count += clean
            group = self._groups[group].parent

    def add_flat(self, section: Section, some: list[Change]) -> None:
        """Add a section under one heading."""
        if some:
            group = self._open(section, 0, b"", 0, -1)
            self._add(some, group)
            self._close(group)

    def add_renamed(self, directory: Key, origin: bytes, some: list[Change]) -> None:
        """Add a renamed directory with its files; those that need review are listed elsewhere."""
        group = self._open(Section.RENAMED, directory.root, directory.path, 0, -1)
        self._groups[group].origin = origin
        self._groups[group].held_back = tuple(one.key for one in some if _is_held_back(one))
        self._add([one for one in some if not _is_held_back(one)], group)
        self._close(group)

    def add_directories(self, some: list[Change]) -> None:
        """Add directories with their changes, nested or flat."""
        if self._sieve.is_tree:
            self._add_nested(some)
            return
        by_folder: dict[tuple[int, bytes], list[Change]] = {}
        for change in some:
            by_folder.setdefault((change.key.root, parent_directory(change.key.path)), []).append(change)
        for (root, path), changes in sorted(by_folder.items()):
            group = self._open(Section.DIRECTORY, root, path, 0, -1)
            self._add(changes, group)
            self._close(group)

    def _add_nested(self, some: list[Change]) -> None:
        stack: list[tuple[int, bytes, int]] = []  # root, directory, group
        for change in sorted(some, key=lambda one: (one.key.root, one.key.path.split(b"/"))):
            directory = parent_directory(change.key.path)
            while stack and not (stack[-1][0] == change.key.root and _is_within(directory, stack[-1][1])):
                self._close(stack.pop()[2])
            for path in _directories_between(directory, stack[-1][1] if stack else None):
                parent = stack[-1][2] if stack else -1
                stack.append((change.key.root, path, self._open(Section.DIRECTORY, change.key.root, path, len(stack), parent)))
            self._add([change], stack[-1][2])
        while stack:
            self._close(stack.pop()[2])


def _is_within(path: bytes, parent: bytes) -> bool:
    return not parent or path == parent or path.startswith(parent + b"/")


def _directories_between(path: bytes, parent: bytes | None) -> Iterator[bytes]:
    """Yield the directories from below `parent` down to `path`; if there is no parent, the root first."""
    if parent is None:
        yield b""
        parent = b""
    if path != parent:
        rest = path[len(parent) + 1 :] if parent else path
        current = parent
        for part in rest.split(b"/"):
            current = current + b"/" + part if current else part
            yield current


def with_group_closed(old: Listing, group: int, *, closed: bool) -> Listing:
    """Return the listing with one group closed or open."""
    result = replace(old, closed=old.closed | {group} if closed else old.closed - {group})
    return replace(result, rows=tuple(_visible_rows(result)))


def _visible_rows(listing: Listing) -> Iterable[ListRow]:
    """Return the rows that are not hidden by a closed heading."""
    if not listing.closed:
        return listing.all_rows
    visible: list[ListRow] = []
    start = 0
    closed = sorted((listing.all_rows.index(HeadingRow(group)), group) for group in listing.closed)
    for head, group in closed:
        if head < start:
            continue  # inside another closed group
        visible += listing.all_rows[start : head + 1]
        start = listing.group_ends[group]
    return [*visible, *listing.all_rows[start:]]
