"""Select the tool directories and caches of the real home to show, and mask the credentials in them."""

import binascii
import os
import stat

from agent_dev.paths import expand, is_below
from agent_dev.sandbox import credentials, preflight, tool_credentials
from agent_dev.sandbox.plan import MaskEntry, SessionSpec
from agent_dev.sanitize import visible
from agent_dev.session.root import Root
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.request import PreparedRun


def with_tools(prepared: "PreparedRun", *, with_masks: bool = True) -> "PreparedRun":
    """Select the tool directories and caches that exist and do not hide entries of the agent home, and mask credentials."""
    home, profile = prepared.machine.home, prepared.settings.profile
    shown: dict[str, list[str]] = {"tools": [], "caches": []}
    hidden: list[tuple[str, str]] = []
    for kind, paths in (("tools", profile.tools), ("caches", profile.caches)):
        for path in (expand(path, home) for path in paths):
            reason = _reason_not_shown(path, prepared, is_cache=kind == "caches")
            if reason is None:
                shown[kind].append(path)
            elif reason:
                hidden.append((path, reason))
    tools = _outermost(shown["tools"])
    caches = tuple(shown["caches"])
    prepared = prepared.replace(tools=tools, caches=caches, hidden=tuple(hidden))
    return _with_masks(prepared) if with_masks else prepared


def _with_masks(prepared: "PreparedRun") -> "PreparedRun":
    tools, caches, home = prepared.tools, prepared.caches, prepared.machine.home
    ro = tuple(path for path in prepared.ro if os.path.isdir(path))
    index = tool_credentials.CredentialIndex(prepared.cache_folder)
    masked = ((path, _mask_entries(path, home, index, is_tool=path not in ro)) for path in dict.fromkeys((*tools, *caches, *ro)))
    prepared = prepared.replace(masked_views=tuple((path, blanks) for path, blanks in masked if blanks))
    index.save()
    return prepared


def _mask_entries(path: str, home: str, index: tool_credentials.CredentialIndex, *, is_tool: bool) -> tuple[MaskEntry, ...]:
    """Return the masks for a directory: credentials that it has or could have by the table, and others found by name."""
    if not os.path.isdir(path):
        return ()
    names = credentials.credentials_below(path, home)
    found = index.find(path) if is_tool else ()
    others = (
        entry
        for entry in found
        if not any(entry.name == name or (name[-1] == "/" and entry.name.startswith(name)) for name in names)
    )
    return (*map(MaskEntry, names), *others)


class SessionMasks(Value):
    """The files and the directories to mask in the roots, and the patterns of `mask:` that match nothing in any."""

    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()


def find_masked_paths(prepared: "PreparedRun", roots: tuple[Root, ...]) -> SessionMasks:
    """Find the files and directories to mask in the roots: by `mask:`, and credentials of the home in them."""
    patterns, home = prepared.settings.profile.mask, prepared.machine.home
    by_root = tuple((root, credentials.credentials_below(root.path, home)) for root in roots)
    if not patterns and not any(names for _, names in by_root):
        return SessionMasks()
    from agent_dev.sandbox import masks  # most runs mask nothing in a root

    candidates: list[str] = []
    unmatched = patterns
    for root, names in by_root:
        candidates += masks.find_credentials(root.path, names, root.upper)
        if patterns:
            found = masks.find_masked(root.path, patterns, root.upper)
            candidates += found.paths
            unmatched = tuple(pattern for pattern in unmatched if pattern in found.unmatched)
    paths = _outermost(sorted(set(candidates)))
    files, folders = (tuple(path for path in paths if os.path.isdir(path) is is_folder) for is_folder in (False, True))
    return SessionMasks(files, folders, unmatched)


def session_notices(prepared: "PreparedRun") -> tuple[str, ...]:
    """Return the notices that also apply to a resumed session: what is writable, shared or ignored."""
    lines = [f"--rw {path}: the agent writes to it directly, without review" for path in prepared.rw]
    home = prepared.machine.home
    lines += [f"--ro {path}: the agent can read its credentials" for path in prepared.ro if credentials.is_credential(path, home)]
    lines += [*prepared.notices, *(one.warning for one in prepared.shared_sockets if one.warning)]
    if prepared.containers is not None and prepared.containers.problem:
        lines.append(f"containers share the network of the sandbox, without published ports: {prepared.containers.problem}")
    lines += top_level_notices(prepared)
    return tuple(lines)


def mask_layer_path(state: str, blanks: tuple[MaskEntry, ...]) -> str:
    """Return the path of a mask layer for these entries; it may not exist yet."""
    key = "\n".join(one.name for one in blanks).encode("utf-8", "surrogateescape")
    data = b"\0".join(one.data for one in blanks).strip(b"\0")  # empty if all are empty
    return f"{state}/covers/{binascii.crc32(key):08x}" + (f"-{binascii.crc32(data):08x}" if data else "")


def empty_directory_path(state: str) -> str:
    """Return the path of the empty directory that masks directories of a root; it may not exist yet."""
    return f"{state}/covers/blank"


def create_masks(prepared: "PreparedRun", parts: SessionSpec) -> None:
    """Create the masks for credentials: mask layers of directories, empty files in the upper layers of caches."""
    if not prepared.masked_views and not parts.masked_directories:
        return
    from agent_dev.sandbox import masks  # only if there are credentials to mask

    blanks = dict(prepared.masked_views)
    for path, layer in parts.masked_views:
        masks.create_mask_layer(layer, blanks[path])
    for cache in parts.caches:
        masks.fill_mask_layer(cache.upper, blanks.get(cache.path, ()))
    if parts.masked_directories:
        os.makedirs(parts.empty_directory, 0o755, exist_ok=True)


def top_level_notices(prepared: "PreparedRun") -> tuple[str, ...]:
    """Return a notice about entries near the top that the agent cannot change, and one about likely secrets."""
    facts = prepared.machine
    foreign, secrets = preflight.scan_top_level(prepared.location.root, facts.uid, facts.gid)
    if secrets and prepared.settings.profile.mask:
        from agent_dev.sandbox import masks  # only if there are credentials to mask

        secrets = masks.filter_unmasked(prepared.location.root, prepared.settings.profile.mask, secrets)
    lines = [f"owned by another user or group, so the agent cannot change: {_abbreviate(foreign)}"] if foreign else []
    if secrets:
        lines.append(f"likely secrets that the agent can read: {_abbreviate(secrets)} (hide them with `mask:` in config.yaml)")
    return tuple(lines)


def _abbreviate(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
    return ", ".join(map(visible, paths[:2])) + more


def _outermost(paths: list[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if not any(path != other and is_below(path, other) for other in paths))


def _reason_not_shown(path: str, prepared: "PreparedRun", *, is_cache: bool) -> str | None:
    """Return None to show the path, "" if it does not exist, otherwise why it is not shown."""
    if not _can_be_shown(path, is_cache=is_cache) or not is_below(path, prepared.machine.home):
        return ""
    if credentials.is_credential(path, prepared.machine.home):
        return "contains only credentials; use `ro:` to show it anyway"
    for own_path in (prepared.store.path, prepared.agent_home, prepared.cache_folder):
        if is_below(own_path, os.path.realpath(path)) or is_below(os.path.realpath(path), own_path):
            return f"contains {own_path}"
    path_in_home = prepared.agent_home
    for part in path[len(prepared.machine.home) :].split("/"):
        path_in_home = f"{path_in_home}/{part}" if part else path_in_home
        if os.path.islink(path_in_home) or (
            os.path.lexists(path_in_home) and not os.path.isdir(path_in_home) and os.path.isdir(path)
        ):
            return "the agent home has a link or file at this path"
    return None if _is_mount_point_or_absent(path_in_home) else "the agent home already has it"


def _can_be_shown(path: str, *, is_cache: bool) -> bool:
    """Return whether there is a directory, or for tools a file. One call for each path: most of a hundred do not exist."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and not is_cache)


def _is_mount_point_or_absent(path: str) -> bool:
    """Return whether the agent home has nothing there but a mount point of an earlier session."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return os.lstat(path).st_size == 0
    except OSError:
        return False
