"""Commits as git keeps them, parsed by us: everything here was written by an agent."""

from dataclasses import dataclass, field

_SIGNATURES = {
    b"-----BEGIN SSH SIGNATURE": "ssh",
    b"-----BEGIN PGP": "openpgp",
    b"-----BEGIN SIGNED MESSAGE": "x509",
}
_STATUS = {"A": "added", "D": "deleted", "M": "edited", "T": "retyped"}


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that the agent made: its id in hex and its subject, as hostile as any text of the agent's."""

    id: str
    subject: str


@dataclass(frozen=True, slots=True)
class Person:
    """Who wrote or made a commit, and when: seconds since 1970 and git's zone (`+0200`). Anybody can claim to be anybody."""

    name: str = ""
    email: str = ""
    time: int = 0
    zone: str = "+0000"


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A path that differs between two trees. Modes as git has them (0 for nothing), ids in hex."""

    path: bytes
    old_mode: int
    new_mode: int
    old: str
    new: str
    status: str

    @property
    def kind(self) -> str:
        """How it differs, in a word."""
        return _STATUS.get(self.status, "edited")


@dataclass(frozen=True, slots=True)
class Told:
    """All that a commit says of itself. `signature` is the kind of one it carries, which nobody has verified; "" for none.

    `headers`: what else stands in it, as it stands. `files`: what differs from its first parent.
    """

    id: str
    tree: str = ""
    parents: tuple[str, ...] = ()
    author: Person = Person()
    committer: Person = Person()
    message: bytes = b""
    signature: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    files: tuple[TreeChange, ...] = field(default=())

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


def parse_commit(oid: str, data: bytes) -> Told:
    """Return what a commit object says; what is missing or broken in it stays empty."""
    head, _, message = data.partition(b"\n\n")
    headers = _headers(head)
    table = dict(reversed(headers))
    signature = next((value for name, value in headers if name in (b"gpgsig", b"gpgsig-sha256")), None)
    return Told(
        id=oid,
        tree=_text(table.get(b"tree", b"")),
        parents=tuple(_text(value) for name, value in headers if name == b"parent"),
        author=parse_person(table.get(b"author", b"")),
        committer=parse_person(table.get(b"committer", b"")),
        message=message,
        signature="" if signature is None else _kind_of(signature),
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


def _kind_of(signature: bytes) -> str:
    return next((kind for start, kind in _SIGNATURES.items() if signature.startswith(start)), "unknown")


def parse_person(line: bytes) -> Person:
    """Parse `Name <email> seconds zone`."""
    who, _, when = line.rpartition(b">")
    name, _, email = who.partition(b"<")
    words = when.split()
    seconds = int(words[0]) if words and words[0].isdigit() and len(words[0]) < 15 else 0
    zone = _text(words[1]) if len(words) > 1 else "+0000"
    return Person(_text(name).strip(), _text(email), seconds, zone)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def parse_diff(output: bytes) -> dict[str, tuple[TreeChange, ...]]:
    """Parse `git diff-tree --stdin -r -z --raw`: the changes by the id before them ("" where none stands)."""
    found: dict[str, list[TreeChange]] = {}
    words = iter(output.split(b"\0"))
    current = ""
    for word in words:
        if not word:
            continue
        if word.startswith(b":"):
            found.setdefault(current, []).append(_tree_change(word, next(words, b"")))
        else:
            current = _text(word.split(b" ")[0])
    return {oid: tuple(changes) for oid, changes in found.items()}


def _tree_change(word: bytes, path: bytes) -> TreeChange:
    old_mode, new_mode, old, new, status = word[1:].split(b" ")
    return TreeChange(path, int(old_mode, 8), int(new_mode, 8), _text(old), _text(new), _text(status[:1]))
