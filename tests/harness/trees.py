"""Trees as values: the trees of a root and an agent, the upper layer that overlayfs makes of them, and both on a real disk.

The reference model follows the kernel's documentation (filesystems/overlayfs.rst), not the program under test.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from agent_dev.fs import walk
from agent_dev.fs.entry import Entry, FileType, WalkedEntry
from agent_dev.overlay.changes import ChangeKind

FILE, DIRECTORY, SYMLINK, FIFO = FileType.FILE, FileType.DIRECTORY, FileType.SYMLINK, FileType.FIFO


@dataclass(frozen=True, slots=True)
class Node:
    """A path: a file's bytes or a symlink's target in `content`."""

    type: FileType
    content: bytes = b""
    mode: int = 0o644


Tree = dict[bytes, Node]


@dataclass(frozen=True, slots=True)
class UpperEntry:
    """A path of an upper layer: a whiteout (`node` None), or a node, possibly opaque."""

    path: bytes
    node: Node | None
    opaque: bool = False


# --- trees and upper layers ---


def children(tree: Mapping[bytes, Node], folder: bytes) -> list[bytes]:
    """Return the direct children of a directory; `b""` is the root."""
    return sorted(path for path in tree if path.rpartition(b"/")[0] == folder)


def below(tree: Mapping[bytes, Node], folder: bytes) -> list[bytes]:
    """Return all paths below a directory."""
    return sorted(path for path in tree if path.startswith(folder + b"/"))


def upper_of(base: Tree, agent: Tree, noise: frozenset[bytes] = frozenset()) -> list[UpperEntry]:
    """Return the upper layer after an agent has turned `base` into `agent`.

    `noise`: paths that were copied up without a change; a directory among them was removed and recreated.
    """
    return _merged(base, agent, noise, b"")


def _merged(base: Tree, agent: Tree, noise: frozenset[bytes], folder: bytes) -> list[UpperEntry]:
    marks: list[UpperEntry] = []
    for path in sorted({*children(base, folder), *children(agent, folder)}):
        before, after = base.get(path), agent.get(path)
        if after is None:
            marks.append(UpperEntry(path, None))
        elif before is not None and before.type is after.type is DIRECTORY:
            marks += _directory(base, agent, noise, path)
        elif before != after or path in noise:
            marks.append(UpperEntry(path, after, opaque=after.type is DIRECTORY and before is not None))
            marks += [UpperEntry(one, agent[one]) for one in below(agent, path)]
    return marks


def _directory(base: Tree, agent: Tree, noise: frozenset[bytes], path: bytes) -> list[UpperEntry]:
    if path in noise:
        return [UpperEntry(path, agent[path], opaque=True), *(UpperEntry(one, agent[one]) for one in below(agent, path))]
    inside = _merged(base, agent, noise, path)
    return [UpperEntry(path, agent[path]), *inside] if inside or base[path] != agent[path] else []


def differences(base: Tree, agent: Tree) -> dict[bytes, ChangeKind]:
    """Return the paths that differ and their kinds; an added or deleted directory only if it is empty."""
    found: dict[bytes, ChangeKind] = {}
    for path in {*base, *agent}:
        kind = _difference(base, agent, path)
        if kind is not None:
            found[path] = kind
    return found


def _difference(base: Tree, agent: Tree, path: bytes) -> ChangeKind | None:
    before, after = base.get(path), agent.get(path)
    if before is None or after is None:
        tree, node, kind = (agent, after, ChangeKind.ADDED) if before is None else (base, before, ChangeKind.DELETED)
        is_reported_by_others = node is not None and node.type is DIRECTORY and bool(children(tree, path))
        return None if is_reported_by_others else kind
    if before.type is not after.type:
        return ChangeKind.RETYPED
    if before.content != after.content:
        return ChangeKind.EDITED
    return ChangeKind.METADATA if before.mode != after.mode and before.type is not SYMLINK else None


# --- as the program's values ---


def entries(tree: Tree) -> dict[bytes, Entry]:
    """Return a tree as a scan would."""
    return {path: entry(node) for path, node in tree.items()}


def entry(node: Node) -> Entry:
    """Return a node as a scan would."""
    target = node.content if node.type is SYMLINK else b""
    return Entry(node.type, node.mode, len(node.content), target=target)


def walked_entries(marks: list[UpperEntry]) -> list[WalkedEntry]:
    """Return an upper layer as a scan would."""
    return [_found(mark) for mark in marks]


def _found(mark: UpperEntry) -> WalkedEntry:
    if mark.node is None:
        return WalkedEntry(mark.path, Entry(FileType.DEVICE, 0, links=7), device=0)
    overlay = (("opaque", b"y"),) if mark.opaque else (("origin", b"\0"),)
    return WalkedEntry(mark.path, entry(mark.node), overlay=overlay)


# --- on a real disk ---


def write(folder: Path, tree: Tree) -> None:
    """Create a tree in an existing directory."""
    for path in sorted(tree):
        make_node(os.path.join(os.fsencode(folder), path), tree[path])
    _set_modes(folder, {path: node for path, node in tree.items() if node.type is FileType.DIRECTORY})


def _set_modes(folder: Path, made: dict[bytes, Node]) -> None:
    """Set the modes of directories, the deepest first: some modes deny their owner access."""
    for path in sorted(made, reverse=True):
        os.chmod(os.path.join(os.fsencode(folder), path), made[path].mode)


def make_node(path: bytes, node: Node) -> None:
    """Create a node at a free path; its owner can write to a directory until `_set_modes`."""
    match node.type:
        case FileType.FILE:
            with open(path, "xb") as file:
                file.write(node.content)
        case FileType.DIRECTORY:
            os.mkdir(path)
        case FileType.SYMLINK:
            os.symlink(node.content, path)
            return
        case _:
            os.mkfifo(path)
    os.chmod(path, node.mode | (0o700 if node.type is FileType.DIRECTORY else 0))


def write_upper(folder: Path, marks: list[UpperEntry]) -> None:
    """Create an upper layer in an existing directory, with overlayfs's own marks."""
    for mark in marks:
        path = os.path.join(os.fsencode(folder), mark.path)
        if mark.node is None:
            whiteout(path)
            continue
        make_node(path, mark.node)
        if mark.opaque:
            os.setxattr(path, "user.overlay.opaque", b"y")
    _set_modes(folder, {mark.path: mark.node for mark in marks if mark.node is not None and mark.node.type is FileType.DIRECTORY})


def whiteout(path: bytes | Path) -> None:
    """Create a whiteout, which needs no privileges."""
    os.mknod(path, stat.S_IFCHR, 0)


def read(folder: Path) -> Tree:
    """Return the content of a directory."""
    tree: Tree = {}
    top = os.fsencode(folder)
    for parent, folders, files in os.walk(top):
        for name in (*folders, *files):
            full = os.path.join(parent, name)
            tree[os.path.relpath(full, top)] = _node(full)
    return tree


def entry_on_disk(path: Path) -> Entry | None:
    """Return the scanned entry of a path; None if it does not exist."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        return walk.read_entry(folder, os.fsencode(path.name))
    except FileNotFoundError:
        return None
    finally:
        os.close(folder)


def _node(path: bytes) -> Node:
    status = os.lstat(path)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Node(SYMLINK, os.readlink(path), 0o777)
    if stat.S_ISDIR(status.st_mode):
        return Node(DIRECTORY, b"", mode)
    if stat.S_ISFIFO(status.st_mode):
        return Node(FIFO, b"", mode)
    if not stat.S_ISREG(status.st_mode):
        raise AssertionError(f"{path!r} is of a type that no tree holds")
    with open(path, "rb") as file:
        return Node(FILE, file.read(), mode)


# --- random trees ---

NAMES = st.sampled_from([b"a", b"b", b"c", b"a-", b"a0", b".wh.a", b"\n", b"\xff"])
_LEAVES = st.one_of(
    st.builds(Node, st.just(FILE), st.sampled_from([b"", b"1", b"2", b"one\n"]), st.sampled_from([0o644, 0o755, 0o600])),
    st.builds(Node, st.just(SYMLINK), st.sampled_from([b"a", b"../b", b"/etc/passwd"]), st.just(0o777)),
    st.builds(Node, st.just(FIFO), st.just(b""), st.sampled_from([0o644, 0o600])),
)
_FOLDERS = st.builds(Node, st.just(DIRECTORY), st.just(b""), st.sampled_from([0o755, 0o700]))


def _grown(deeper: "st.SearchStrategy[Tree]") -> "st.SearchStrategy[Tree]":
    return st.dictionaries(NAMES, st.one_of(_LEAVES, st.tuples(_FOLDERS, deeper)), max_size=4).map(_flat)


def _flat(level: Mapping[bytes, Node | tuple[Node, Tree]]) -> Tree:
    tree: Tree = {}
    for name, created in level.items():
        if isinstance(created, Node):
            tree[name] = created
        else:
            tree[name] = created[0]
            tree |= {name + b"/" + path: node for path, node in created[1].items()}
    return tree


TREES: st.SearchStrategy[Tree] = st.recursive(st.just({}), _grown, max_leaves=6)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tree, Tree, frozenset[bytes]]:
    """Draw a base, an agent's version of it (mostly the same), and the paths copied up without a change."""
    base, other = draw(TREES), draw(TREES)
    agent: Tree = {}
    for path in sorted({*base, *other}):
        folder = path.rpartition(b"/")[0]
        if folder and (folder not in agent or agent[folder].type is not DIRECTORY):
            continue
        side = draw(st.sampled_from((base, base, other)))
        if path in side:
            agent[path] = side[path]
    noise = draw(st.frozensets(st.sampled_from(sorted(base)))) if base else frozenset()
    return base, agent, noise
