"""Plan a restore: the nodes of a checkpoint, the differences of two, and the steps from one to the other."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from agent_dev.quick_dataclass import dataclass

DIRECTORY, FILE, SYMLINK, FIFO, SOCKET, WHITEOUT = "dir", "file", "symlink", "fifo", "socket", "whiteout"
OPAQUE = "user.overlay.opaque"
_OVERLAY, _ESCAPED = "user.overlay.", "user.overlay.overlay."


class Node(NamedTuple):
    """One path of an upper. A named tuple, since each checkpoint reads and writes tens of thousands of them.

    `path`: as os.fsdecode returns it, `""` for the root; `content`: a file's SHA-256 in hex, a link's target, empty for an
    unreadable file; times in ns; `ctime` 0: too recent to detect a change by it; `attributes`: `name=hex,…`, sorted.
    """

    path: str
    kind: str
    mode: int
    size: int
    mtime: int
    owner: int
    group: int
    content: str
    attributes: str
    inode: int
    links: int
    ctime: int

    @property
    def state(self) -> tuple[object, ...]:
        """The fields that a restore sets: all but the time for a directory, the target for a link, the type for a whiteout."""
        if self.kind == WHITEOUT:
            return (self.kind,)
        if self.kind == SYMLINK:
            return (self.kind, self.content, self.owner, self.group)
        metadata = (self.kind, self.mode, self.owner, self.group, self.attributes)
        return (*metadata, self.content, self.mtime) if self.kind == FILE else metadata

    @property
    def is_opaque(self) -> bool:
        """Return whether this directory hides the lower one."""
        return self.kind == DIRECTORY and OPAQUE in self.attributes


Table = Mapping[str, Node]


def changed_paths(before: Table, after: Table) -> tuple[str, ...]:
    """Return the paths that differ between two checkpoints, sorted."""
    found = [path for path, node in after.items() if (was := before.get(path)) is not node and _differ(was, node)]
    found += [path for path in before if path not in after]
    return tuple(sorted(found))


def is_git_path(path: str) -> bool:
    """Return whether a path is in the agent's git directory. Outside the first root, paths begin with the name of their tree."""
    tree, colon, below = path.partition(":")
    kind, _, number = tree.partition("-")
    is_tree = bool(colon) and number.isdigit()
    inside = below if is_tree and kind == "root" else path
    return (is_tree and kind == "git") or inside == ".git" or inside.startswith(".git/")


def _differ(before: Node | None, after: Node) -> bool:
    return before is None or before.state != after.state


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The steps from one state of a tree to another.

    `removed`: deepest first. `created`: parents first; they replace anything but a directory.
    `updated_directories`: directories whose mode, owner or attributes are set at the end, deepest first.
    `hard_links`: for a created file the earlier path to hard-link it to.
    """

    removed: tuple[str, ...]
    created: tuple[Node, ...]
    updated_directories: tuple[Node, ...]
    hard_links: Mapping[str, str]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is changed, sorted."""
        return tuple(
            sorted({*self.removed, *(node.path for node in self.created), *(node.path for node in self.updated_directories)})
        )


def plan_restore(current: Table, wanted: Table) -> RestorePlan:
    """Return the steps from `current` to `wanted`; both are whole trees or the same part of both."""
    old_links, new_links = _hard_links(current), _hard_links(wanted)
    removed = [path for path, node in current.items() if _is_removed(node, wanted.get(path))]
    removed_paths, created, updated = frozenset(removed), [], []
    for path in sorted(_unlike(current, wanted, old_links, new_links)):
        node, before = wanted[path], None if path in removed_paths else current.get(path)
        kept_links = frozenset(link for link in old_links.get(path, ()) if link in wanted)
        is_same = before is not None and before.state == node.state
        if node.kind == DIRECTORY:
            if before is None:
                created.append(node)
            if not is_same:
                updated.append(node)
        elif not is_same or _if_several(kept_links) != new_links.get(path, frozenset()):
            created.append(node)
    created_paths = {node.path for node in created}
    return RestorePlan(
        tuple(sorted(removed, reverse=True)), tuple(created), tuple(reversed(updated)), _link_targets(new_links, created_paths)
    )


def _is_removed(node: Node, after: Node | None) -> bool:
    return after is None or (after.kind != node.kind and DIRECTORY in (after.kind, node.kind))


def _unlike(current: Table, wanted: Table, *links: Mapping[str, frozenset[str]]) -> set[str]:
    """Return the paths to examine: those whose nodes differ, and those with hard links, which a node does not show."""
    found = {path for path, node in wanted.items() if current.get(path) != node}
    return found.union(*links) & wanted.keys()


def _if_several(paths: frozenset[str]) -> frozenset[str]:
    return paths if len(paths) > 1 else frozenset()


def _hard_links(table: Table) -> dict[str, frozenset[str]]:
    """Return all names of each file that has several names here."""
    names: dict[int, list[str]] = {}
    for node in [node for node in table.values() if node.links > 1 and node.kind == FILE]:
        names.setdefault(node.inode, []).append(node.path)
    return {path: frozenset(paths) for paths in names.values() if len(paths) > 1 for path in paths}


def _link_targets(links: Mapping[str, frozenset[str]], made: set[str]) -> dict[str, str]:
    """Map each created name of a file with several names to the first of them, except the first itself."""
    found = {}
    for path in made:
        names = links.get(path)
        first = min(names) if names else path
        if first != path:
            found[path] = first
    return found


def select_below(table: Table, paths: Iterable[str]) -> dict[str, Node]:
    """Return the nodes at some paths and below; everything without paths."""
    wanted = tuple(paths)
    if not wanted or "" in wanted:
        return dict(table)
    return {path: node for path, node in table.items() if is_within(path, wanted)}


def is_within(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is one of some folders or below one."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def select_with_parents(current: Table, wanted: Table, paths: Iterable[str]) -> tuple[dict[str, Node], dict[str, Node]]:
    """Return the parts of two states at some paths, with the directories above them whose type differs."""
    named = tuple(paths)
    now, target = select_below(current, named), select_below(wanted, named)
    for path in named:
        for folder in parent_paths(path):
            before, after = current.get(folder), wanted.get(folder)
            if after is not None and folder not in target and (before is None or before.kind != after.kind):
                target[folder] = after
                if before is not None:
                    now[folder] = before
    return now, target


def keep_paths(current: Table, wanted: Table, paths: Iterable[str]) -> dict[str, Node]:
    """Return the wanted state, except at some paths, which stay as they are with the directories above them."""
    kept_paths = tuple(paths)
    if "" in kept_paths:
        return dict(current)
    found = {path: node for path, node in wanted.items() if not is_within(path, kept_paths)}
    if kept_paths:
        found.update(select_below(current, kept_paths))
    for path in kept_paths:
        for folder in parent_paths(path) if path in current else ():
            if folder in current and (folder not in found or found[folder].kind != DIRECTORY):
                found[folder] = current[folder]
    return found


def parent_paths(path: str) -> list[str]:
    """Return the directories above a path, outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def add_restored(current: Table, restored: Table, lower: Callable[[str], Node | None], *, is_upper: bool) -> dict[str, Node]:
    """Return a state with some files restored and the directories above them; `is_upper`: in the form of an upper.

    There, a directory in place of an entry that hid the lower one is opaque, so that nothing else reappears with it.
    """
    wanted = {**current, **restored}
    for path in restored:
        for folder in parent_paths(path):
            node = wanted.get(folder)
            if node is None or node.kind != DIRECTORY:
                was, owner = lower(folder), restored[path]
                directory = Node(folder, DIRECTORY, 0o755, 0, 0, owner.owner, owner.group, "", "", 0, 1, 0)
                directory = was if was is not None and was.kind == DIRECTORY else directory
                wanted[folder] = directory._replace(attributes=f"{OPAQUE}=79") if is_upper and node is not None else directory
    return wanted


# The view through the overlay


def hidden_roots(one: Table, other: Table) -> tuple[str, ...]:
    """Return the outermost paths at which only one of the states hides the lower layer."""
    found = sorted(path for path in {*one, *other} if path and _hides(one.get(path)) != _hides(other.get(path)))
    outermost: list[str] = []
    for path in found:
        if not outermost or not path.startswith(outermost[-1] + "/"):
            outermost.append(path)
    return tuple(outermost)


def _hides(node: Node | None) -> bool:
    return node is not None and (node.kind != DIRECTORY or node.is_opaque)


def visible_nodes(upper: Table, lower: Callable[[str], Node | None], area: Iterable[str]) -> dict[str, Node]:
    """Return the nodes that an upper shows at some paths. `lower` returns the node of the lower layer at a path."""
    found = {}
    hides = _AncestorCheck(lambda folder: _hides(upper.get(folder)))
    for path in area:
        node = upper.get(path)
        if node is None and not hides(path):
            node = lower(path)
        if node is not None and node.kind != WHITEOUT:
            found[path] = node._replace(attributes=_unescaped(node.attributes)) if _OVERLAY in node.attributes else node
    below = _AncestorCheck(lambda folder: not _is_folder(found.get(folder)))
    return {path: node for path, node in found.items() if not below(path)}


def _unescaped(attributes: str) -> str:
    """Return attributes as shown by the mount: the overlay's own removed, the agent's escaped ones restored."""
    kept_paths = [one for one in attributes.split(",") if not one.startswith(_OVERLAY) or one.startswith(_ESCAPED)]
    return ",".join(sorted(_OVERLAY + one[len(_ESCAPED) :] if one.startswith(_ESCAPED) else one for one in kept_paths))


def _is_folder(node: Node | None) -> bool:
    return node is None or node.kind == DIRECTORY


def is_hidden(path: str, upper: Table) -> bool:
    """Return whether a path without a node of its own is hidden by a directory above it."""
    return _AncestorCheck(lambda folder: _hides(upper.get(folder)))(path)


class _AncestorCheck:
    """Check a predicate on the directories above a path; results are cached, since trees may be deep."""

    def __init__(self, predicate: Callable[[str], bool]) -> None:
        self._predicate = predicate
        self._known = {"": False}

    def __call__(self, path: str) -> bool:
        unknown = []
        folder = path.rpartition("/")[0]
        while folder not in self._known:
            unknown.append(folder)
            folder = folder.rpartition("/")[0]
        found = self._known[folder]
        for one in reversed(unknown):
            found = self._known[one] = found or self._predicate(one)
        return found
