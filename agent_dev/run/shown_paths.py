"""Which tool directories and caches of the real home are shown, and what is hidden in all that is shown."""

import binascii
import os

from agent_dev.sandbox import credentials
from agent_dev.sandbox import preflight as look
from agent_dev.sandbox.plan import Root, Setting, expand, is_below
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.prepare import Prepared


def with_tools(prepared: "Prepared") -> "Prepared":
    """Choose the tool directories and caches that are there and do not hide something of the agent home's own."""
    home, profile = prepared.machine.home, prepared.settings.profile
    shown: dict[str, list[str]] = {"tools": [], "caches": []}
    hidden: list[tuple[str, str]] = []
    for kind, paths in (("tools", profile.tools), ("caches", profile.caches)):
        for path in (expand(path, home) for path in paths):
            why = _why_hidden(path, prepared, is_cache=kind == "caches")
            if why is None:
                shown[kind].append(path)
            elif why:
                hidden.append((path, why))
    tools = _outermost(shown["tools"])
    caches = tuple(shown["caches"])
    ro = tuple(path for path in prepared.ro if os.path.isdir(path))
    within = ((path, credentials.within(path, home)) for path in dict.fromkeys((*tools, *caches, *ro)))
    return prepared.but(
        tools=tools,
        caches=caches,
        covers=tuple((path, names) for path, names in within if names and os.path.isdir(path)),
        hidden=tuple(hidden),
    )


def masked(prepared: "Prepared", roots: tuple[Root, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files and the directories of the roots that are hidden: by `mask:`, and credentials of the home in them."""
    patterns, home = prepared.settings.profile.mask, prepared.machine.home
    within = tuple((root, credentials.within(root.path, home)) for root in roots)
    if not patterns and not any(names for _, names in within):
        return (), ()
    from agent_dev.sandbox import masks as covers  # most runs hide nothing in a root

    found: list[str] = []
    for root, names in within:
        found += covers.masked(root.path, patterns, root.upper) if patterns else ()
        found += covers.credentials(root.path, names, root.upper)
    paths = _outermost(sorted(set(found)))
    return tuple(path for path in paths if not os.path.isdir(path)), tuple(path for path in paths if os.path.isdir(path))


def warnings(prepared: "Prepared") -> tuple[str, ...]:
    """Return what holds for a session that goes on, too: what is open, and what does not count."""
    lines = [f"--rw {path}: the agent writes there directly, nothing of it is reviewed" for path in prepared.rw]
    lines += [*prepared.said, *(one.warning for one in prepared.shared)]
    lines += around(prepared)
    return tuple(lines)


def front(state: str, names: tuple[str, ...]) -> str:
    """Return where the front for these names lies; it may not exist yet."""
    return f"{state}/covers/{binascii.crc32(chr(10).join(names).encode()):08x}"


def blank(state: str) -> str:
    """Return where the empty directory is that hides directories of a root; it may not exist yet."""
    return f"{state}/covers/blank"


def hide(prepared: "Prepared", parts: Setting) -> None:
    """Make what hides credentials: fronts of directories, empty files in the throw-away layers of caches."""
    if not prepared.covers and not parts.blanks:
        return
    from agent_dev.sandbox import masks as covers  # where there are no credentials to hide, nothing hides them

    names = dict(prepared.covers)
    for path, front in parts.covers:
        covers.make(front, names[path])
    for cache in parts.caches:
        covers.fill(cache.upper, names.get(cache.path, ()))
    if parts.blanks:
        os.makedirs(parts.blank, 0o755, exist_ok=True)


def around(prepared: "Prepared") -> tuple[str, ...]:
    """Return a line about paths near the top that the agent cannot change, and one about what looks like a secret."""
    facts = prepared.machine
    foreign, secrets = look.around(prepared.place.root, facts.uid, facts.gid)
    if secrets and prepared.settings.profile.mask:
        from agent_dev.sandbox import masks as covers  # as above

        secrets = covers.unmasked(prepared.place.root, prepared.settings.profile.mask, secrets)
    lines = [f"of another user or group, so the agent cannot change them: {_few(foreign)}"] if foreign else []
    if secrets:
        lines.append(f"looks secret, and the agent can read it: {_few(secrets)} (`mask:` in config.yaml hides)")
    return tuple(lines)


def _few(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
    return ", ".join(map(visible, paths[:2])) + more


def _outermost(paths: list[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if not any(path != other and is_below(path, other) for other in paths))


def _why_hidden(path: str, prepared: "Prepared", *, is_cache: bool) -> str | None:
    """Return None to show it, "" for one that is not there, else why it is not shown."""
    if not is_below(path, prepared.machine.home) or not (os.path.isdir(path) or (os.path.isfile(path) and not is_cache)):
        return ""
    if credentials.is_one(path, prepared.machine.home):
        return "it is made of credentials: `ro:` shows it all the same"
    for own in (prepared.store.path, prepared.agent_home, prepared.cache):
        if is_below(own, os.path.realpath(path)) or is_below(os.path.realpath(path), own):
            return f"holds {own}"
    place = prepared.agent_home
    for part in path[len(prepared.machine.home) :].split("/"):
        place = f"{place}/{part}" if part else place
        if os.path.islink(place) or (os.path.lexists(place) and not os.path.isdir(place) and os.path.isdir(path)):
            return "the agent home has a link or a file of its own there"
    return None if _is_free(place) else "the agent home has its own"


def _is_free(place: str) -> bool:
    """Whether the agent home holds nothing at a place but what an earlier session left as a mount point."""
    try:
        with os.scandir(place) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return os.lstat(place).st_size == 0
    except OSError:
        return False
