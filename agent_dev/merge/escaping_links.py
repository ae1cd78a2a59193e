"""Symbolic links that lead out of the root, resolved as after a merge, through the agent's links and the real tree's."""

from collections.abc import Callable, Iterable

from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay import symlinks
from agent_dev.overlay.changes import Change
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.risk.risk_rules import LeavesRoot


def checker_for_changes(changes: Iterable[Change], number: int, real: Tree, base: LowerSnapshot) -> LeavesRoot:
    """Return a function that tells whether a link of a root leads out or makes an existing link lead out."""
    agent = {change.key.path: (_target(change.after),) for change in changes}
    if not any(target for (target,) in agent.values()):
        return symlinks.escapes_root
    user = link_target_reader(real)
    redirected = symlinks.redirected_links((one for one in base.links(number) if one[0] not in agent), agent, user)
    look = symlinks.combined_lookup(agent, user)
    return lambda path, target: path in redirected or symlinks.escapes_root(path, target, look)


def checker_for_links(agent: symlinks.AgentLinks, real: Tree) -> LeavesRoot:
    """Return a function that tells whether a link leads out, regardless of which commits are imported."""
    if not agent:
        return symlinks.escapes_root
    look = symlinks.combined_lookup(agent, link_target_reader(real))
    return lambda path, target: symlinks.escapes_root(path, target, look)


def link_target_reader(real: Tree) -> Callable[[bytes], bytes | None]:
    """Return a function that returns a link's target in the real tree, None for anything else."""
    known: dict[bytes, bytes | None] = {}

    def target_of(path: bytes) -> bytes | None:
        if path not in known:
            try:
                known[path] = _target(real.entry_at(path, attributes=False))
            except OSError:
                known[path] = None  # not accessible
        return known[path]

    return target_of


def _target(entry: Entry | None) -> bytes | None:
    return entry.target if entry is not None and entry.type is FileType.SYMLINK else None
