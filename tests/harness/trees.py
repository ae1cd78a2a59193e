"""Trees as values: what a root and an agent hold, what overlayfs makes of them, and the same on a real disk.

The reference here is written from the kernel's documentation (filesystems/overlayfs.rst), not from the program under test.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from agent_dev.fs import walk as scan
from agent_dev.overlay.changes import Entry, FileType, Kind
from agent_dev.overlay.interpret import Found

FILE, DIRECTORY, SYMLINK, FIFO = FileType.FILE, FileType.DIRECTORY, FileType.SYMLINK, FileType.FIFO


@dataclass(frozen=True, slots=True)
class Node:
    """One path: a file's bytes or a link's target in `content`."""

    type: FileType
    content: bytes = b""
    mode: int = 0o644


Tree = dict[bytes, Node]


@dataclass(frozen=True, slots=True)
class Mark:
    """One path of an upper: a whiteout (`node` None), or a node, maybe opaque."""

    path: bytes
    node: Node | None
    opaque: bool = False


# --- what a tree and an upper are ---


def children(tree: Mapping[bytes, Node], folder: bytes) -> list[bytes]:
    """Return the paths that lie directly in a directory; `b""` is the root."""
    return sorted(path for path in tree if path.rpartition(b"/")[0] == folder)


def below(tree: Mapping[bytes, Node], folder: bytes) -> list[bytes]:
    """Return all paths in a directory, at any depth."""
    return sorted(path for path in tree if path.startswith(folder + b"/"))


def upper_of(base: Tree, agent: Tree, noise: frozenset[bytes] = frozenset()) -> list[Mark]:
    """Return the upper that overlayfs holds once an agent has made `agent` of `base`.

    `noise`: paths that were copied up without a change; a directory among them was removed and made anew.
    """
    return _merged(base, agent, noise, b"")


def _merged(base: Tree, agent: Tree, noise: frozenset[bytes], folder: bytes) -> list[Mark]:
    marks: list[Mark] = []
    for path in sorted({*children(base, folder), *children(agent, folder)}):
        before, after = base.get(path), agent.get(path)
        if after is None:
            marks.append(Mark(path, None))
        elif before is not None and before.type is after.type is DIRECTORY:
            marks += _directory(base, agent, noise, path)
        elif before != after or path in noise:
            marks.append(Mark(path, after, opaque=after.type is DIRECTORY and before is not None))
            marks += [Mark(one, agent[one]) for one in below(agent, path)]
    return marks


def _directory(base: Tree, agent: Tree, noise: frozenset[bytes], path: bytes) -> list[Mark]:
    if path in noise:
        return [Mark(path, agent[path], opaque=True), *(Mark(one, agent[one]) for one in below(agent, path))]
    inside = _merged(base, agent, noise, path)
    return [Mark(path, agent[path]), *inside] if inside or base[path] != agent[path] else []


def differences(base: Tree, agent: Tree) -> dict[bytes, Kind]:
    """Return the paths that differ and how; a directory that came or went only when it is empty."""
    found: dict[bytes, Kind] = {}
    for path in {*base, *agent}:
        kind = _difference(base, agent, path)
        if kind is not None:
            found[path] = kind
    return found


def _difference(base: Tree, agent: Tree, path: bytes) -> Kind | None:
    before, after = base.get(path), agent.get(path)
    if before is None or after is None:
        tree, node, kind = (agent, after, Kind.ADDED) if before is None else (base, before, Kind.DELETED)
        is_told_by_others = node is not None and node.type is DIRECTORY and bool(children(tree, path))
        return None if is_told_by_others else kind
    if before.type is not after.type:
        return Kind.RETYPED
    if before.content != after.content:
        return Kind.EDITED
    return Kind.METADATA if before.mode != after.mode and before.type is not SYMLINK else None


# --- as the program's values ---


def entries(tree: Tree) -> dict[bytes, Entry]:
    """Return a tree as a scan of it would."""
    return {path: entry(node) for path, node in tree.items()}


def entry(node: Node) -> Entry:
    """Return one node as a scan would."""
    target = node.content if node.type is SYMLINK else b""
    return Entry(node.type, node.mode, len(node.content), target=target)


def founds(marks: list[Mark]) -> list[Found]:
    """Return an upper as a scan of it would."""
    return [_found(mark) for mark in marks]


def _found(mark: Mark) -> Found:
    if mark.node is None:
        return Found(mark.path, Entry(FileType.DEVICE, 0, links=7), device=0)
    overlay = (("opaque", b"y"),) if mark.opaque else (("origin", b"\0"),)
    return Found(mark.path, entry(mark.node), overlay=overlay)


# --- on a real disk ---


def write(folder: Path, tree: Tree) -> None:
    """Make a tree in an existing directory."""
    for path in sorted(tree):
        make(os.path.join(os.fsencode(folder), path), tree[path])


def make(place: bytes, node: Node) -> None:
    """Make one node where nothing is."""
    match node.type:
        case FileType.FILE:
            with open(place, "xb") as file:
                file.write(node.content)
        case FileType.DIRECTORY:
            os.mkdir(place)
        case FileType.SYMLINK:
            os.symlink(node.content, place)
            return
        case _:
            os.mkfifo(place)
    os.chmod(place, node.mode)


def write_upper(folder: Path, marks: list[Mark]) -> None:
    """Make an upper in an existing directory, with the very marks that overlayfs leaves."""
    for mark in marks:
        place = os.path.join(os.fsencode(folder), mark.path)
        if mark.node is None:
            whiteout(place)
            continue
        make(place, mark.node)
        if mark.opaque:
            os.setxattr(place, "user.overlay.opaque", b"y")


def whiteout(place: bytes | Path) -> None:
    """Make a whiteout, as anyone may."""
    os.mknod(place, stat.S_IFCHR, 0)


def read(folder: Path) -> Tree:
    """Return what a directory holds."""
    tree: Tree = {}
    top = os.fsencode(folder)
    for place, folders, files in os.walk(top):
        for name in (*folders, *files):
            full = os.path.join(place, name)
            tree[os.path.relpath(full, top)] = _node(full)
    return tree


def entry_on_disk(path: Path) -> Entry | None:
    """Return what a scan says of one path; None where nothing is."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        return scan.entry(folder, os.fsencode(path.name))
    except FileNotFoundError:
        return None
    finally:
        os.close(folder)


def _node(place: bytes) -> Node:
    status = os.lstat(place)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Node(SYMLINK, os.readlink(place), 0o777)
    if stat.S_ISDIR(status.st_mode):
        return Node(DIRECTORY, b"", mode)
    if stat.S_ISFIFO(status.st_mode):
        return Node(FIFO, b"", mode)
    if not stat.S_ISREG(status.st_mode):
        raise AssertionError(f"{place!r} is of a type that no tree holds")
    with open(place, "rb") as file:
        return Node(FILE, file.read(), mode)


# --- random ones ---

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
    for name, made in level.items():
        if isinstance(made, Node):
            tree[name] = made
        else:
            tree[name] = made[0]
            tree |= {name + b"/" + path: node for path, node in made[1].items()}
    return tree


TREES: st.SearchStrategy[Tree] = st.recursive(st.just({}), _grown, max_leaves=6)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tree, Tree, frozenset[bytes]]:
    """Draw a base, what an agent made of it (most of it is the same), and what was copied up without a change."""
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
