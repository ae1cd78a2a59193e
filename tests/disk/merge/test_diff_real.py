"""Git applies the patch of random changes to a real directory tree and gets the changed tree."""

import random
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.disk.merge.test_diff_law import applied, seen, written
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

MOST = 150  # files in a sampled tree
LARGEST = 200_000
PACKAGES = Path(sysconfig.get_path("purelib"))
PLACES = [
    *(PACKAGES / name for name in ("pip", "textual")),
    *map(Path, ("/usr/lib/node_modules/npm", "/usr/share/perl5", "/usr/share/zoneinfo", "/usr/share/terminfo")),
]
HERE = [place for place in PLACES if any(path.is_file() for path in place.rglob("*"))]
# Replacements for lines.
NEW_LINES: list[list[bytes]] = [[], [b"new"], [b"twice"] * 2, [b"\x1b[1m"], [b"caf\xe9"], [b"a\rb"]]
ENDS = [b".new", b" 2", b"\xff", "ü".encode()]


def sample(place: Path, chance: random.Random) -> Tree:
    """Return a sample of the files and links of a real tree, with their parent directories."""
    every = sorted(place.rglob("*"))
    paths = [path for path in every if path.is_symlink() or (path.is_file() and path.stat().st_size <= LARGEST)]
    tree: Tree = {}
    for path in chance.sample(paths, min(MOST, len(paths))):
        name = bytes(path.relative_to(place))
        if path.is_symlink():
            tree[name] = Node(SYMLINK, bytes(path.readlink()), 0o777)
        else:
            tree[name] = Node(FILE, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
        for folder in path.relative_to(place).parents[:-1]:
            tree[bytes(folder)] = Node(DIRECTORY, b"", 0o755)
    return tree


def edited(data: bytes, chance: random.Random) -> bytes:
    """Replace or insert a few random lines."""
    lines = data.split(b"\n")
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(lines))
        lines[at : at + chance.randint(0, 3)] = chance.choice(NEW_LINES)
        lines = lines or [b""]
    return b"\n".join(lines)


WAYS: dict[str, Callable[[Node, random.Random], Node]] = {
    "edit": lambda node, chance: replace(node, content=edited(node.content, chance)),
    "line ends": lambda node, _: replace(node, content=node.content.replace(b"\n", b"\r\n")),
    "bytes": lambda node, chance: replace(node, content=node.content + chance.randbytes(300)),
    "mode": lambda node, _: replace(node, mode=node.mode ^ 0o111),
    "empty": lambda node, _: replace(node, content=b""),
    "last newline": lambda node, _: replace(node, content=node.content.rstrip(b"\n")),
    "link": lambda _, __: Node(SYMLINK, b"elsewhere", 0o777),
}


def worked_on(base: Tree, chance: random.Random) -> Tree:
    """Return a tree with random changes to half of its files."""
    agent = dict(base)
    leaves = [path for path, node in base.items() if node.type is FILE]
    for path in chance.sample(leaves, len(leaves) // 2):
        what = chance.choice([*WAYS, "edit", "edit", "delete", "rename", "rename"])
        node = agent.pop(path)
        if what == "rename":
            agent[path + chance.choice(ENDS)] = chance.choice([node, WAYS["edit"](node, chance)])
        elif what != "delete":
            agent[path] = WAYS[what](node, chance)
    return {path: node for path, node in agent.items() if node.type is not DIRECTORY or trees.below(agent, path)}


@pytest.mark.parametrize("place", HERE, ids=str)
def test_git_applies_the_patch_of_changes_to_a_real_tree(tmp_path: Path, place: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)  # noqa: S311  (no secret)
    base = sample(place, chance)
    agent = worked_on(base, chance)
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as one:
        text, _ = written(one)
    assert applied(tmp_path, base, text, "apply", "--whitespace=nowarn", "--index") == seen(agent)
    assert applied(tmp_path, agent, text, "apply", "--whitespace=nowarn", "-R") == seen(base)
