"""Lock files of package managers: the origins of packages, and the checksum of each version."""

import re
from collections.abc import Iterator, Mapping

from agent_dev.risk.json_text import parse_json
from agent_dev.risk.new_lines import ReadBase

_ORIGIN = re.compile(rb"([a-z0-9+.-]{1,16})://([^/\s\"'<>,)\]}#?]*)|\bgit@([a-z0-9.-]{1,253}):")
# Keys in lock files of npm and composer whose addresses are not used for downloads.
_INFORMATIVE = frozenset(("funding", "support", "homepage", "authors", "bugs", "notification-url"))
# The first line of a package, by format: the name before its version, or the key of its section.
_HEADS = tuple(
    re.compile(pattern)
    for pattern in (
        rb"\[\[?(package|metadata)[^\]]{0,40}\]\]?\s*",  # Cargo, poetry, uv, pdm
        rb"(provider \"[^\"]{1,300}\") \{",  # Terraform
        rb"([A-Za-z0-9_.-]{1,100}(?:\[[^\]]{0,100}\])?==[^\s;\\]{1,100}).{0,2000}",  # pip
        rb"\s{0,20}(<(?:component|artifact) [^>]{1,500})>",  # Gradle
        rb" {0,2}([\"'/@A-Za-z0-9(][^:\n]{0,300}(?::[^\s:][^:\n]{0,300}){0,20}):\s*",  # yarn, pnpm, pub
    )
)
_FIELD = re.compile(rb"\s{0,20}\"?(name|version|rev|resolved|commit)\"?\s{0,4}[:= ]\s{0,4}[\"']?([^\"',\s]{1,500})")
_PLACED = re.compile(
    rb"(?:file|url|path|name)\s{0,2}=\s{0,2}\"([^\"]{1,500})\"[^{}]{0,300}?hash(?:es)?\s{0,2}=\s{0,2}(?:\{[^}]{0,9}=\s?)?\"([^\"]{1,200})\""
)
_SUM = re.compile(
    rb"(?:integrity|checksum|sha\d{1,3}|hash|revision)\"?\s{0,3}[:= ]\s{0,3}[\"']?([A-Za-z0-9+/=:_-]{16,200})"
    rb"|(?:--hash=|\")((?:sha\d{1,3}|h1|zh)[:-][A-Za-z0-9+/=_-]{16,200})|<sha\d{1,3} value=\"([0-9a-f]{16,200})\""
)
# Lines with package, version and checksum.
_ROWS = (
    re.compile(rb"^(\S{1,300} v\S{1,200}) (h1:\S{1,100})$", re.MULTILINE),  # go.sum
    re.compile(rb"^ {2,4}(\S{1,200} \([^)\n]{1,100}\)) (sha\d{1,3}=\S{1,200})$", re.MULTILINE),  # Bundler
    re.compile(rb"(\"[^\"\n]{1,200}\": \{:hex, :\w{1,100}, \"[^\"\n]{1,100}\"), \"([0-9a-f]{64})\""),  # mix
    re.compile(rb"\[\"([^\"\n]{1,300}@[^\"\n]{1,200})\",[^\n]{0,2000}?\"(sha\d{1,3}-[^\"\n]{1,200})\"\]"),  # bun
)
_POD = re.compile(rb"^ {2}- \"?([^\s/(\"]{1,200})[^(\n]{0,200} \(([^)\n]{1,100})\)", re.MULTILINE)  # name and version
_POD_SUM = re.compile(rb"^ {2}\"?([^\s:\"]{1,200})\"?: ([0-9a-f]{40})$", re.MULTILINE)
_POD_SUMS = b"\nSPEC CHECKSUMS:\n"
_SUMS = (
    "integrity",
    "shasum",
    "hash",
    "narHash",
    "sha256",
    "sha512",
    "checksum",
    "contentHash",
    "reference",
    "revision",
    "hashes",
)
_VERSIONS = ("version", "resolved", "rev", "tag")

Checksums = dict[tuple[object, ...], set[bytes]]


def has_new_registry(after: bytes, before: ReadBase) -> bool:
    """Return whether an address has a scheme and host that the lock file did not name before."""
    origins = _origins(after)
    return bool(origins) and bool(origins - _origins(before()))


def _origins(data: bytes) -> set[bytes]:
    """Return the origins of a lock file's packages: scheme and host of each address."""
    document = _document(data)
    text = data if document is None else b"\n".join(_strings(document))
    found = set()
    for scheme, host, git in _ORIGIN.findall(text.lower()):
        found.add(b"git@" + git if git else scheme + b"://" + host.rpartition(b"@")[2])
    return found


def _document(data: bytes) -> object | None:
    return parse_json(data) if data.lstrip().startswith(b"{") else None


def _strings(document: object) -> Iterator[bytes]:
    """Yield all texts of a document except informative ones."""
    todo = [document]
    while todo:
        match todo.pop():
            case dict() as table:
                todo += (value for key, value in table.items() if key not in _INFORMATIVE)
            case list() as items:
                todo += items
            case str() as text:
                yield text.encode("utf-8", "surrogatepass")
            case _:
                continue


def has_changed_checksum(after: bytes, before: ReadBase) -> bool:
    """Return whether a package has another checksum for the same version."""
    new = checksums(after)
    old = checksums(before()) if new else {}
    return any(old[key] - sums and sums - old[key] for key, sums in new.items() if key in old)


def checksums(data: bytes) -> Checksums:
    """Return the checksums of each package version in a lock file."""
    document = _document(data)
    if isinstance(document, dict):
        return _of_document(document)
    found: Checksums = {}
    for row in _ROWS:
        for name, value in row.findall(data):
            found.setdefault((name,), set()).add(value)
    return found or _of_pods(data) or _of_lines(data)


def _of_pods(data: bytes) -> Checksums:
    """Return the checksums of a Podfile.lock: versions and checksums are in different sections."""
    pods, is_lock, sums = data.replace(b"\r\n", b"\n").partition(_POD_SUMS)
    versions = dict(_POD.findall(pods)) if is_lock else {}
    return {(name, versions[name]): {value} for name, value in _POD_SUM.findall(sums) if name in versions}


def _of_document(document: dict[str, object]) -> Checksums:
    found: Checksums = {}
    todo: list[tuple[object, tuple[str, ...], str]] = [(document, (), "")]
    while todo:
        node, names, version = todo.pop()
        if isinstance(node, list):
            _put_row(found, node)
            todo += ((item, names, version) for item in node)
        elif isinstance(node, dict):
            version = _version(node) or version
            name = node.get("name") or node.get("identity")
            names = (*names, name) if isinstance(name, str) else names
            for key, value in node.items():
                if key in _SUMS:
                    _put(found, (*names, key), version, value)
                elif isinstance(value, str) and key.startswith("http"):  # deno
                    _put(found, names, key, value)
                else:
                    inner = version or (key if "@" in key[1:] else "")
                    todo.append((value, (*names, key), inner))
    return found


def _put_row(found: Checksums, row: list[object]) -> None:
    """Add a package of bun.lock: `["a@1.0.0", …, "sha512-…"]`."""
    match row:
        case [str() as package, *_, str() as value] if "@" in package[1:] and value.startswith("sha"):
            _put(found, (), package, value)
        case _:
            return


def _version(node: Mapping[str, object]) -> str:
    """Return the version in a part of a document, "" without one and for one that can move (`dev-main`)."""
    state = node.get("state")
    texts = [(key, value.partition("#")[0]) for key in _VERSIONS if isinstance(value := node.get(key), str)]
    if not texts:
        return _version(state) if isinstance(state, dict) else ""
    key, version = texts[0]
    return "" if key == "version" and (version.startswith("dev-") or not any(map(str.isdigit, version))) else version


def _put(found: Checksums, names: tuple[str, ...], version: str, value: object) -> None:
    values = value if isinstance(value, list) else [value]
    sums = {text.encode("utf-8", "surrogatepass") for text in values if isinstance(text, str)}
    if version and sums:
        found.setdefault((*names, version), set()).update(sums)


def _of_lines(data: bytes) -> Checksums:
    """Return checksums of a line-based file: the package's name comes first, then version and checksums in any order."""
    found: Checksums = {}
    head, fields, sums = b"", dict[bytes, bytes](), list[tuple[bytes, bytes]]()
    for line in data.replace(b"\r\n", b"\n").split(b"\n"):
        name = _head(line)
        if name:
            _flush(found, head, fields, sums)
            head, fields, sums = name, {}, []
        field = _FIELD.match(line)
        if field:
            value, _, mark = field[2].partition(b"#")
            fields.setdefault(field[1], value)
            sums += [(b"", mark)] if mark else []
        placed = _PLACED.findall(line)
        sums += placed or [(b"", next(filter(None, groups))) for groups in _SUM.findall(line)]
    _flush(found, head, fields, sums)
    return found


def _head(line: bytes) -> bytes:
    for pattern in _HEADS:
        found = pattern.fullmatch(line)
        if found:
            return found[1]
    return b""


def _flush(found: Checksums, head: bytes, fields: dict[bytes, bytes], sums: list[tuple[bytes, bytes]]) -> None:
    version = fields.get(b"version") or fields.get(b"resolved") or fields.get(b"rev") or fields.get(b"commit") or b""
    name = fields.get(b"name") or (_package_of(head) if version else head)
    for file, value in sums:
        found.setdefault((name, version, file), set()).add(value)


def _package_of(head: bytes) -> bytes:
    """Return the package of the first line of an entry in a yarn lock file: `"@a/b@npm:^1, @a/b@npm:^1.2"`."""
    first = head.strip(b"\"' ").partition(b",")[0]
    return first[:1] + first[1:].partition(b"@")[0]
