"""Labels of changes, the same on the screen and on the command line."""

from collections.abc import Sequence
from enum import StrEnum

from agent_dev.fs.entry import FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind

SIGNS = {
    ChangeKind.ADDED: "+",
    ChangeKind.EDITED: "~",
    ChangeKind.DELETED: "-",
    ChangeKind.RENAMED: "→",
    ChangeKind.RETYPED: "%",
    ChangeKind.METADATA: "m",
}
RISK_SIGN = "!"
BLOCKED_SIGN = "✗"


class MergeOutcome(StrEnum):
    """The outcome of a change to a path that the user changed too."""

    MERGED = "merges both"
    KEPT_YOURS = "keeps yours"
    REPLACED_YOURS = "replaces yours"


def outcome_of(change: Change, *, is_agents: bool) -> MergeOutcome:
    """Return the outcome of a combined change; `is_agents`: all its conflicts are resolved with the agent's version."""
    if change.is_session_only:
        return MergeOutcome.KEPT_YOURS
    return MergeOutcome.REPLACED_YOURS if is_agents else MergeOutcome.MERGED


def origin_key(change: Change) -> Key | None:
    """Return the key of the file that was renamed or copied; None for other changes."""
    return change.renamed_from or change.copied_from


def kind_name(change: Change) -> str:
    """Return the kind of a change as users see it: a new file may be copied."""
    return "copied" if change.copied_from else str(change.kind)


def origin_name(change: Change) -> str:
    """Return which file was renamed or copied: its name in the same directory, else its path; "" for other changes."""
    origin = origin_key(change)
    if origin is None:
        return ""
    old, new = origin.path, change.key.path
    is_same_directory = old.rpartition(b"/")[0] == new.rpartition(b"/")[0]
    return path_text(old.rpartition(b"/")[2] if is_same_directory else old)


def describe_block(change: Change) -> str:
    """Return why a change cannot be selected: an obstacle to the merge, or an unresolved conflict."""
    return f"cannot be merged: {change.obstacle}" if change.obstacle else f"conflict: {change.conflict}"


def type_name(kind: FileType) -> str:
    """Return the noun for a type; it takes the article "a"."""
    return "directory" if kind is FileType.DIRECTORY else kind.value


def path_text(path: bytes) -> str:
    """Return a path as text without loss; it may contain control characters."""
    return path.decode("utf-8", "surrogateescape")


def display_path(key: Key, roots: Sequence[str]) -> str:
    """Return the display path of a key: relative in the first root, absolute in the others. It is not escaped yet."""
    path = path_text(key.path)
    return path if key.root == 0 or key.root >= len(roots) else f"{roots[key.root].rstrip('/')}/{path}"


def patch_path(key: Key, roots: Sequence[str]) -> bytes:
    """Return the path of a key in a patch: its display path without a leading slash."""
    return display_path(key, roots).lstrip("/").encode("utf-8", "surrogateescape")


def format_count(count: int, noun: str) -> str:
    """Format a number of things: `1 file`, `2 files`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def format_size(count: int) -> str:
    """Format a number of bytes: 12 B, 1.5 KiB, 130 MiB."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
