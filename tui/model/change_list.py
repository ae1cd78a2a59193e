"""The list of changes as rows: risky ones first, then directories with what lies below, what is folded away, lock files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agent_dev.overlay.changes import Change, ChangeSet, Key


class Section(StrEnum):
    """Why changes stand together."""

    RISKY = "risky"
    FOLDER = "folder"
    FOLDED = "folded"  # ignored by git, or generated
    LOCKS = "locks"


@dataclass(frozen=True, slots=True)
class Group:
    """Changes under one heading. `path` is a directory's; `parent` the group whose heading stands above, -1 for none."""

    section: Section
    root: int
    path: bytes
    depth: int
    parent: int
    keys: tuple[Key, ...]
    possible: int  # how many of them can be merged

    @property
    def is_folded(self) -> bool:
        """Whether this is what is folded away."""
        return self.section is Section.FOLDED


@dataclass(frozen=True, slots=True)
class HeadRow:
    """A group's heading."""

    group: int


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change below its group's heading."""

    group: int
    key: Key


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """Something that could not be read, with the reason: said, never hidden."""

    text: str


@dataclass(frozen=True, slots=True)
class NoteRow:
    """Something to know of all the changes."""

    text: str


Row = HeadRow | ChangeRow | ProblemRow | NoteRow


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which changes are listed, and how: nested or not, whose names hold `text`, but for the `hidden` ones."""

    is_tree: bool = False
    text: str = ""
    hidden: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class Listing:
    """All groups, which of them are closed, and the rows that follow from it.

    `group_of` is the innermost group of each listed change. `every`: the rows with nothing closed, `ends` where each group's
    rows end among them.
    """

    groups: tuple[Group, ...] = ()
    closed: frozenset[int] = frozenset()
    rows: tuple[Row, ...] = ()
    sieve: Sieve = Sieve()
    group_of: Mapping[Key, int] = field(default_factory=dict, compare=False, repr=False)
    every: tuple[Row, ...] = field(default=(), compare=False, repr=False)
    ends: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def head(self, group: int) -> int:
        """Return the row of a group's heading; of a closed one around it where it is not to be seen."""
        while group >= 0:
            found = next((at for at, row in enumerate(self.rows) if isinstance(row, HeadRow) and row.group == group), -1)
            if found >= 0:
                return found
            group = self.groups[group].parent
        return 0

    def groups_of(self, key: Key) -> Iterator[int]:
        """Yield the groups that hold a change, the innermost first."""
        at = self.group_of.get(key, -1)
        while at >= 0:
            yield at
            at = self.groups[at].parent

    def row_of(self, key: Key) -> int:
        """Return the row of a change, or of the heading that hides it; -1 where it is not listed."""
        found = next((at for at, row in enumerate(self.rows) if isinstance(row, ChangeRow) and row.key == key), -1)
        return found if found >= 0 or key not in self.group_of else self.head(self.group_of[key])


def listing(changes: ChangeSet, sieve: Sieve = Sieve(), closed: frozenset[bytes] | None = None) -> Listing:
    """Return the rows of a change set; `closed` names the groups (by `name`) that are, None: what is folded away."""
    sections: dict[Section, list[Change]] = {section: [] for section in Section}
    for change in changes.changes:
        if _passes(change, sieve):
            sections[section_of(change)].append(change)
    made = _Maker(sieve)
    made.flat(Section.RISKY, sections[Section.RISKY])
    made.folders(sections[Section.FOLDER])
    made.flat(Section.LOCKS, sections[Section.LOCKS])
    made.flat(Section.FOLDED, sections[Section.FOLDED])
    made.rows += [*map(ProblemRow, changes.problems), *map(NoteRow, changes.notes)]
    groups = tuple(made.finished())
    shut = frozenset(at for at, group in enumerate(groups) if (group.is_folded if closed is None else name(group) in closed))
    found = Listing(groups, shut, (), sieve, made.group_of, tuple(made.rows), tuple(made.ends))
    return replace(found, rows=tuple(_seen(found)))


def name(group: Group) -> bytes:
    """Return what a group is remembered by when the list is made anew."""
    return b"%s:%d:%s" % (group.section.encode(), group.root, group.path)


def _passes(change: Change, sieve: Sieve) -> bool:
    if sieve.text and sieve.text.casefold() not in change.key.path.decode("utf-8", "surrogateescape").casefold():
        return False
    return change.key not in sieve.hidden


def section_of(change: Change) -> Section:
    """Return where a change is listed: what is risky or cannot be merged never hides behind a fold."""
    if change.risks or not change.is_clean:
        return Section.RISKY
    base = change.key.path.rpartition(b"/")[2]
    if change.ignored or is_generated(change.key.path):
        return Section.FOLDED
    return Section.LOCKS if base in _LOCKS else Section.FOLDER


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
    """Whether a path names what a program makes, by the names that such things have."""
    return path.endswith(_GENERATED_ENDS) or not _GENERATED_FOLDERS.isdisjoint(path.split(b"/")[:-1])


def folder(path: bytes) -> bytes:
    """Return the directory that a path lies in; empty for the root."""
    return path.rpartition(b"/")[0]


@dataclass(slots=True)
class _Draft:
    section: Section
    root: int
    path: bytes
    depth: int
    parent: int
    keys: list[Key]
    possible: int = 0


class _Maker:
    """Makes groups and rows in one walk over sorted changes."""

    def __init__(self, sieve: Sieve) -> None:
        self._sieve = sieve
        self._groups: list[_Draft] = []
        self.rows: list[Row] = []
        self.ends: list[int] = []
        self.group_of: dict[Key, int] = {}

    def finished(self) -> Iterator[Group]:
        """Yield the groups; those of a nested list know all that lies below."""
        for one in self._groups:
            yield Group(one.section, one.root, one.path, one.depth, one.parent, tuple(one.keys), one.possible)

    def _open(self, section: Section, root: int, path: bytes, depth: int, parent: int) -> int:
        self._groups.append(_Draft(section, root, path, depth, parent, []))
        self.ends.append(0)
        self.rows.append(HeadRow(len(self._groups) - 1))
        return len(self._groups) - 1

    def _close(self, group: int) -> None:
        self.ends[group] = len(self.rows)

    def _add(self, change: Change, group: int) -> None:
        self.group_of[change.key] = group
        self.rows.append(ChangeRow(group, change.key))
        while group >= 0:
            self._groups[group].keys.append(change.key)
            self._groups[group].possible += change.is_clean
            group = self._groups[group].parent

    def flat(self, section: Section, some: list[Change]) -> None:
        """Add a section under one heading."""
        if some:
            at = self._open(section, 0, b"", 0, -1)
            for change in some:
                self._add(change, at)
            self._close(at)

    def folders(self, some: list[Change]) -> None:
        """Add directories with what lies in them; nested, or each by itself."""
        if self._sieve.is_tree:
            self._nested(some)
            return
        by_folder: dict[tuple[int, bytes], list[Change]] = {}
        for change in some:
            by_folder.setdefault((change.key.root, folder(change.key.path)), []).append(change)
        for (root, path), changes in sorted(by_folder.items()):
            at = self._open(Section.FOLDER, root, path, 0, -1)
            for change in changes:
                self._add(change, at)
            self._close(at)

    def _nested(self, some: list[Change]) -> None:
        stack: list[tuple[int, bytes, int]] = []  # root, directory, group
        for change in sorted(some, key=lambda one: (one.key.root, one.key.path.split(b"/"))):
            place = folder(change.key.path)
            while stack and not (stack[-1][0] == change.key.root and _is_within(place, stack[-1][1])):
                self._close(stack.pop()[2])
            for path in _steps(place, stack[-1][1] if stack else None):
                parent = stack[-1][2] if stack else -1
                stack.append((change.key.root, path, self._open(Section.FOLDER, change.key.root, path, len(stack), parent)))
            self._add(change, stack[-1][2])
        while stack:
            self._close(stack.pop()[2])


def _is_within(place: bytes, above: bytes) -> bool:
    return not above or place == above or place.startswith(above + b"/")


def _steps(place: bytes, above: bytes | None) -> Iterator[bytes]:
    """Yield the directories on the way from one to another below it, the root itself where there is none yet."""
    if above is None:
        yield b""
        above = b""
    if place != above:
        rest = place[len(above) + 1 :] if above else place
        at = above
        for part in rest.split(b"/"):
            at = at + b"/" + part if at else part
            yield at


def with_closed(old: Listing, group: int, *, closed: bool) -> Listing:
    """Return the listing with one group closed or open."""
    some = old.closed | {group} if closed else old.closed - {group}
    made = replace(old, closed=some)
    return replace(made, rows=tuple(_seen(made)))


def _seen(made: Listing) -> Iterable[Row]:
    """Yield the rows that are not behind a closed heading."""
    if not made.closed:
        return made.every
    found: list[Row] = []
    at = 0
    cuts = sorted((made.every.index(HeadRow(group)), group) for group in made.closed)
    for head, group in cuts:
        if head < at:
            continue  # inside another closed one
        found += made.every[at : head + 1]
        at = made.ends[group]
    return [*found, *made.every[at:]]
