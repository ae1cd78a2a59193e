"""A change in words: its sign, its name, its size, its modes, what a link points to."""

import stat
from collections.abc import Iterator, Sequence

from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind, Risk

SIGNS = {Kind.ADDED: "+", Kind.EDITED: "~", Kind.DELETED: "-", Kind.RETYPED: "%", Kind.METADATA: "m"}
RISK = "!"
BLOCKED = "✗"

_TYPES = {
    FileType.FILE: "file",
    FileType.DIRECTORY: "directory",
    FileType.SYMLINK: "link",
    FileType.FIFO: "fifo",
    FileType.SOCKET: "socket",
    FileType.DEVICE: "device",
}
_FORMATS = {FileType.FILE: stat.S_IFREG, FileType.DIRECTORY: stat.S_IFDIR}


def text(path: bytes) -> str:
    """Return a path as text, nothing lost; not yet fit for a screen."""
    return path.decode("utf-8", "surrogateescape")


def name(key: Key, roots: Sequence[str]) -> str:
    """Return how a path is called: relative in the first root, absolute in the others."""
    path = text(key.path)
    return path if key.root == 0 or key.root >= len(roots) else f"{roots[key.root].rstrip('/')}/{path}"


def size(count: int) -> str:
    """Return a number of bytes."""
    return f"{count:,} byte{'s' * (count != 1)}"


def number(count: int, noun: str) -> str:
    """Return a number of things."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def kind(change: Change) -> str:
    """Return in a few words what happened to a path."""
    what = _TYPES[change.type]
    match change.kind:
        case Kind.ADDED:
            return "new empty directory" if change.type is FileType.DIRECTORY else f"new {what}"
        case Kind.DELETED:
            return f"deleted {what}"
        case Kind.EDITED:
            return f"edited {what}"
        case Kind.RETYPED:
            return f"{_TYPES[change.before.type] if change.before else 'something'} became a {what}"
        case Kind.METADATA:
            return f"{what}, only its mode or attributes"


def whole(change: Change) -> str:
    """Return what taking a change as a whole does."""
    what = _TYPES[change.type]
    match change.kind:
        case Kind.ADDED if change.type is FileType.SYMLINK and change.after:
            return f"create the link → {text(change.after.target)}"
        case Kind.ADDED:
            return f"create the {what}"
        case Kind.DELETED:
            return f"delete the {what}"
        case Kind.RETYPED:
            return f"put a {what} where the {_TYPES[change.before.type] if change.before else 'other'} stood"
        case Kind.EDITED if change.after and change.after.type is FileType.SYMLINK:
            return f"point the link to {text(change.after.target)}"
        case Kind.EDITED | Kind.METADATA:
            return f"change the {what}"


def mode(change: Change) -> str:
    """Return a change of mode in words, or a new file's mode when it is not a plain one; empty when there is nothing to say."""
    before, after = change.before, change.after
    if after is None or after.type not in _FORMATS:
        return ""
    if before is None or before.type is not after.type:
        plain = 0o755 if after.type is FileType.DIRECTORY else 0o644
        return "" if after.mode in (plain, plain | 0o020) else f"mode {_mode(after)}: {_meaning(plain, after)}"
    if before.mode == after.mode:
        return ""
    return f"{_mode(before)} → {_mode(after)}: {_meaning(before.mode, after)}"


def _mode(entry: Entry) -> str:
    return f"{_FORMATS.get(entry.type, 0) | entry.mode:06o}"


_BITS = (
    (stat.S_ISUID, "runs as its owner (setuid)", "no longer setuid"),
    (stat.S_ISGID, "runs as its group (setgid)", "no longer setgid"),
    (stat.S_IWOTH, "writable by everyone", "no longer writable by everyone"),
    (stat.S_IROTH, "readable by everyone", "no longer readable by everyone"),
    (stat.S_IWUSR, "writable", "made read-only"),
)


def _meaning(before: int, after: Entry) -> str:
    words = []
    if after.type is FileType.FILE and bool(before & 0o111) != bool(after.mode & 0o111):
        words.append("made executable" if after.mode & 0o111 else "no longer executable")
    for bit, gained, lost in _BITS:
        if (before ^ after.mode) & bit:
            words.append(gained if after.mode & bit else lost)
    return ", ".join(words) or "other permissions"


def attributes(change: Change) -> Iterator[str]:
    """Yield what happened to each extended attribute."""
    if change.before is None or change.after is None:
        return
    before, after = dict(change.before.attributes), dict(change.after.attributes)
    for one in sorted(before.keys() | after.keys()):
        if before.get(one) != after.get(one):
            what = "removed" if one not in after else "new" if one not in before else "changed"
            yield f"attribute {one}: {what}"


def sizes(change: Change) -> str:
    """Return the size before and after."""
    sides = [entry for entry in (change.before, change.after) if entry and entry.type is FileType.FILE]
    return " → ".join(size(entry.size) for entry in sides)


def lines(insertions: int | None, deletions: int | None) -> str:
    """Return counted lines; empty when they were not counted or there are none."""
    parts = [f"+{insertions:,}"] if insertions else []
    parts += [f"-{deletions:,}"] if deletions else []
    return " ".join(parts)


def look(risk: Risk) -> str:
    """Return what a look at a risky change should look at."""
    return risk.check or "each line: what would run, where, with whose rights, and what it could read or send"
