"""Parsers for git's commits, logs and diffs. The input was written by an agent and is not trusted."""

from collections.abc import Iterator
from typing import Self

from agent_dev.git.formats.packed_blobs import PackedBlobs, pack_blobs
from agent_dev.quick_dataclass import dataclass, field

_SIGNATURES = {
    b"-----BEGIN SSH SIGNATURE": "ssh",
    b"-----BEGIN PGP": "openpgp",
    b"-----BEGIN SIGNED MESSAGE": "x509",
}
_STATUS = {"A": "added", "D": "deleted", "M": "edited", "T": "retyped"}


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit's id in hex and its subject. The agent wrote both.

    `is_imported`: the user has it, under this id or another; `is_declined`: the user does not want it. `place`: the root of its
    repository, if a session has several.
    """

    id: str
    subject: str
    is_imported: bool = False
    is_declined: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class CommitIdentity:
    """The author or committer of a commit: time in seconds since 1970, git's time zone (`+0200`). Not authenticated."""

    name: str = ""
    email: str = ""
    time: int = 0
    zone: str = "+0000"


class TreeChange(PackedBlobs):
    """A path that differs between two trees. Modes are git's (0: absent), ids are in hex; `status` is git's letter.

    Raises ValueError as `pack_blobs` does.
    """

    __slots__ = ()
    FIELDS = ("path", "old_mode", "new_mode", "old_oid", "new_oid", "status")

    def __new__(cls, path: bytes, old_mode: int, new_mode: int, old_oid: str, new_oid: str, status: str) -> Self:
        """Pack the values."""
        return super().__new__(cls, pack_blobs((old_mode, old_oid), (new_mode, new_oid), status.encode("ascii") + path))

    @property
    def path(self) -> bytes:
        """The path below the root of the tree."""
        return self.rest[1:]

    @property
    def old_mode(self) -> int:
        """The mode in the old tree."""
        return self.old[0]

    @property
    def new_mode(self) -> int:
        """The mode in the new tree."""
        return self.new[0]

    @property
    def old_oid(self) -> str:
        """The object id in the old tree."""
        return self.old[1]

    @property
    def new_oid(self) -> str:
        """The object id in the new tree."""
        return self.new[1]

    @property
    def status(self) -> str:
        """The letter that git gives the change."""
        return chr(self.rest[0])

    @property
    def kind(self) -> str:
        """The change as a word: added, deleted, edited or retyped."""
        return _STATUS.get(self.status, "edited")


@dataclass(frozen=True, slots=True)
class TreeCopy:
    """A new file with the content of another one."""

    path: bytes
    old_path: bytes
    old_mode: int
    oid: str


@dataclass(frozen=True, slots=True)
class ParsedCommit:
    """A parsed commit object. `signature` is the kind of its unverified signature, "" for none.

    `headers`: all headers, unparsed. `changed_files`: the changes against its first parent.
    """

    id: str
    tree: str = ""
    parents: tuple[str, ...] = ()
    author: CommitIdentity = CommitIdentity()
    committer: CommitIdentity = CommitIdentity()
    message: bytes = b""
    signature: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    changed_files: tuple[TreeChange, ...] = field(default=())

    @property
    def subject(self) -> str:
        """The first paragraph in one line, as git shows it."""
        first = self.message.lstrip(b"\n").split(b"\n\n", 1)[0]
        return b" ".join(first.split(b"\n")).strip().decode("utf-8", "surrogateescape")


def parse_log(output: bytes) -> tuple[Commit, ...]:
    """Parse `git log -z --format=%H%n%s`."""
    found = []
    for item in output.split(b"\0"):
        oid, _, subject = item.partition(b"\n")
        if oid:
            found.append(Commit(oid.decode("ascii", "replace"), subject.decode("utf-8", "surrogateescape")))
    return tuple(found)


def parse_commit(oid: str, data: bytes) -> ParsedCommit:
    """Parse a commit object; missing or malformed parts stay empty."""
    head, _, message = data.partition(b"\n\n")
    headers = _headers(head)
    table = dict(reversed(headers))
    signature = next((value for name, value in headers if name in (b"gpgsig", b"gpgsig-sha256")), None)
    return ParsedCommit(
        id=oid,
        tree=_decode(table.get(b"tree", b"")),
        parents=tuple(_decode(value) for name, value in headers if name == b"parent"),
        author=parse_person(table.get(b"author", b"")),
        committer=parse_person(table.get(b"committer", b"")),
        message=message,
        signature="" if signature is None else _signature_kind(signature),
        headers=headers,
    )


def _headers(head: bytes) -> tuple[tuple[bytes, bytes], ...]:
    found: list[tuple[bytes, bytes]] = []
    for line in head.split(b"\n"):
        if line.startswith(b" ") and found:
            found[-1] = (found[-1][0], found[-1][1] + b"\n" + line[1:])
        else:
            name, _, value = line.partition(b" ")
            found.append((name, value))
    return tuple(found)


def _signature_kind(signature: bytes) -> str:
    return next((kind for start, kind in _SIGNATURES.items() if signature.startswith(start)), "unknown")


def parse_person(line: bytes) -> CommitIdentity:
    """Parse `Name <email> seconds zone`."""
    identity, _, stamp = line.rpartition(b">")
    name, _, email = identity.partition(b"<")
    fields = stamp.split()
    seconds = int(fields[0]) if fields and fields[0].isdigit() and len(fields[0]) < 15 else 0
    zone = _decode(fields[1]) if len(fields) > 1 else "+0000"
    return CommitIdentity(_decode(name).strip(), _decode(email), seconds, zone)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def parse_diff(output: bytes) -> dict[str, tuple[TreeChange, ...]]:
    """Parse `git diff-tree --stdin -r -z --raw`: changes by commit id ("" without one)."""
    found: dict[str, list[TreeChange]] = {}
    records = iterate_records(output)
    current = ""
    for record in records:
        if not record:
            continue
        if record.startswith(b":"):
            found.setdefault(current, []).append(_tree_change(record, next(records, b"")))
        else:
            current = _decode(record.split(b" ")[0])
    return {oid: tuple(changes) for oid, changes in found.items()}


def parse_copies(output: bytes) -> dict[str, tuple[TreeCopy, ...]]:
    """Parse `git diff-tree --stdin -r -z --raw -C100% --diff-filter=C`: copies by commit id."""
    found: dict[str, list[TreeCopy]] = {}
    records = iterate_records(output)
    current = ""
    for record in records:
        if record.startswith(b":"):
            mode, _, oid, *_ = record[1:].split(b" ")
            old = next(records, b"")
            found.setdefault(current, []).append(TreeCopy(next(records, b""), old, int(mode, 8), _decode(oid)))
        elif record:
            current = _decode(record.split(b" ")[0])
    return {oid: tuple(copies) for oid, copies in found.items()}


def parse_renames(output: bytes) -> dict[str, dict[bytes, bytes]]:
    """Parse `git diff-tree --stdin -r -z --raw -M --diff-filter=R`: by commit id, old paths by new ones."""
    found: dict[str, dict[bytes, bytes]] = {}
    records = iterate_records(output)
    current = ""
    for record in records:
        if record.startswith(b":"):
            old = next(records, b"")
            found.setdefault(current, {})[next(records, b"")] = old
        elif record:
            current = _decode(record.split(b" ")[0])
    return found


def iterate_records(output: bytes) -> Iterator[bytes]:
    """Yield what NULs separate: all records of 100,000 changes at once would need as much memory as the changes."""
    start = 0
    while (end := output.find(b"\0", start)) >= 0:
        yield output[start:end]
        start = end + 1
    yield output[start:]


def _tree_change(header: bytes, path: bytes) -> TreeChange:
    old_mode, new_mode, old, new, status = header[1:].split(b" ")
    return TreeChange(path, int(old_mode, 8), int(new_mode, 8), _decode(old), _decode(new), _decode(status[:1]))
