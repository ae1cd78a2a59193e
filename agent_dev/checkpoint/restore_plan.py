"""What a checkpoint holds, what changed between two, and what must be done to be at one again."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

DIRECTORY, FILE, SYMLINK, FIFO, SOCKET, WHITEOUT = "dir", "file", "symlink", "fifo", "socket", "whiteout"
OPAQUE = "user.overlay.opaque"
_OVERLAY, _ESCAPED = "user.overlay.", "user.overlay.overlay."
MINUTE = 60 * 10**9  # ns
PROTECTED = 3  # newest checkpoints that no retention lets go
_LONG_GAP = 288  # intervals: past that what lies before belongs to another day's work


class Node(NamedTuple):
    """One path of an upper. A named tuple, since ten thousand of them are read and written for each checkpoint.

    `path` as os.fsdecode gives it, `""` the root; `content` a file's SHA-256 in hex, a link's target, or empty for a file that
    could not be read; times in ns; `ctime` 0: too young to tell a change by it; `attributes` as `name=hex,…`, sorted.
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
        """What a restore brings back of it: of a directory all but its time, of a link its target, of a whiteout that it is."""
        if self.kind == WHITEOUT:
            return (self.kind,)
        if self.kind == SYMLINK:
            return (self.kind, self.content, self.owner, self.group)
        metadata = (self.kind, self.mode, self.owner, self.group, self.attributes)
        return (*metadata, self.content, self.mtime) if self.kind == FILE else metadata

    @property
    def is_opaque(self) -> bool:
        """Whether this directory hides the lower one."""
        return self.kind == DIRECTORY and OPAQUE in self.attributes


Table = Mapping[str, Node]


def changed(before: Table, after: Table) -> tuple[str, ...]:
    """Return the paths that differ between two checkpoints, sorted."""
    found = [path for path, node in after.items() if (was := before.get(path)) is not node and _differ(was, node)]
    found += [path for path in before if path not in after]
    return tuple(sorted(found))


def _differ(before: Node | None, after: Node) -> bool:
    return before is None or before.state != after.state


@dataclass(frozen=True, slots=True)
class Restore:
    """What brings a tree from one state to another.

    `removed`: deepest first. `made`: parents first; what stands there and is no directory is replaced. `settled`: directories
    whose mode, owner or attributes are set at the end, deepest first. `twins`: for a made file the path that it is a hard link
    to, made before it.
    """

    removed: tuple[str, ...]
    made: tuple[Node, ...]
    settled: tuple[Node, ...]
    twins: Mapping[str, str]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is touched, sorted."""
        return tuple(sorted({*self.removed, *(node.path for node in self.made), *(node.path for node in self.settled)}))


def restoring(current: Table, wanted: Table) -> Restore:
    """Return what makes `wanted` of `current`; both whole trees, or the same part of both."""
    were, will = _twins(current), _twins(wanted)
    removed = [path for path, node in current.items() if _must_go(node, wanted.get(path))]
    gone, made, settled = frozenset(removed), [], []
    for path in sorted(_unlike(current, wanted, were, will)):
        node, before = wanted[path], None if path in gone else current.get(path)
        stayed = frozenset(twin for twin in were.get(path, ()) if twin in wanted)
        is_same = before is not None and before.state == node.state
        if node.kind == DIRECTORY:
            if before is None:
                made.append(node)
            if not is_same:
                settled.append(node)
        elif not is_same or _real_twins(stayed) != will.get(path, frozenset()):
            made.append(node)
    again = {node.path for node in made}
    return Restore(tuple(sorted(removed, reverse=True)), tuple(made), tuple(reversed(settled)), _firsts(will, again))


def _must_go(node: Node, after: Node | None) -> bool:
    return after is None or (after.kind != node.kind and DIRECTORY in (after.kind, node.kind))


def _unlike(current: Table, wanted: Table, *twins: Mapping[str, frozenset[str]]) -> set[str]:
    """Return the paths to look at: of ten thousand nearly all are the same to the last field, and of those one name is all."""
    found = {path for path, node in wanted.items() if current.get(path) != node}
    return found.union(*twins) & wanted.keys()


def _real_twins(paths: frozenset[str]) -> frozenset[str]:
    return paths if len(paths) > 1 else frozenset()


def _twins(table: Table) -> dict[str, frozenset[str]]:
    """Return for each file that has other names here all of its names."""
    names: dict[int, list[str]] = {}
    for node in [node for node in table.values() if node.links > 1 and node.kind == FILE]:
        names.setdefault(node.inode, []).append(node.path)
    return {path: frozenset(paths) for paths in names.values() if len(paths) > 1 for path in paths}


def _firsts(twins: Mapping[str, frozenset[str]], made: set[str]) -> dict[str, str]:
    """Return for each made file with other names the first of them, but for that one itself."""
    found = {}
    for path in made:
        names = twins.get(path)
        first = min(names) if names else path
        if first != path:
            found[path] = first
    return found


def within(table: Table, paths: Iterable[str]) -> dict[str, Node]:
    """Return what lies at some paths and below them; without paths everything."""
    wanted = tuple(paths)
    if not wanted or "" in wanted:
        return dict(table)
    return {path: node for path, node in table.items() if is_within(path, wanted)}


def is_within(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a path is one of some, or lies below one."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def with_parents(current: Table, wanted: Table, paths: Iterable[str]) -> tuple[dict[str, Node], dict[str, Node]]:
    """Return the part of two states that concerns some paths, with the directories above where those differ in kind."""
    named = tuple(paths)
    now, then = within(current, named), within(wanted, named)
    for path in named:
        for folder in parents(path):
            before, after = current.get(folder), wanted.get(folder)
            if after is not None and folder not in then and (before is None or before.kind != after.kind):
                then[folder] = after
                if before is not None:
                    now[folder] = before
    return now, then


def keeping(current: Table, wanted: Table, paths: Iterable[str]) -> dict[str, Node]:
    """Return a state that is wanted but at some paths, where all stays as it is, with the directories that lead there."""
    kept = tuple(paths)
    if "" in kept:
        return dict(current)
    found = {path: node for path, node in wanted.items() if not is_within(path, kept)}
    if kept:
        found.update(within(current, kept))
    for path in kept:
        for folder in parents(path) if path in current else ():
            if folder in current and (folder not in found or found[folder].kind != DIRECTORY):
                found[folder] = current[folder]
    return found


def parents(path: str) -> list[str]:
    """Return the directories a path lies in, outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def with_back(current: Table, brought: Table, lower: Callable[[str], Node | None], *, is_upper: bool) -> dict[str, Node]:
    """Return a state with some files brought back, and the directories above them; `is_upper`: as an upper has to say it.

    There a directory that comes to stand where something hid the lower one is opaque, so that nothing else comes back with it.
    """
    wanted = {**current, **brought}
    for path in brought:
        for folder in parents(path):
            node = wanted.get(folder)
            if node is None or node.kind != DIRECTORY:
                was, owner = lower(folder), brought[path]
                made = Node(folder, DIRECTORY, 0o755, 0, 0, owner.owner, owner.group, "", "", 0, 1, 0)
                made = was if was is not None and was.kind == DIRECTORY else made
                wanted[folder] = made._replace(attributes=f"{OPAQUE}=79") if is_upper and node is not None else made
    return wanted


# What is seen through the overlay


def hidden(one: Table, other: Table) -> tuple[str, ...]:
    """Return the outermost paths at which one state alone hides what lies below: their lower part decides what is seen."""
    found = sorted(path for path in {*one, *other} if path and _hides(one.get(path)) != _hides(other.get(path)))
    outer: list[str] = []
    for path in found:
        if not outer or not path.startswith(outer[-1] + "/"):
            outer.append(path)
    return tuple(outer)


def _hides(node: Node | None) -> bool:
    return node is not None and (node.kind != DIRECTORY or node.is_opaque)


def seen(upper: Table, lower: Callable[[str], Node | None], area: Iterable[str]) -> dict[str, Node]:
    """Return what an upper shows at some paths. `lower` tells what lies below the overlay at a path."""
    found = {}
    hides = _Below(lambda folder: _hides(upper.get(folder)))
    for path in area:
        node = upper.get(path)
        if node is None and not hides(path):
            node = lower(path)
        if node is not None and node.kind != WHITEOUT:
            found[path] = node._replace(attributes=_unescaped(node.attributes)) if _OVERLAY in node.attributes else node
    below = _Below(lambda folder: not _is_folder(found.get(folder)))
    return {path: node for path, node in found.items() if not below(path)}


def _unescaped(attributes: str) -> str:
    """Return attributes as they show through the mount: the overlay's own hidden, the agent's of that name under it again."""
    kept = [one for one in attributes.split(",") if not one.startswith(_OVERLAY) or one.startswith(_ESCAPED)]
    return ",".join(sorted(_OVERLAY + one[len(_ESCAPED) :] if one.startswith(_ESCAPED) else one for one in kept))


def _is_folder(node: Node | None) -> bool:
    return node is None or node.kind == DIRECTORY


def is_hidden(path: str, upper: Table) -> bool:
    """Whether a path without a node of its own is hidden by something above it."""
    return _Below(lambda folder: _hides(upper.get(folder)))(path)


class _Below:
    """Whether something is so of a directory above a path; each directory is asked about once, for a tree may be deep."""

    def __init__(self, is_so: Callable[[str], bool]) -> None:
        self._is_so = is_so
        self._known = {"": False}

    def __call__(self, path: str) -> bool:
        unknown = []
        folder = path.rpartition("/")[0]
        while folder not in self._known:
            unknown.append(folder)
            folder = folder.rpartition("/")[0]
        found = self._known[folder]
        for one in reversed(unknown):
            found = self._known[one] = found or self._is_so(one)
        return found


# Retention


@dataclass(frozen=True, slots=True)
class Keep:
    """How much history is kept: at most so many checkpoints, none older than, none beyond so many bytes. 0: no bound."""

    number: int = 50
    age: int = 0  # ns
    size: int = 0  # bytes

    @staticmethod
    def of(number: int, days: int, mib: int) -> "Keep":
        """Return the bounds that config.yaml has as numbers of checkpoints, of days and of MiB."""
        return Keep(number, days * 24 * 60 * MINUTE, mib << 20)


@dataclass(frozen=True, slots=True)
class Held:
    """A checkpoint as retention sees it: its number, its time in ns, and the bytes that only it and older ones hold.

    `is_asked`: the user asked for it.
    """

    number: int
    time: int
    size: int
    is_asked: bool = False


def thinned(held: tuple[Held, ...], now: int, interval: int, keep: Keep) -> tuple[int, ...]:
    """Return the numbers that go, in the order of their going; `held` oldest first. The newest three never do.

    Age lets the oldest go. Size does too, but what the user asked for last: however many the agent has taken, it stays. Past the
    number, the young stay dense and the old get sparse: in each doubling of the age (in intervals) some are let stay, and of the
    most crowded doubling the one goes that leaves the smallest gap; what the user asked for is last here as well.
    """
    left, gone = list(held), []
    while len(left) > PROTECTED and keep.age and left[0].time < now - keep.age:
        gone.append(left.pop(0).number)
    while len(left) > PROTECTED and keep.size and sum(one.size for one in left) > keep.size:
        gone.append(left.pop(_free(left)[0]).number)
    while keep.number and len(left) > max(keep.number, PROTECTED):
        gone.append(left.pop(_next(left, now, max(1, interval))).number)
    return tuple(gone)


def _free(left: list[Held]) -> list[int]:
    """Return the places of those that may go, oldest first."""
    places = range(len(left) - PROTECTED)
    return [at for at in places if not left[at].is_asked] or list(places)


def _next(left: list[Held], now: int, interval: int) -> int:
    free = _free(left)
    if any(left[at + 1].time - left[at].time > _LONG_GAP * interval for at in free):
        return free[0]
    crowd: dict[int, list[int]] = {}
    for at in free:
        crowd.setdefault(max(1, (now - left[at].time) // interval).bit_length() - 1, []).append(at)
    _, bucket = max((len(members) - _target(bucket), bucket) for bucket, members in crowd.items())
    return min(crowd[bucket], key=lambda at: (_gap(left, at), at))


def _target(bucket: int) -> int:
    return max(1, 3 - bucket)


def _gap(left: list[Held], at: int) -> int:
    """Return the gap there is when one goes; the oldest leaves none, so that its own distance counts."""
    return left[at + 1].time - left[max(0, at - 1)].time
