"""Find risks in the bytes that an agent added to a file, by line or by key, in linear time.

The bytes are hostile, and a line may be as long as the file: every search is a plain one, or a pattern with bounded backtracking.
`before` is called only when there is something to compare.
"""

import re
from collections.abc import Callable
from functools import cache

from agent_dev.risk.hidden_text import (
    adds_far_right_text,
    adds_far_right_text_outside_tables,
    adds_hidden_text,
    adds_mixed_letters,
    adds_unicode_space,
)
from agent_dev.risk.json_text import parse_json
from agent_dev.risk.new_lines import Finder, ReadBase, matching_lines
from agent_dev.risk.plain_text import added_lines, fold_content

MAX_INSPECTED_SIZE = 20 << 20  # bytes: larger files are not inspected

Pieces = tuple[tuple[bytes, bool], ...]

# Scripts that npm, pnpm, yarn, bun and composer run as part of other commands (npm: scripts, life cycle).
_IMPLICIT_SCRIPTS = frozenset(
    (
        *("preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish", "prepublishonly"),
        *("prepack", "postpack", "dependencies", "pnpm:devpreinstall", "preuninstall", "uninstall", "postuninstall"),
        *("pre-install-cmd", "post-install-cmd", "pre-update-cmd", "post-update-cmd", "post-root-package-install"),
        *("pre-autoload-dump", "post-autoload-dump", "post-create-project-cmd", "pre-command-run", "command"),
    )
)
_NAME = re.compile(rb"\s{0,8}(?:require\s{1,8}|tool\s{1,8})?([a-z0-9][a-z0-9._/~-]{0,255})")
_VERSIONS = re.compile(r"[\^~<>=!v|*,.\s0-9A-Za-z+-]{1,100}")
_REQUIREMENT = re.compile(r"([\w.-]{1,100}(?:\[[\w,. -]{0,100}\])?)\s{0,4}[<>=!~][<>=!~,.*\s\w+-]{0,100}")
_SEPARATORS = b" \t\r/;|&()<>'\"`$,:=[]{}"  # between the words of a shell command
_RARE = tuple(bytes((code,)) for code in b"~$|@+64570/(=:_-.")  # characters that few texts have, the rarest first
_LONGEST_LINE, _LARGEST_TOML = 2000, 256 << 10  # beyond these, tomllib takes quadratic time


def has_new_line(after: bytes, before: ReadBase, texts: tuple[str, ...]) -> bool:
    """Return whether a new line contains one of these texts, regardless of case and Unicode form.

    A `*` in a text matches anything within the line, `{sh}` matches `sh` as a whole word.
    """
    folded = fold_content(added_lines(after, before))
    wanted = [pieces for group in _possible(texts, folded) for pieces in group]
    if not wanted:
        return False
    known = frozenset(fold_content(before()).split(b"\n"))
    return any(
        line not in known and _has_all(line, pieces) for pieces in wanted for line in matching_lines(folded, _plain(pieces))
    )


def _possible(texts: tuple[str, ...], folded: bytes) -> list[list[Pieces]]:
    """Return the groups of texts whose common piece is in a content; most contents lack even its rare character."""
    return [group for rare, groups in _by_rare_character(texts) if rare in folded for anchor, group in groups if anchor in folded]


@cache
def _by_rare_character(texts: tuple[str, ...]) -> tuple[tuple[bytes, list[tuple[bytes, list[Pieces]]]], ...]:
    """Return the groups of texts by the rarest character of their common piece; b"" for common ones."""
    found: dict[bytes, list[tuple[bytes, list[Pieces]]]] = {}
    for anchor, group in _grouped(texts):
        rare = next((character for character in _RARE if character in anchor), b"")
        found.setdefault(rare, []).append((anchor, group))
    return tuple(found.items())


@cache
def _grouped(texts: tuple[str, ...]) -> tuple[tuple[bytes, list[Pieces]], ...]:
    """Group texts by a common piece, so that a few searches suffice for most contents."""
    every = [pieces for pieces in map(_pieces, texts) if pieces]
    words = [piece for pieces in every for piece, _ in pieces]
    groups: dict[bytes, list[Pieces]] = {}
    for pieces in every:
        anchor = max((piece for piece, _ in pieces), key=lambda piece: (len(piece) > 2, words.count(piece), len(piece)))
        groups.setdefault(anchor, []).append(pieces)
    return tuple(groups.items())


@cache
def _pieces(text: str) -> Pieces:
    """Return the pieces that a line must contain in this order, and whether each must be a whole word."""
    found = []
    for part in re.split(r"(\{[^{}*]+\})|\*", text):
        is_word = bool(part) and part.startswith("{") and part.endswith("}")
        if part:
            found.append((fold_content((part[1:-1] if is_word else part).encode()), is_word))
    return tuple(found)


def _plain(pieces: Pieces) -> Finder:
    longest = max((piece for piece, _ in pieces), key=len)
    return lambda data, start: data.find(longest, start)


def _has_all(line: bytes, pieces: Pieces) -> bool:
    at = 0
    for piece, is_word in pieces:
        at = line.find(piece, at)
        while is_word and at >= 0 and not _is_word(line, at, at + len(piece)):
            at = line.find(piece, at + 1)
        if at < 0:
            return False
        at += len(piece)
    return True


def _is_word(line: bytes, start: int, end: int) -> bool:
    return not (line[max(start - 1, 0) : start].strip(_SEPARATORS) or line[end : end + 1].strip(_SEPARATORS))


def _install_script(after: bytes, before: ReadBase) -> bool:
    new = _scripts(after)
    return bool(new) and bool(new - _scripts(before()))


def _scripts(data: bytes) -> set[tuple[str, str]]:
    document = parse_json(data)
    scripts = document.get("scripts") if isinstance(document, dict) else None
    if not isinstance(scripts, dict):
        return set()
    return {(name, repr(value)) for name, value in scripts.items() if name.lower() in _IMPLICIT_SCRIPTS}


def _package(after: bytes, before: ReadBase) -> bool:
    names = _packages(after)
    return bool(names) and bool(names - _packages(before()))


def _packages(data: bytes) -> set[bytes]:
    """Return the first name of each line of a requirements file or of go.mod."""
    found = set()
    for line in data.lower().split(b"\n"):
        name = _NAME.match(line)
        if name and name[1] not in (b"module", b"go", b"toolchain"):
            found.add(name[1].replace(b"_", b"-"))
    return found


def _registry(after: bytes, before: ReadBase) -> bool:
    from agent_dev.risk import lock_files  # deferred: its patterns take 8 ms to compile, and few changes are lock files

    return lock_files.has_new_registry(after, before)


def _integrity(after: bytes, before: ReadBase) -> bool:
    from agent_dev.risk import lock_files  # as above

    return lock_files.has_changed_checksum(after, before)


CONTENT_CHECKS: dict[str, Callable[[bytes, ReadBase], bool]] = {
    "hidden-text": adds_hidden_text,
    "far-right": adds_far_right_text,
    "far-right-words": adds_far_right_text_outside_tables,
    "mixed-letters": adds_mixed_letters,
    "odd-space": adds_unicode_space,
    "install-script": _install_script,
    "registry": _registry,
    "integrity": _integrity,
    "package": _package,
}

# The checks that never find anything in plain ASCII (`hidden_text.is_plain_ascii`).
CHECKS_OF_CHARACTERS = frozenset(("hidden-text", "far-right", "far-right-words", "mixed-letters", "odd-space"))


def differs_outside_keys(name: str, after: bytes, before: ReadBase, keys: tuple[str, ...]) -> bool:
    """Return whether a JSON or TOML file differs outside these keys (`project.version`); True if it cannot be parsed."""
    read = _toml if name.endswith(".toml") else parse_json
    new = read(after)
    old = read(before()) if new is not None else None
    if new is None or old is None:
        return True
    for key in keys:
        _drop(new, key)
        _drop(old, key)
    try:
        return repr(new) != repr(old)  # == would treat 1 and true as equal
    except RecursionError:
        return True


def _drop(document: object, key: str) -> None:
    *above, last = key.split(".")
    for name in above[:-1] if last == "*" else above:
        document = document.get(name) if isinstance(document, dict) else None
    if not isinstance(document, dict):
        return
    if last == "*":
        document[above[-1]] = _without_versions(document.get(above[-1]))
    else:
        document.pop(last, None)


def _without_versions(value: object) -> object:
    """Return names and versions with plain version numbers removed."""
    match value:
        case dict() as table:
            return {name: _without_versions(text) if isinstance(text, str) else text for name, text in table.items()}
        case list() as items:
            found = ((_REQUIREMENT.fullmatch(text) if isinstance(text, str) else None, text) for text in items)
            return [requirement[1] if requirement else text for requirement, text in found]
        case str() as text if _VERSIONS.fullmatch(text) and (text == "*" or any(map(str.isdigit, text))):
            return ""
        case _:
            return value


def _toml(data: bytes) -> object | None:
    import tomllib  # deferred: rarely needed

    if len(data) > _LARGEST_TOML or any(len(line) > _LONGEST_LINE for line in data.split(b"\n")):
        return None
    try:
        return tomllib.loads(data.decode("utf-8").replace("\r\n", "\n"), parse_float=str)
    except (ValueError, RecursionError):
        return None
