"""Risk rules on a change's path, kind, mode, symlink target and added content."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay import symlinks
from agent_dev.overlay.changes import Change, ChangeKind, Risk, is_mostly_emptied
from agent_dev.path_patterns import PatternIndex, fold_names, fold_path
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.risk import shadowed_modules
from agent_dev.risk.content import (
    CHECKS_OF_CHARACTERS,
    CONTENT_CHECKS,
    MAX_INSPECTED_SIZE,
    differs_outside_keys,
    has_new_line,
)
from agent_dev.risk.harmless_lines import LINE_FILTERS, differs_in_other_lines
from agent_dev.risk.hidden_text import has_deceptive_name, is_plain_ascii
from agent_dev.risk.new_lines import ReadBase
from agent_dev.risk.plain_text import to_utf8
from agent_dev.value import Value

_MACHO = ("feedface", "feedfacf", "cefaedfe", "cffaedfe", "cafebabf", "bfbafeca")
# First bytes of programs, by the name in rules. PE needs another check: many texts begin with the same two letters.
MAGIC: dict[str, tuple[bytes, ...]] = {
    "shebang": (b"#!",),
    "elf": (b"\x7fELF",),
    "pe": (b"MZ",),
    "macho": tuple(map(bytes.fromhex, _MACHO)),
    "java": (b"\xca\xfe\xba\xbe",),  # also a universal Mach-O
    "wasm": (b"\0asm",),
}
_PROGRAMS = tuple(start for starts in MAGIC.values() for start in starts)
CHOICES: dict[str, tuple[str, ...]] = {
    "kinds": tuple(ChangeKind),
    "types": tuple(FileType),
    "content": tuple(MAGIC),
    "adds": tuple(CONTENT_CHECKS),
    "but_lines": tuple(LINE_FILTERS),
}
LeavesRoot = Callable[[bytes, bytes], bool]  # (path, target) → whether the symlink leads out of the root
Sides = tuple[bytes, ReadBase]  # the agent's bytes, and a function that reads the base's
_NOT_DELETED = tuple(kind for kind in ChangeKind if kind is not ChangeKind.DELETED)
_NOT_DIRECTORIES = tuple(type_ for type_ in FileType if type_ is not FileType.DIRECTORY)
_MAX_KNOWN = 10_000  # paths
_LONG = 1 << 18  # bytes; no smaller file has more lines than a diff shows (`diff.hunks.MAX_DIFF_LINES`)
_SPECIAL = 0o7000
_EXECUTE = 0o111
_WORLD = 0o002


class RiskRule(Value):
    """A risk rule; it applies to a change that meets all its conditions.

    Paths and lines are matched regardless of case and Unicode form; for patterns see `glob.segments`.
    """

    name: str
    why: str
    check: str = ""
    paths: tuple[str, ...] = ()  # any of these patterns; empty: any path
    unless: tuple[str, ...] = ()  # none of these patterns
    kinds: tuple[str, ...] = _NOT_DELETED
    types: tuple[str, ...] = _NOT_DIRECTORIES
    content: tuple[str, ...] = ()  # the content begins with any of these keys of MAGIC; empty: any content
    executable: bool = False  # the agent's file is executable, and new, edited or not executable before
    leaves_root: bool = False  # a symlink to an absolute path, out of the root or into a .git
    special_bits: bool = False  # setuid, setgid or sticky is added
    world_writable: bool = False  # world write permission is added
    gutted: bool = False  # the file lost all or more than nine tenths of its content
    shadows: bool = False  # a new module with the name of a standard one, in a directory searched first
    strange_name: bool = False  # the path has invisible or reordering characters
    in_repository: bool = False  # inside a repository that the agent created in the root
    unseen: bool = False  # larger than what is inspected
    no_diff: bool = False  # has more lines than a diff shows, or had more, or was larger than what is read
    adds: tuple[str, ...] = ()  # any of these CONTENT_CHECKS finds something in the new content
    lines: tuple[str, ...] = ()  # any of these texts is in a new line; `*` matches anything within it
    but_lines: tuple[str, ...] = ()  # lines differ that none of these LINE_FILTERS allows
    but_for: tuple[str, ...] = ()  # a JSON or TOML file differs outside these keys


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a new one was renamed or copied from. `read` reads its bytes."""

    path: bytes
    entry: Entry
    read: ReadBase


def find_risks(
    change: Change,
    rules: tuple[RiskRule, ...],
    after: bytes = b"",
    before: ReadBase | Origin = bytes,
    *,
    is_embedded: bool = False,
    leaves: LeavesRoot = symlinks.escapes_root,
) -> tuple[Risk, ...]:
    """Return the risks of a change in the order of the rules.

    `after`: the agent's bytes; for a file larger than MAX_INSPECTED_SIZE at least the first ones. `before` reads the base's
    bytes, and is called only if a rule compares them; rules that apply to both paths of a renamed or copied file compare it
    with its origin. `is_embedded`: the change is in a repository that the agent created. `leaves`: whether a symlink leads out
    of the root; by default judged by its target alone.
    """
    index = _index(rules)
    origin = before if isinstance(before, Origin) else None
    facts = _facts(change, _searches(after), origin, is_embedded=is_embedded)
    numbers = index.candidates(change.key.path, index.applicable(facts))
    if not numbers:
        return ()
    has_content = bool(after) and change.kind is not ChangeKind.METADATA
    new = to_utf8(after)
    read = before.read if isinstance(before, Origin) else before
    compared = replace(change, kind=ChangeKind.EDITED, before=origin.entry) if origin else change
    as_new = (new, bytes if origin else lambda: to_utf8(read())) if has_content else None
    as_edit = (new, lambda: to_utf8(read())) if has_content else None
    alike = index.alike(change.key.path, origin.path) if origin else frozenset()
    as_one, as_other = _Judged(change, after, as_new, leaves), _Judged(compared, after, as_edit, leaves)
    found = []
    for number in numbers:
        rule = rules[number]
        if _meets(rule, index.conditions[number], as_other if number in alike else as_one):
            found.append(Risk(rule.name, rule.why, rule.check))
    return tuple(found)


def has_risky_name(change: Change, rules: tuple[RiskRule, ...], *, is_embedded: bool = False) -> bool:
    """Return whether `find_risks` finds a risk without content: by path, kind, mode or a link's target."""
    index = _index(rules)
    judged = _Judged(change, b"", None, symlinks.escapes_root)
    facts = _facts(change, _Searches.NONE, is_embedded=is_embedded)
    numbers = index.candidates(change.key.path, index.applicable(facts))
    return any(_meets(rules[number], index.conditions[number], judged) for number in numbers)


class _Searches(Enum):
    """The rules that search a change's content."""

    NONE = "none"
    PLAIN = "plain"  # those that may find something in plain ASCII that is no program
    ALL = "all"


class _Facts(NamedTuple):
    """The facts apart from the path that decide which rules can apply to a change; most changes have the same ones."""

    kind: ChangeKind
    type: FileType
    mode: int  # the bits that rules look at
    is_unseen: bool
    is_long: bool  # may have more lines than a diff shows
    has_before: bool
    is_embedded: bool
    searches: _Searches


def _searches(content: bytes) -> _Searches:
    if not content:
        return _Searches.NONE
    return _Searches.PLAIN if is_plain_ascii(content) and not content.startswith(_PROGRAMS) else _Searches.ALL


def _facts(change: Change, searches: _Searches, origin: Origin | None = None, *, is_embedded: bool) -> _Facts:
    mode = change.after.mode & (_EXECUTE | _SPECIAL | _WORLD) if change.after else 0
    has_before = change.before is not None or origin is not None
    return _Facts(change.kind, change.type, mode, _is_unseen(change), _is_long(change), has_before, is_embedded, searches)


def _can_apply(rule: RiskRule, facts: _Facts) -> bool:
    """Return whether a rule can apply to a change at a path that it matches; its conditions decide whether it does."""
    return bool(
        facts.kind in rule.kinds
        and facts.type in rule.types
        and (facts.is_embedded or not rule.in_repository)
        and (facts.searches is not _Searches.NONE or not (rule.content or rule.adds or rule.lines))
        and (facts.searches is not _Searches.PLAIN or not _never_in_plain_text(rule))
        and (facts.mode & _EXECUTE or not rule.executable)
        and (facts.mode & _SPECIAL or not rule.special_bits)
        and (facts.mode & _WORLD or not rule.world_writable)
        and (facts.type is FileType.SYMLINK or not rule.leaves_root)
        and (facts.is_unseen or not rule.unseen)
        and (facts.is_long or not rule.no_diff)
        and (facts.has_before or not rule.gutted)
    )


def _never_in_plain_text(rule: RiskRule) -> bool:
    """Return whether a rule requires the first bytes of a program, or characters that plain ASCII does not have."""
    return bool(rule.content) or (bool(rule.adds) and CHECKS_OF_CHARACTERS.issuperset(rule.adds))


class _Judged(NamedTuple):
    """The change that a rule judges, with its content and the means to judge it."""

    change: Change
    after: bytes
    sides: Sides | None
    leaves: LeavesRoot


_Condition = Callable[[RiskRule, _Judged], bool]

# What a rule requires, by the field that requires it; those that compare old and new content last.
_CONDITIONS: dict[str, _Condition] = {
    "content": lambda rule, at: any(_has_magic(at.after, name) for name in rule.content) and not _is_same(at.change, at.sides),
    "executable": lambda _, at: _is_executable(at.change),
    "leaves_root": lambda _, at: _leaves_root(at.change, at.leaves),
    "special_bits": lambda _, at: _adds(at.change, _SPECIAL),
    "world_writable": lambda _, at: _adds(at.change, _WORLD),
    "gutted": lambda _, at: _is_gutted(at.change),
    "shadows": lambda _, at: shadowed_modules.shadows_standard_module(at.change.key.path),
    "strange_name": lambda _, at: has_deceptive_name(at.change.key.path),
    "unseen": lambda _, at: _is_unseen(at.change),
    "no_diff": lambda _, at: _has_no_diff(at),
    "but_for": lambda rule, at: _differs(rule, at.change, at.sides),
    "but_lines": lambda rule, at: _differs_but_lines(rule, at.change, at.sides),
    "adds": lambda rule, at: at.sides is not None and any(CONTENT_CHECKS[name](*at.sides) for name in rule.adds),
    "lines": lambda rule, at: at.sides is not None and has_new_line(*at.sides, rule.lines),
}


def _conditions(rule: RiskRule) -> tuple[_Condition, ...]:
    """Return the conditions of a rule; most rules have one or two."""
    return tuple(holds for name, holds in _CONDITIONS.items() if getattr(rule, name))


def _meets(rule: RiskRule, conditions: tuple[_Condition, ...], judged: _Judged) -> bool:
    for holds in conditions:  # noqa: SIM110  (a generator would take as long as the conditions)
        if not holds(rule, judged):
            return False
    return True


def _differs(rule: RiskRule, change: Change, sides: Sides | None) -> bool:
    if sides is None or _is_unseen(change):
        return change.kind is not ChangeKind.METADATA
    return differs_outside_keys(fold_path(change.key.path).rpartition("/")[2], *sides, rule.but_for)


def _differs_but_lines(rule: RiskRule, change: Change, sides: Sides | None) -> bool:
    """Return whether more than harmless lines differ; True for a file that became executable or was not inspected."""
    if sides is None or change.kind is not ChangeKind.EDITED or _is_unseen(change) or _adds(change, _EXECUTE):
        return True
    return differs_in_other_lines(*sides, rule.but_lines)


def _is_gutted(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None or change.kind is not ChangeKind.EDITED or before.type is not FileType.FILE:
        return False
    return is_mostly_emptied(before.size, after.size)


def _is_unseen(change: Change) -> bool:
    after = change.after
    return after is not None and after.type is FileType.FILE and after.size > MAX_INSPECTED_SIZE


def _is_long(change: Change) -> bool:
    """Return whether a side may have more lines than a diff shows."""
    return any(side is not None and side.size > _LONG for side in (change.before, change.after))


def _has_no_diff(at: _Judged) -> bool:
    from agent_dev.diff.hunks import is_diffable  # few files are long

    before = at.change.before
    is_unread = before is not None and before.size > MAX_INSPECTED_SIZE
    return at.sides is not None and (is_unread or not is_diffable(at.after, at.sides[1]()))


def _is_same(change: Change, sides: Sides | None) -> bool:
    """Return whether a file has the bytes of its origin."""
    return change.kind is ChangeKind.EDITED and sides is not None and sides[0] == sides[1]()


def _has_magic(head: bytes, name: str) -> bool:
    return head.startswith(MAGIC[name]) and (name != "pe" or b"\0" in head)


def _is_executable(change: Change) -> bool:
    after = change.after
    if after is None or after.type is not FileType.FILE or not after.mode & _EXECUTE:
        return False
    return change.kind is not ChangeKind.METADATA or _adds(change, _EXECUTE)


def _adds(change: Change, bits: int) -> bool:
    before = change.before.mode if change.before else 0
    return bool(change.after and change.after.mode & ~before & bits)


def _leaves_root(change: Change, leaves: LeavesRoot) -> bool:
    after = change.after
    return after is not None and after.type is FileType.SYMLINK and leaves(change.key.path, after.target)


class _Index:
    """An index of rules by their patterns."""

    def __init__(self, rules: tuple[RiskRule, ...]) -> None:
        self.rules = rules
        self._applicable: dict[_Facts, frozenset[int]] = {}
        self._all = frozenset(range(len(rules)))
        self.known: dict[tuple[bytes, frozenset[int]], list[int]] = {}  # each commit that changes a path looks it up again
        self.conditions = tuple(map(_conditions, rules))
        self.pathless = frozenset(number for number, rule in enumerate(rules) if not rule.paths)
        self.patterns = PatternIndex(tuple((pattern, number) for number, rule in enumerate(rules) for pattern in rule.paths))
        exempt = tuple(dict.fromkeys(rule.unless for rule in rules if rule.unless))
        self.exempted = [frozenset(number for number, rule in enumerate(rules) if rule.unless == unless) for unless in exempt]
        self.exemptions = PatternIndex(tuple((pattern, at) for at, unless in enumerate(exempt) for pattern in unless))

    def applicable(self, facts: _Facts) -> frozenset[int]:
        """Return the numbers of the rules that can apply to such changes."""
        if facts not in self._applicable:
            self._applicable[facts] = frozenset(number for number, rule in enumerate(self.rules) if _can_apply(rule, facts))
        return self._applicable[facts]

    def candidates(self, path: bytes, applicable: frozenset[int]) -> list[int]:
        """Return the numbers of the applicable rules for this path, in order."""
        if (path, applicable) not in self.known:
            if len(self.known) >= _MAX_KNOWN:
                self.known.clear()
            self.known[path, applicable] = self._candidates(path, applicable)
        return self.known[path, applicable]

    def alike(self, path: bytes, origin: bytes) -> frozenset[int]:
        """Return the numbers of the rules for which only the difference to the origin of a renamed or copied file is new.

        A rule with paths is not among them if the origin has another name, or is farther from the root, where fewer tools read
        it.
        """
        found = frozenset(self.candidates(path, self._all)) & frozenset(self.candidates(origin, self._all))
        return found if path.count(b"/") >= origin.count(b"/") else found & self.pathless

    def _candidates(self, path: bytes, applicable: frozenset[int]) -> list[int]:
        folded = fold_names(path)
        found = applicable & (self.pathless | self.patterns.matching_folded(folded))
        for at in self.exemptions.matching_folded(folded):
            found -= self.exempted[at]
        return sorted(found)


_cached_index: dict[str, _Index] = {}


def _index(rules: tuple[RiskRule, ...]) -> _Index:
    """Return the index of these rules; the last one is cached."""
    index = _cached_index.get("last")
    if index is None or index.rules is not rules:
        index = _cached_index["last"] = _Index(rules)
    return index
