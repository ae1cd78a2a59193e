"""Find symbolic links of a merged tree that lead out of the root or into a git directory, by a table of its links.

The user may select only some of the agent's changes, so a path that the agent changed may have either side's entry.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from agent_dev.path_patterns import fold_path

MAX_LINKS = 40  # the kernel's MAXSYMLINKS
_MAX_STEPS = 10_000  # beyond that, a link counts as leading out

# The possible entries at a path: a link's target, None for anything else or no entry.
LookUpLinks = Callable[[bytes], Iterable[bytes | None]]
AgentLinks = Mapping[bytes, Collection[bytes | None]]  # the same for the agent's entries, at the paths that it changed
_NO_LINK = (None,)
_Names = tuple[bytes, ...]


def no_links(_path: bytes) -> Iterable[bytes | None]:
    """Return no link for any path."""
    return _NO_LINK


def combined_lookup(agent: AgentLinks, user: Callable[[bytes], bytes | None]) -> LookUpLinks:
    """Return a lookup of the possible entries at each path: the agent's and the user's."""

    def look(path: bytes) -> Iterable[bytes | None]:
        return {*agent[path], user(path)} if path in agent else (user(path),)

    return look


def escapes_root(path: bytes, target: bytes, look: LookUpLinks = no_links) -> bool:
    """Return whether a link may lead out of the root, to an absolute path or into a git directory."""
    return bool(_escaping_trail(path, target, look))


def redirected_links(
    existing: Iterable[tuple[bytes, bytes]], agent: AgentLinks, user: Callable[[bytes], bytes | None]
) -> frozenset[bytes]:
    """Return the agent's links that make an existing link of the user lead out."""
    links = frozenset(path for path, targets in agent.items() if set(targets) - {None})
    found: set[bytes] = set()
    with_agent = combined_lookup(agent, user)
    for path, target in existing if links else ():
        trail = _escaping_trail(path, target, with_agent) & links
        if trail and not _escaping_trail(path, target, combined_lookup({}, user)):
            found |= trail
    return frozenset(found)


def _escaping_trail(path: bytes, target: bytes, look: LookUpLinks) -> frozenset[bytes]:
    """Return the links, including this one, through which a link leads out; empty if it does not.

    Each combination of the agent's and the user's entries is followed separately.
    """
    resolver = _Resolver(look)
    if not resolver.add(tuple(path.split(b"/")[:-1]), target, (), (path,)):
        return frozenset((path,))
    while resolver.pending:
        trail = resolver.follow(*resolver.pending.pop())
        if trail:
            return frozenset(trail)
    return frozenset()


class _Resolver:
    """Unfinished path resolutions: for each, the current directory, the remaining names, and the links followed so far."""

    def __init__(self, look: LookUpLinks) -> None:
        self.look = look
        self.pending: list[tuple[_Names, _Names, _Names]] = []
        self._seen: set[tuple[_Names, _Names]] = set()
        self._steps = 0

    def add(self, folder: _Names, target: bytes, rest: _Names, through: _Names) -> bool:
        """Add a link's target; return False for an absolute one."""
        state = (folder, (*target.split(b"/"), *rest))
        if len(through) <= MAX_LINKS + 1 and state not in self._seen:
            self._seen.add(state)
            self.pending.append((*state, through))
        return not target.startswith(b"/")

    def follow(self, folder: _Names, rest: _Names, through: _Names) -> _Names:
        """Resolve names up to the next link; return the links followed if the path leads out."""
        for at, part in enumerate(rest, 1):
            self._steps += 1
            if self._steps > _MAX_STEPS or fold_path(part) == ".git" or (part == b".." and not folder):
                return through
            if part == b"..":
                folder = folder[:-1]
            elif part not in (b"", b"."):
                here = b"/".join((*folder, part))
                targets = set(self.look(here))
                if not all(self.add(folder, target, rest[at:], (*through, here)) for target in targets if target is not None):
                    return (*through, here)
                if None not in targets:
                    return ()
                folder = (*folder, part)
        return ()
