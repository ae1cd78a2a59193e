"""Git as the oracle of three-way merges: random texts, the same verdict, the same bytes. On memory files, no disk."""

import os
import random
import subprocess
from collections.abc import Iterator
from shutil import which

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.diff.hunks import blocks, line_end
from agent_dev.diff.merge3 import Merged, Region, Side, Source, marked, merge

pytestmark = pytest.mark.skipif(which("git") is None, reason="git, the oracle, is not installed")

SEED = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
ROUNDS = int(os.environ.get("AGENT_DEV_TEST_FUZZ", "300"))
NO_CONFIG = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CEILING_DIRECTORIES": "/"}
ENVIRON = {"PATH": os.environ["PATH"], **NO_CONFIG}
LABELS = ("-L", "mine", "-L", "base", "-L", "agent")

# Few different lines make many ways to align them; indentation and blank lines are what git's diff, not its merge, minds.
ALPHABETS: list[list[bytes]] = [
    [b"%c\n" % letter for letter in b"abcdefgh"],
    [b"a\n", b"b\n", b"\n"],
    [b"  a\n", b"a\n", b"\n", b"\tb\n", b"}\n", b"    }\n"],
    [b"a\r\n", b"b\r\n", b"\r\n", b"c\r\n"],
    [b"\xff\n", b"\x0c\n", b"q\rr\n", b"\xe2\x80\xa8\n", b"x" * 3000 + b"\n"],
]
MIXED = [b"a\r\n", b"a\n", b"b\n", b"\r\n"]


class Git:
    """`git merge-file` on three memory files."""

    def __init__(self) -> None:
        self.files = [os.memfd_create(name) for name in ("mine", "base", "agent")]

    def close(self) -> None:
        for file in self.files:
            os.close(file)

    def merge(self, base: bytes, mine: bytes, agent: bytes, *options: str) -> tuple[int, bytes]:
        """Return how many conflicts git sees, and what it writes."""
        for file, data in zip(self.files, (mine, base, agent), strict=True):
            os.ftruncate(file, 0)
            os.pwrite(file, data, 0)
        names = [f"/proc/self/fd/{file}" for file in self.files]
        words = ["git", "merge-file", "-p", *LABELS, *options, *names]
        done = subprocess.run(words, cwd="/", env=ENVIRON, pass_fds=self.files, capture_output=True, check=False)
        assert done.returncode < 128, done.stderr
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def git() -> Iterator[Git]:
    git = Git()
    yield git
    git.close()


def edited(dice: random.Random, some: list[bytes], alphabet: list[bytes]) -> list[bytes]:
    """Insert, replace and delete a few lines."""
    some = list(some)
    for _ in range(dice.randint(0, 4)):
        at, what = dice.randrange(len(some) + 1), dice.random()
        if what < 0.35:
            some.insert(at, dice.choice([*alphabet, b"X" + line_end(alphabet[0])]))
        elif what < 0.6:
            some[at : at + 1] = [dice.choice([*alphabet, b"Y" + line_end(alphabet[0])])]
        else:
            del some[at : at + dice.randint(1, 3)]
    return some


def text(dice: random.Random, some: list[bytes]) -> bytes:
    """Join lines; one time in five the last has no end."""
    whole = b"".join(some)
    return whole.removesuffix(b"\n").removesuffix(b"\r") if dice.random() < 0.2 else whole


def three(dice: random.Random, alphabet: list[bytes]) -> tuple[bytes, bytes, bytes]:
    base = [dice.choice(alphabet) for _ in range(dice.randint(0, 16))]
    return text(dice, base), text(dice, edited(dice, base, alphabet)), text(dice, edited(dice, base, alphabet))


def assert_as_git(git: Git, base: bytes, mine: bytes, agent: bytes) -> Merged:
    """The verdict is git's, and so are the bytes of a clean merge."""
    merged = merge(base, mine, agent)
    conflicts, result = git.merge(base, mine, agent)
    assert merged.is_clean == (conflicts == 0), (base, mine, agent)
    assert not merged.is_clean or merged.resolve() == result, (base, mine, agent)
    return merged


def test_random_merges_are_gits(git: Git) -> None:
    print(f"AGENT_DEV_TEST_SEED={SEED}")  # noqa: T201  (shown when it fails)
    dice = random.Random(SEED)  # noqa: S311  (texts, not secrets)
    clean = 0
    for _ in range(ROUNDS):
        merged = assert_as_git(git, *three(dice, dice.choice([*ALPHABETS, MIXED])))
        clean += merged.is_clean
    print(f"{ROUNDS} merges, {clean} of them clean")  # noqa: T201
    assert ROUNDS < 100 or ROUNDS / 4 < clean < ROUNDS * 3 / 4


def test_random_conflicts_are_gits_own_regions(git: Git) -> None:
    """Markers and every way to resolve, byte for byte, in the style that shows the base."""
    print(f"AGENT_DEV_TEST_SEED={SEED}")  # noqa: T201  (shown when it fails)
    dice = random.Random(SEED)  # noqa: S311  (texts, not secrets)
    for _ in range(ROUNDS // 3):
        base, mine, agent = three(dice, dice.choice(ALPHABETS))
        merged = merge(base, mine, agent)
        if merged.is_clean or not all(b"\n" in one for one in (base, mine, agent)):
            continue  # allowed: where one text has no line end, git's markers end in LF whatever the others do
        count = len(merged.conflicts)
        assert git.merge(base, mine, agent, "--diff3") == (count, marked(merged, b"mine", b"agent", b"base"))
        assert git.merge(base, mine, agent, "--diff3", "--ours")[1] == merged.resolve([Side.MINE] * count)
        assert git.merge(base, mine, agent, "--diff3", "--theirs")[1] == merged.resolve([Side.AGENT] * count)
        union = merged.resolve([Side.BOTH] * count)
        if ends_with_mine_alone(merged):  # allowed: git ends my last line although nothing comes behind it
            union += merged.line_end
        assert git.merge(base, mine, agent, "--diff3", "--union")[1] == union


def ends_with_mine_alone(merged: Merged) -> bool:
    last = merged.conflicts[-1]
    return merged.regions[-1] is last and not last.agent and bool(last.mine) and not last.mine.endswith(b"\n")


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b" a\n", b"\xff\n"]), max_size=12)


@settings(max_examples=min(ROUNDS, 150), deadline=None)
@given(LINES, LINES, LINES)
def test_unrelated_texts_merge_as_git_does(base: list[bytes], mine: list[bytes], agent: list[bytes]) -> None:
    git = Git()
    try:
        assert_as_git(git, b"".join(base), b"".join(mine), b"".join(agent))
    finally:
        git.close()


@pytest.mark.parametrize(
    ("mine", "agent", "is_clean"),
    [
        (b"A\nb\nc\nd\n", b"a\nb\nC\nd\n", True),  # one line between
        (b"A\nb\nc\nd\n", b"a\nB\nc\nd\n", False),  # neighbours
        (b"x\na\nb\nc\nd\n", b"A\nb\nc\nd\n", False),  # before the very line
        (b"a\nx\nb\nc\nd\n", b"a\nb\ny\nc\nd\n", True),  # a line between two insertions
        (b"a\nx\nb\nc\nd\n", b"a\ny\nb\nc\nd\n", False),  # two insertions at one place
        (b"a\nx\nb\nc\nd\n", b"a\nc\nd\n", False),  # an insertion beside a deletion
        (b"a\nd\n", b"a\nc\nd\n", False),  # a deletion within a deletion
        (b"a\nb\nc\nd", b"A\nb\nc\nd\n", True),  # the last line end, far away
    ],
)
def test_touching_edits_are_as_git_has_them(git: Git, mine: bytes, agent: bytes, *, is_clean: bool) -> None:
    assert assert_as_git(git, b"a\nb\nc\nd\n", mine, agent).is_clean is is_clean


def test_a_diff_for_people_would_merge_what_git_calls_a_conflict(git: Git) -> None:
    """Why the merge compares without sliding blocks to where indentation says."""
    base, mine, agent = b"a\n}\n", b"a\n", b"a\n\na\n}\n"
    assert blocks(base, agent) != blocks(base, agent, slide=False)
    assert_as_git(git, base, mine, agent)


def test_git_cuts_common_lines_out_of_a_conflict_and_we_do_not(git: Git) -> None:
    base, mine, agent = b"a\n", b"x\ny\n1\n2\n3\n4\n5\nm\n", b"x\ny\n1\n2\n3\n4\n5\nn\n"
    assert git.merge(base, mine, agent)[1].startswith(b"x\ny\n")
    assert marked(merge(base, mine, agent), b"mine", b"agent").startswith(b"<<<<<<< mine\nx\ny\n")


def test_what_git_refuses_as_binary_is_merged(git: Git) -> None:
    assert git.files
    merged = merge(b"\0\nb\nc\n", b"\0\0\nb\nc\n", b"\0\nb\nC\n")
    assert merged.regions == (Region(Source.MINE, b"\0\0\n"), Region(Source.STABLE, b"b\n"), Region(Source.AGENT, b"C\n"))
