"""Report the gaps of `mask:`: patterns without a match, and masked files whose content is also in git's objects."""

import os

from agent_dev.git import object_links
from agent_dev.paths import is_below
from agent_dev.run.request import PreparedRun
from agent_dev.sandbox.plan import SessionSpec
from agent_dev.sanitize import visible

_MAX_NAMED = 3


def mask_notices(prepared: PreparedRun, parts: SessionSpec) -> tuple[str, ...]:
    """Return the notices to show before an agent starts."""
    notices = []
    if parts.unmatched_masks:
        notices.append(f"mask: nothing here matches {_some(parts.unmatched_masks)} (agent-dev show)")
    if tracked := tracked_paths(prepared, parts):
        notices.append(f"masked, but readable in git's objects: {_some(tracked)}")
    return tuple(notices)


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(map(visible, names[:_MAX_NAMED])) + more


def tracked_paths(prepared: PreparedRun, parts: SessionSpec) -> tuple[str, ...]:
    """Return the masked paths that the first root's index tracks, so that `git show :PATH` shows them."""
    git, root = prepared.location.git, prepared.location.root
    masked = [path for path in (*parts.masked_files, *parts.masked_directories) if is_below(path, root) and path != root]
    if git is None or not masked:
        return ()
    data = object_links.read_file(f"{git.folder}/index")
    wanted = [os.fsencode(path[len(root) + 1 :]) for path in masked]
    if parts.masked_directories or data[4:8] > b"\0\0\0\3":
        tracked = _tracked(data)
        found = [name for name in wanted if any(path == name or path.startswith(name + b"/") for path in tracked)]
    else:
        found = [name for name in wanted if _is_listed(data, name)]
    return tuple(map(os.fsdecode, found))


def _is_listed(data: bytes, path: bytes) -> bool:
    """Return whether an index of version 2 or 3 has an entry: its name after flags with the name's length, and a NUL."""
    offset = data.find(path + b"\0")
    while offset >= 0:
        for flags in (data[offset - 2 : offset], data[offset - 4 : offset - 2]):
            if int.from_bytes(flags, "big") & 0xFFF == min(len(path), 0xFFF):
                return True
        offset = data.find(path + b"\0", offset + 1)
    return False


def _tracked(data: bytes) -> list[bytes]:
    from agent_dev.git.formats.index_format import IndexUnreadableError, parse_index  # rare

    for size in (20, 32):
        try:
            return [entry.path for entry in parse_index(data, size)]
        except (IndexUnreadableError, IndexError, ValueError):
            continue
    return []
