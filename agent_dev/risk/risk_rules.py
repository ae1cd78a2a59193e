"""Why a change needs a careful look: rules over its path, kind, mode and link target, and over what its content brings."""

from agent_dev.overlay.changes import Change, FileType, Kind, Risk
from agent_dev.path_patterns import Patterns, fold, names
from agent_dev.risk.content import ADDS, LOOKED_AT, Before, differs_but_for, has_new_line, hides_text
from agent_dev.value import Value

_MACHO = ("feedface", "feedfacf", "cefaedfe", "cffaedfe", "cafebabf", "bfbafeca")
# What the first bytes of a program are, by the word that a rule says for it. PE is looked at more closely: two letters
# begin many a text.
MAGIC: dict[str, tuple[bytes, ...]] = {
    "shebang": (b"#!",),
    "elf": (b"\x7fELF",),
    "pe": (b"MZ",),
    "macho": tuple(map(bytes.fromhex, _MACHO)),
    "java": (b"\xca\xfe\xba\xbe",),  # also a Mach-O for several processors
    "wasm": (b"\0asm",),
}
CHOICES: dict[str, tuple[str, ...]] = {
    "kinds": tuple(Kind),
    "types": tuple(FileType),
    "content": tuple(MAGIC),
    "adds": tuple(ADDS),
}
Sides = tuple[bytes, Before]  # the agent's bytes, and what gives the base's
_NOT_DELETED = tuple(kind for kind in Kind if kind is not Kind.DELETED)
_NOT_DIRECTORIES = tuple(type_ for type_ in FileType if type_ is not FileType.DIRECTORY)
_SPECIAL = 0o7000
_EXECUTE = 0o111


class RiskRule(Value):
    """A class of risk: it applies to a change that meets all its conditions.

    Paths and lines are matched without regard to case and Unicode form; what a pattern means: `glob.segments`.
    """

    name: str
    why: str
    check: str = ""
    paths: tuple[str, ...] = ()  # one of these patterns; empty: any path
    unless: tuple[str, ...] = ()  # none of these
    kinds: tuple[str, ...] = _NOT_DELETED
    types: tuple[str, ...] = _NOT_DIRECTORIES
    content: tuple[str, ...] = ()  # one of these words of MAGIC; empty: any content
    executable: bool = False  # the agent's file may be executed, and is new, changed or was not executable
    leaves_root: bool = False  # a link whose target is absolute, climbs out of the root or lies in a .git
    special_bits: bool = False  # setuid, setgid or sticky, added
    strange_name: bool = False  # the path holds characters that are not seen or that turn others round
    in_repository: bool = False  # it lies in a repository that the agent made inside the root
    unseen: bool = False  # larger than what is looked at
    adds: tuple[str, ...] = ()  # one of these words of ADDS: what the base's content did not have
    lines: tuple[str, ...] = ()  # one of these texts stands in a line that the base did not have; `*`: anything within it
    but_for: tuple[str, ...] = ()  # a JSON or TOML file: more differs than what stands at these keys


def judge(
    change: Change, rules: tuple[RiskRule, ...], after: bytes = b"", before: Before = bytes, *, is_embedded: bool = False
) -> tuple[Risk, ...]:
    """Return the risks of a change in the order of the rules.

    `after`: the agent's bytes, of a file larger than LOOKED_AT at least its first ones. `before` gives the base's,
    and is asked only when a rule compares. `is_embedded`: the change lies in a repository that the agent made.
    """
    index = _index(rules)
    sides = (after, before) if after and change.kind is not Kind.METADATA else None
    able = index.able(change.kind, change.type, is_embedded=is_embedded)
    near = (rules[number] for number in index.candidates(change.key.path) if number in able)
    met = (rule for rule in near if _meets(rule, change, after, sides))
    return tuple(Risk(rule.name, rule.why, rule.check) for rule in met)


def _meets(rule: RiskRule, change: Change, after: bytes, sides: Sides | None) -> bool:
    return (
        (not rule.content or any(_begins(after, word) for word in rule.content))
        and (not rule.executable or _is_executable(change))
        and (not rule.leaves_root or _leaves_root(change))
        and (not rule.special_bits or _adds(change, _SPECIAL))
        and (not rule.strange_name or hides_text(change.key.path))
        and (not rule.unseen or _is_unseen(change))
        and _meets_content(rule, change, sides)
    )


def _meets_content(rule: RiskRule, change: Change, sides: Sides | None) -> bool:
    """Whether the conditions hold that compare what was there with what is."""
    return (
        (not rule.but_for or _differs(rule, change, sides))
        and (not rule.adds or bool(sides and any(ADDS[word](*sides) for word in rule.adds)))
        and (not rule.lines or bool(sides and has_new_line(*sides, rule.lines)))
    )


def _differs(rule: RiskRule, change: Change, sides: Sides | None) -> bool:
    if sides is None or _is_unseen(change):
        return change.kind is not Kind.METADATA
    return differs_but_for(fold(change.key.path).rpartition("/")[2], *sides, rule.but_for)


def _is_unseen(change: Change) -> bool:
    after = change.after
    return after is not None and after.type is FileType.FILE and after.size > LOOKED_AT


def _begins(head: bytes, word: str) -> bool:
    return head.startswith(MAGIC[word]) and (word != "pe" or b"\0" in head)


def _is_executable(change: Change) -> bool:
    after = change.after
    if after is None or after.type is not FileType.FILE or not after.mode & _EXECUTE:
        return False
    return change.kind is not Kind.METADATA or _adds(change, _EXECUTE)


def _adds(change: Change, bits: int) -> bool:
    before = change.before.mode if change.before else 0
    return bool(change.after and change.after.mode & ~before & bits)


def _leaves_root(change: Change) -> bool:
    if change.after is None or change.after.type is not FileType.SYMLINK:
        return False
    target = change.after.target
    place = change.key.path.split(b"/")[:-1]
    for part in target.split(b"/"):
        if part == b".." and not place:
            return True
        if part == b"..":
            place.pop()
        elif part not in (b"", b"."):
            place.append(part)
    return target.startswith(b"/") or any(fold(part) == ".git" for part in place)


class _Index:
    """Some rules, those with patterns found by them."""

    def __init__(self, rules: tuple[RiskRule, ...]) -> None:
        self.rules = rules
        self._able: dict[tuple[Kind, FileType, bool], frozenset[int]] = {}
        self.known: dict[bytes, list[int]] = {}  # a path is asked for again by each commit that changes it
        self.pathless = [number for number, rule in enumerate(rules) if not rule.paths]
        self.patterns = Patterns(tuple((pattern, number) for number, rule in enumerate(rules) for pattern in rule.paths))
        self.exempt = tuple(
            (Patterns(tuple((pattern, 0) for pattern in unless)), {n for n, rule in enumerate(rules) if rule.unless == unless})
            for unless in dict.fromkeys(rule.unless for rule in rules if rule.unless)
        )

    def able(self, kind: Kind, type_: FileType, *, is_embedded: bool) -> frozenset[int]:
        """Return the numbers of the rules that look at changes of this kind and type."""
        key = (kind, type_, is_embedded)
        if key not in self._able:
            some = ((n, rule) for n, rule in enumerate(self.rules) if kind in rule.kinds and type_ in rule.types)
            self._able[key] = frozenset(n for n, rule in some if is_embedded or not rule.in_repository)
        return self._able[key]

    def candidates(self, path: bytes) -> list[int]:
        """Return the numbers of the rules that look at this path, in order."""
        if path not in self.known:
            self.known[path] = self._candidates(path)
        return self.known[path]

    def _candidates(self, path: bytes) -> list[int]:
        parts, keys = names(path)
        found = {*self.pathless, *self.patterns.matching_names(parts, keys)}
        for patterns, numbers in self.exempt:
            if not numbers.isdisjoint(found) and patterns.matching_names(parts, keys):
                found -= numbers
        return sorted(found)


_kept: dict[str, _Index] = {}


def _index(rules: tuple[RiskRule, ...]) -> _Index:
    """Return the index of these very rules, kept from the call before."""
    index = _kept.get("last")
    if index is None or index.rules is not rules:
        index = _kept["last"] = _Index(rules)
    return index
