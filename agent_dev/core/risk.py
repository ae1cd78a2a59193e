"""Why a change needs a careful look: rules over its path, kind, mode, link target and first bytes."""

import re
import unicodedata

from agent_dev.core.changes import Change, FileType, Kind, Risk
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
CHOICES: dict[str, tuple[str, ...]] = {"kinds": tuple(Kind), "types": tuple(FileType), "content": tuple(MAGIC)}
_NOT_DELETED = tuple(kind for kind in Kind if kind is not Kind.DELETED)
_NOT_DIRECTORIES = tuple(type_ for type_ in FileType if type_ is not FileType.DIRECTORY)
_SPECIAL = 0o7000
_EXECUTE = 0o111
# Characters that HFS+ leaves out of a name: there `.g\u200cit` is `.git` (git's own rule, core.protectHFS).
_IGNORED = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


class RiskRule(Value):
    """A class of risk: it applies to a change that meets all its conditions.

    A pattern is matched without regard to case and Unicode form. Without a slash it names a file anywhere, with one it
    begins at the root, `**/` is any number of directories; one that ends in a slash means the directory's content, and
    what stands in its place when that is no directory.
    """

    name: str
    why: str
    paths: tuple[str, ...] = ()  # one of these patterns; empty: any path
    kinds: tuple[str, ...] = _NOT_DELETED
    types: tuple[str, ...] = _NOT_DIRECTORIES
    content: tuple[str, ...] = ()  # one of these words of MAGIC; empty: any content
    executable: bool = False  # the agent's file may be executed, and is new, changed or was not executable
    leaves_root: bool = False  # a link whose target is absolute, climbs out of the root or lies in a .git
    special_bits: bool = False  # setuid, setgid or sticky, added


def judge(change: Change, rules: tuple[RiskRule, ...], head: bytes = b"") -> tuple[Risk, ...]:
    """Return the risks of a change in the order of the rules. `head`: the first bytes of the agent's file, 4 KiB do."""
    index = _index(rules)
    numbers = [number for number in index.pathless if _meets(rules[number], change, head)]
    numbers += [number for number in index.matching(change.key.path) if _meets(rules[number], change, head)]
    return tuple(Risk(rules[number].name, rules[number].why) for number in sorted(numbers))


def fold(path: bytes) -> str:
    """Return a path as rules see it: two spellings that some file system takes for the same name are equal."""
    text = path.decode("utf-8", "surrogateescape")
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFC", text).translate(_IGNORED)
    return unicodedata.normalize("NFC", text.casefold())


def _meets(rule: RiskRule, change: Change, head: bytes) -> bool:
    return (
        change.kind in rule.kinds
        and change.type in rule.types
        and (not rule.content or any(_begins(head, word) for word in rule.content))
        and (not rule.executable or _is_executable(change))
        and (not rule.leaves_root or _leaves_root(change))
        and (not rule.special_bits or _adds(change, _SPECIAL))
    )


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
    """The patterns of some rules, found by a name in the path: most paths hold none, and cost a look-up for each name."""

    def __init__(self, rules: tuple[RiskRule, ...]) -> None:
        self.rules = rules
        self.pathless = [number for number, rule in enumerate(rules) if not rule.paths]
        self._by_name: dict[str, list[tuple[re.Pattern[str], int]]] = {}
        self._nameless: list[tuple[re.Pattern[str], int]] = []
        for number, rule in enumerate(rules):
            for pattern in rule.paths:
                self._add(fold(pattern.encode("utf-8", "surrogateescape")), number)
        self._any_nameless = re.compile("|".join(pattern.pattern for pattern, _ in self._nameless) or r"(?!)", re.DOTALL)

    def _add(self, pattern: str, number: int) -> None:
        entry = (re.compile(_expression(pattern), re.DOTALL), number)
        name = _name(pattern)
        if name:
            self._by_name.setdefault(name, []).append(entry)
        else:
            self._nameless.append(entry)

    def matching(self, path: bytes) -> set[int]:
        """Return the numbers of the rules with a pattern for this path."""
        text = fold(path)
        parts = text.split("/")
        _, dot, extension = parts[-1].rpartition(".")
        candidates = [self._by_name[name] for name in parts if name in self._by_name]
        if dot:
            candidates.append(self._by_name.get("*." + extension, []))
        if self._any_nameless.fullmatch(text):
            candidates.append(self._nameless)
        return {number for entries in candidates for pattern, number in entries if pattern.fullmatch(text)}


_kept: dict[str, _Index] = {}


def _index(rules: tuple[RiskRule, ...]) -> _Index:
    """Return the index of these very rules, kept from the call before."""
    index = _kept.get("last")
    if index is None or index.rules is not rules:
        index = _kept["last"] = _Index(rules)
    return index


def _name(pattern: str) -> str:
    """Return what a path must hold to match: its longest literal name, `*.py` for a pattern of just that, or nothing."""
    parts = pattern.rstrip("/").split("/")
    names = [part for part in parts if part and "*" not in part and "?" not in part]
    if names:
        return max(names, key=len)
    star, dot, extension = parts[-1].rpartition(".")
    is_extension = star == "*" and dot and not pattern.endswith("/") and not set(extension) & set("*?")
    return parts[-1] if is_extension else ""


def _expression(pattern: str) -> str:
    """Return a pattern as a regular expression for a whole path."""
    body = pattern.strip("/")
    start = "" if "/" in body or pattern.startswith("/") else "(?:.*/)?"
    end = "(?:/.*)?" if pattern.endswith("/") else ""
    tokens = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", body)
    return start + "".join(tokens.get(part) or re.escape(part) for part in parts) + end
