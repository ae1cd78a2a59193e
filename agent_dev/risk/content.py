"""What an agent's bytes hold that the base's did not: looked at line by line or key by key, in time linear in their size.

Every search is a plain one or a pattern that cannot go back far, since the bytes are hostile: a line may be as long as
the file. `before` is asked for only when there is something to compare.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

from agent_dev.sanitize import HIDDEN

LOOKED_AT = 20 << 20  # bytes: nothing is searched in a larger file

Before = Callable[[], bytes]
Find = Callable[[bytes, int], int]
Pieces = tuple[tuple[bytes, bool], ...]

_TEXT = 8000  # bytes: a NUL in the first ones is what git calls binary
# Bidirectional controls, zero-width characters, fillers, tags, runs of variation selectors, and what a terminal obeys.
# A joiner counts between ASCII only: emoji and some scripts need it. Tags count but for the six that follow a flag.
_HIDDEN = re.compile(
    rb"\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\xa0\x8e|\xe2\x80[\x8b\x8e\x8f\xa8-\xae]|\xe2\x81[\xa0-\xa4\xa6-\xaf]|\xe3\x85\xa4"
    rb"|(?<=[\x00-\x7f])\xe2\x80[\x8c\x8d](?=[\x00-\x7f])|(?<!\A)\xef\xbb\xbf|\xef\xbe\xa0|\xef\xbf[\xb9-\xbb]"
    rb"|(?<!\xf0\x9f\x8f\xb4)(?<!\xf3\xa0\x81.)\xf3\xa0[\x80\x81].|(?:\xf3\xa0[\x80\x81].){7}"
    rb"|(?:\xef\xb8[\x80-\x8f]|\xf3\xa0[\x84-\x87].){2}",
    re.DOTALL,
)
_CONTROL = re.compile(rb"[\x08\x1b]|\r(?![\r\n]|\Z)")
_BLANK = b" " * 100
_FAR_RIGHT = re.compile(rb"[^\s][ \t]{100,}[^\s]")
_CYRILLIC = rb"(?:\xd0[\x80-\xbf]|\xd1[\x80-\xbf])"
_LOOKALIKE = rb"(?:\xce[\x91\x92\x95\x96\x97\x99\x9a\x9c\x9d\x9f\xa1\xa4\xa5\xa7\xbf])"  # Greek that reads as Latin
_MIXED = re.compile(rb"[a-z](?:%b|%b)|(?:%b|%b)[a-z]" % (_CYRILLIC, _LOOKALIKE, _CYRILLIC, _LOOKALIKE), re.IGNORECASE)
_ORIGIN = re.compile(rb"([a-z0-9+.-]{1,16})://([^/\s\"'<>,)\]}#?]*)|\bgit@([a-z0-9.-]{1,253}):")
# What npm, pnpm, yarn, bun and composer run without being asked by that name (npm: scripts, life cycle).
_UNASKED = frozenset(
    (
        *("preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish", "prepublishonly"),
        *("prepack", "postpack", "dependencies", "pnpm:devpreinstall", "preuninstall", "uninstall", "postuninstall"),
        *("pre-install-cmd", "post-install-cmd", "pre-update-cmd", "post-update-cmd", "post-root-package-install"),
        *("pre-autoload-dump", "post-autoload-dump", "post-create-project-cmd", "pre-command-run", "command"),
    )
)
# Addresses in a lock file of npm's or composer's from which nothing is fetched.
_TOLD = frozenset(("funding", "support", "homepage", "authors", "bugs", "notification-url"))
_NAME = re.compile(rb"\s{0,8}(?:require\s{1,8}|tool\s{1,8})?([a-z0-9][a-z0-9._/~-]{0,255})")
_VERSIONS = re.compile(r"[\^~<>=!v|*,.\s0-9A-Za-z+-]{1,100}")
_REQUIREMENT = re.compile(r"([\w.-]{1,100}(?:\[[\w,. -]{0,100}\])?)\s{0,4}[<>=!~][<>=!~,.*\s\w+-]{0,100}")
_BETWEEN = b" \t/;|&()<>'\"`$,:=[]{}"  # what parts words of a shell
_LONGEST_LINE, _LARGEST_TOML = 2000, 256 << 10  # past that tomllib takes time that grows with the square


def hides_text(data: bytes) -> bool:
    """Whether bytes hold characters that are not seen, or that turn others round."""
    return not data.isascii() and _HIDDEN.search(data) is not None


def has_new_line(after: bytes, before: Before, texts: tuple[str, ...]) -> bool:
    """Whether a line that the base did not have holds one of these texts, however its letters are written.

    A `*` in a text stands for anything within the line, `{sh}` for that as a whole word.
    """
    folded = fold_content(after)
    wanted = [pieces for anchor, group in _grouped(texts) if anchor in folded for pieces in group]
    if not wanted:
        return False
    known = frozenset(fold_content(before()).split(b"\n"))
    return any(line not in known and _has_all(line, pieces) for pieces in wanted for line in _lines(folded, _plain(pieces)))


@cache
def _grouped(texts: tuple[str, ...]) -> tuple[tuple[bytes, list[Pieces]], ...]:
    """Return the texts by a piece that they share, so that most content is let go after few searches."""
    every = [pieces for pieces in map(_pieces, texts) if pieces]
    words = [piece for pieces in every for piece, _ in pieces]
    groups: dict[bytes, list[Pieces]] = {}
    for pieces in every:
        anchor = max((piece for piece, _ in pieces), key=lambda piece: (len(piece) > 2, words.count(piece), len(piece)))
        groups.setdefault(anchor, []).append(pieces)
    return tuple(groups.items())


@cache
def _pieces(text: str) -> Pieces:
    """Return what a line must hold one after the other, and whether each must be a whole word."""
    found = []
    for part in re.split(r"(\{[^{}*]+\})|\*", text):
        is_word = bool(part) and part.startswith("{") and part.endswith("}")
        if part:
            found.append((fold_content((part[1:-1] if is_word else part).encode()), is_word))
    return tuple(found)


@lru_cache(maxsize=2)
def fold_content(data: bytes) -> bytes:
    """Return text as rules see it: small letters, and without what is not seen; two forms of an accent are one.

    What git calls binary has no such forms: of a build's programs, ten megabytes each, that would take seconds.
    """
    if data.isascii() or b"\0" in data[:_TEXT]:
        return data.lower()
    import unicodedata  # deferred, as all that is rare: most text is ASCII

    text = data.decode("utf-8", "surrogateescape").translate(_unseen()).casefold()
    # Cut to thirty in a row: to put more into order takes time that grows with the square (UAX 15, stream-safe text).
    text = _combining().sub(lambda found: found[0][:30], text)
    return unicodedata.normalize("NFC", text).encode("utf-8", "surrogateescape")


@cache
def _unseen() -> dict[int, None]:
    return dict.fromkeys(code for first, last in HIDDEN for code in range(first, last + 1))


@cache
def _combining() -> "re.Pattern[str]":
    import unicodedata

    return re.compile(f"[{''.join(char for char in map(chr, range(0x300, 0x1F000)) if unicodedata.combining(char))}]{{31,}}")


def _plain(pieces: Pieces) -> Find:
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
    return not (line[max(start - 1, 0) : start].strip(_BETWEEN) or line[end : end + 1].strip(_BETWEEN))


def _new(after: bytes, before: Before, find: Find) -> Iterator[bytes]:
    """Yield the lines where something is found and that the base did not have, each looked at once."""
    known: frozenset[bytes] | None = None
    for line in _lines(after, find):
        if known is None:
            known = frozenset(before().split(b"\n"))
        if line not in known:
            yield line


def _lines(data: bytes, find: Find) -> Iterator[bytes]:
    at = find(data, 0)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data[data.rfind(b"\n", 0, at) + 1 : end]
        at = find(data, end + 1) if end < len(data) else -1


def _by(pattern: "re.Pattern[bytes]") -> Find:
    def find(data: bytes, start: int) -> int:
        found = pattern.search(data, start)
        return found.start() if found else -1

    return find


def _has_new(after: bytes, before: Before, pattern: "re.Pattern[bytes]") -> bool:
    return any(True for _ in _new(after, before, _by(pattern)))


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_TEXT]


def _hidden_text(after: bytes, before: Before) -> bool:
    if _is_binary(after):
        return False
    return (not after.isascii() and _has_new(after, before, _HIDDEN)) or (
        _may_redraw(after) and _has_new(after, before, _CONTROL)
    )


def _may_redraw(text: bytes) -> bool:
    """Whether a control character may stand in it; a file whose lines end in CR alone is let be."""
    returns = text.count(b"\r")
    return any(char in text for char in (b"\x08", b"\x1b")) or (b"\n" in text and returns != text.count(b"\r\n"))


def _far_right(after: bytes, before: Before) -> bool:
    return _BLANK in after.replace(b"\t", b" ") and not _is_binary(after) and _has_new(after, before, _FAR_RIGHT)


def _mixed_letters(after: bytes, before: Before) -> bool:
    return not after.isascii() and not _is_binary(after) and _has_new(after, before, _MIXED)


def _registry(after: bytes, before: Before) -> bool:
    origins = _origins(after)
    return bool(origins) and bool(origins - _origins(before()))


def _origins(data: bytes) -> set[bytes]:
    """Return where a lock file's packages come from: scheme and host of each address."""
    document = _json(data) if data.lstrip().startswith(b"{") else None
    text = data if document is None else b"\n".join(_strings(document))
    found = set()
    for scheme, host, git in _ORIGIN.findall(text.lower()):
        found.add(b"git@" + git if git else scheme + b"://" + host.rpartition(b"@")[2])
    return found


def _strings(document: object) -> Iterator[bytes]:
    """Yield all texts of a document but those that only tell about a package."""
    todo = [document]
    while todo:
        match todo.pop():
            case dict() as table:
                todo += (value for key, value in table.items() if key not in _TOLD)
            case list() as items:
                todo += items
            case str() as text:
                yield text.encode("utf-8", "surrogatepass")
            case _:
                continue


def _integrity(after: bytes, before: Before) -> bool:
    new = _checksums(after)
    old = _checksums(before()) if new else {}
    return any(old.get(address, checksum) != checksum for address, checksum in new.items())


def _checksums(data: bytes) -> dict[bytes, bytes]:
    """Return the checksum that a lock file of npm's or yarn's says for each address: it stands on the line below."""
    found = {}
    address = b""
    for line in data.split(b"\n"):
        key, _, value = line.replace(b'"', b"").replace(b":", b" ", 1).strip(b" \t\r,}").partition(b" ")
        if key == b"resolved":
            address = value.strip().partition(b"#")[0]
        elif key == b"integrity" and address:
            found[address] = value.strip()
            address = b""
    return found


def _install_script(after: bytes, before: Before) -> bool:
    new = _scripts(after)
    return bool(new) and bool(new - _scripts(before()))


def _scripts(data: bytes) -> set[tuple[str, str]]:
    document = _json(data)
    scripts = document.get("scripts") if isinstance(document, dict) else None
    if not isinstance(scripts, dict):
        return set()
    return {(name, repr(value)) for name, value in scripts.items() if name.lower() in _UNASKED}


def _package(after: bytes, before: Before) -> bool:
    names = _packages(after)
    return bool(names) and bool(names - _packages(before()))


def _packages(data: bytes) -> set[bytes]:
    """Return the names at the beginning of the lines of a requirements file or of go.mod."""
    found = set()
    for line in data.lower().split(b"\n"):
        name = _NAME.match(line)
        if name and name[1] not in (b"module", b"go", b"toolchain"):
            found.add(name[1].replace(b"_", b"-"))
    return found


ADDS: dict[str, Callable[[bytes, Before], bool]] = {
    "hidden-text": _hidden_text,
    "far-right": _far_right,
    "mixed-letters": _mixed_letters,
    "install-script": _install_script,
    "registry": _registry,
    "integrity": _integrity,
    "package": _package,
}


def differs_but_for(name: str, after: bytes, before: Before, keys: tuple[str, ...]) -> bool:
    """Whether a JSON or TOML file differs in more than these keys (`project.version`); one that cannot be read does."""
    read = _toml if name.endswith(".toml") else _json
    new = read(after)
    old = read(before()) if new is not None else None
    if new is None or old is None:
        return True
    for key in keys:
        _drop(new, key)
        _drop(old, key)
    try:
        return repr(new) != repr(old)  # equality would take 1 for true
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
    """Return names and versions without what is only a version's number; anything else stays."""
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


def _json(data: bytes) -> object | None:
    import json  # only for the files that need it

    try:
        document: object = json.loads(data.decode("utf-8-sig"), parse_int=str, parse_float=str, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return document


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice, and readers differ about which counts")
    return found


def _toml(data: bytes) -> object | None:
    import tomllib  # only for the files that need it

    if len(data) > _LARGEST_TOML or any(len(line) > _LONGEST_LINE for line in data.split(b"\n")):
        return None
    try:
        return tomllib.loads(data.decode("utf-8").replace("\r\n", "\n"), parse_float=str)
    except (ValueError, RecursionError):
        return None
