"""Text about a change: kind, effect, mode, attributes, sizes, line counts, and what to check."""

import stat
from collections.abc import Iterator

from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay.changes import Change, ChangeKind, Risk
from agent_dev.overlay.labels import format_count, path_text, type_name

_FORMATS = {FileType.FILE: stat.S_IFREG, FileType.DIRECTORY: stat.S_IFDIR}


def exact_size(count: int) -> str:
    """Return a number of bytes as text, exact, because an edit may change it by one."""
    return format_count(count, "byte")


def describe_kind(change: Change) -> str:
    """Describe the kind of a change."""
    noun = type_name(change.type)
    match change.kind:
        case ChangeKind.ADDED:
            copied = f", copied from {path_text(change.copied_from.path)}" if change.copied_from else ""
            return "new empty directory" if change.type is FileType.DIRECTORY else f"new {noun}{copied}"
        case ChangeKind.DELETED:
            return f"deleted {noun}"
        case ChangeKind.EDITED:
            return f"edited {noun}"
        case ChangeKind.RENAMED:
            return f"{noun} renamed from {path_text(change.renamed_from.path) if change.renamed_from else 'unknown'}"
        case ChangeKind.RETYPED:
            return f"type changed: {type_name(change.before.type) if change.before else 'unknown'} → {noun}"
        case ChangeKind.METADATA:
            return f"{noun}, only mode or attributes changed"


def describe_effect(change: Change) -> str:
    """Describe the effect of applying a change as a whole."""
    noun = type_name(change.type)
    match change.kind:
        case ChangeKind.ADDED if change.type is FileType.SYMLINK and change.after:
            return f"create the symlink → {path_text(change.after.target)}"
        case ChangeKind.ADDED:
            return f"create the {noun}"
        case ChangeKind.DELETED:
            return f"delete the {noun}"
        case ChangeKind.RETYPED:
            return f"replace the {type_name(change.before.type) if change.before else 'entry'} with a {noun}"
        case ChangeKind.EDITED if change.after and change.after.type is FileType.SYMLINK:
            return f"point the symlink to {path_text(change.after.target)}"
        case ChangeKind.EDITED | ChangeKind.METADATA | ChangeKind.RENAMED:
            return f"{'rename' if change.kind is ChangeKind.RENAMED else 'change'} the {noun}"


def describe_mode(change: Change) -> str:
    """Describe a change of mode, or the unusual mode of a new file; empty if there is neither."""
    before, after = change.before, change.after
    if after is None or after.type not in _FORMATS:
        return ""
    if before is None or before.type is not after.type:
        usual = 0o755 if after.type is FileType.DIRECTORY else 0o644
        return "" if after.mode in (usual, usual | 0o020) else f"mode {_octal(after)}: {_describe_bits(usual, after)}"
    if before.mode == after.mode:
        return ""
    return f"{_octal(before)} → {_octal(after)}: {_describe_bits(before.mode, after)}"


def _octal(entry: Entry) -> str:
    return f"{_FORMATS.get(entry.type, 0) | entry.mode:06o}"


_BITS = (
    (stat.S_ISUID, "runs as its owner (setuid)", "no longer setuid"),
    (stat.S_ISGID, "runs as its group (setgid)", "no longer setgid"),
    (stat.S_IWOTH, "writable by everyone", "no longer writable by everyone"),
    (stat.S_IROTH, "readable by everyone", "no longer readable by everyone"),
    (stat.S_IWUSR, "writable", "made read-only"),
)


def _describe_bits(before: int, after: Entry) -> str:
    parts = []
    if after.type is FileType.FILE and bool(before & 0o111) != bool(after.mode & 0o111):
        parts.append("made executable" if after.mode & 0o111 else "no longer executable")
    for bit, gained, lost in _BITS:
        if (before ^ after.mode) & bit:
            parts.append(gained if after.mode & bit else lost)
    return ", ".join(parts) or "permissions changed"


def describe_attributes(change: Change) -> Iterator[str]:
    """Yield a description of each changed extended attribute."""
    if change.before is None or change.after is None:
        return
    before, after = dict(change.before.attributes), dict(change.after.attributes)
    for one in sorted(before.keys() | after.keys()):
        if before.get(one) != after.get(one):
            status = "removed" if one not in after else "new" if one not in before else "changed"
            yield f"attribute {one}: {status}"


def format_sizes(change: Change) -> str:
    """Return the sizes before and after."""
    sides = [entry for entry in (change.before, change.after) if entry and entry.type is FileType.FILE]
    return " → ".join(exact_size(entry.size) for entry in sides)


def format_line_counts(insertions: int | None, deletions: int | None) -> str:
    """Format line counts; empty if they were not counted or are zero."""
    parts = [f"+{insertions:,}"] if insertions else []
    parts += [f"-{deletions:,}"] if deletions else []
    return " ".join(parts)


def risk_check(risk: Risk) -> str:
    """Return what to check in a risky change."""
    return risk.check or "every line: which commands it would run, as which user, and which data they could read or send"
