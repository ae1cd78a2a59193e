"""The values of an import: items of the real home, and the parts that a copy leaves out or changes."""

from typing import Any

from agent_dev.quick_dataclass import dataclass, field

LOGIN, SERVERS, HOOKS = "login", "servers", "hooks"
NEW, SAME, DIFFERS = "new", "same", "differs"
SECRET, RUNS, UNCHECKED = "secret", "runs automatically", "not checked"
ABSENT = ""  # the mark of a file that does not exist


@dataclass(frozen=True, slots=True)
class Edit:
    """A change that a copy of settings gets: the path `where` in the document was `rewritten` or `dropped`."""

    action: str
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path of the real home that is not offered or not copied, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """An import of an item: its time in s since 1970, the marks in the real home, and those of the copies."""

    time: int
    marks: dict[str, str]
    copies: dict[str, str]


@dataclass(frozen=True, slots=True)
class Item:
    """A file, a directory, or some keys of a settings file that can be copied to the agent home of an agent.

    `marks`: of each file in the real home, or of each key: a digest, or for files with logins, which are not opened, "stat:…".
    `results`: the marks that copies get; those of settings differ if a path is rewritten or dropped. `copies`: the marks in the
    agent home. `flags`: reasons not to select it by default.
    """

    agent: str
    home: str
    kind: str
    path: str
    size: int
    marks: dict[str, str]
    results: dict[str, str]
    copies: dict[str, str]
    keys: tuple[str, ...] | None = None
    is_named: bool = False  # whether the keys are part of the name
    is_opened: bool = True
    flags: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    values: dict[str, Any] = field(default_factory=dict, repr=False)  # of `keys`, with paths that exist inside
    imported: Imported | None = None  # the last import of it
    original: bytes | None = field(default=None, repr=False)  # the whole file, if a copy of it has the same values

    @property
    def name(self) -> str:
        """The name that selects it."""
        return f"{self.path}#{','.join(self.keys)}" if self.keys and self.is_named else self.path

    @property
    def state(self) -> str:
        """NEW, SAME or DIFFERS: the agent home does not have it, or has it with the same or another content."""
        if self.results == self.copies:
            return SAME
        differing = (copy for path, copy in self.copies.items() if copy not in (ABSENT, self.results.get(path)))
        return DIFFERS if any(differing) else NEW

    @property
    def has_update(self) -> bool:
        """Return whether it was imported, and changed in the real home since."""
        return self.imported is not None and self.imported.marks != self.marks

    @property
    def is_changed_inside(self) -> bool:
        """Return whether the agent home has another content than its last import."""
        known = self.imported.copies if self.imported is not None else {}
        return any(self.copies.get(path, mark) != mark for path, mark in known.items())

    @property
    def updates(self) -> tuple[tuple[str, str], ...]:
        """The paths that changed in the real home since the last import, each with its sign: +, ~ or -."""
        old = self.imported.marks if self.imported is not None else {}
        rows = ((path, old.get(path), self.marks.get(path)) for path in sorted(old.keys() | self.marks.keys()))
        return tuple(("+" if not was else "~" if now else "-", path) for path, was, now in rows if was != now)

    def is_safe(self, *, is_update: bool = False) -> bool:
        """Return whether it needs no review: it has no secret, runs nothing, and replaces at most an earlier import."""
        replaces_import = is_update and self.imported is not None and not self.is_changed_inside
        return not self.flags and (self.state == NEW or replaces_import)


@dataclass(frozen=True, slots=True)
class Offer:
    """All items of the real home, and the paths that are left out."""

    source: str
    items: tuple[Item, ...]
    left_out: tuple[LeftOut, ...]
