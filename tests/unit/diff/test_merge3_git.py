"""Three-way merges of random texts give the same verdict and the same bytes as git, which reads the texts from memory files."""

import os
import random
import subprocess
from collections.abc import Iterator
from shutil import which

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_dev.diff.hunks import detect_line_end, find_hunks
from agent_dev.diff.merge3 import ConflictSide, LineMerge, MergedRegion, RegionSource, format_with_markers, merge_lines
from tests.harness.scale import repeat

pytestmark = pytest.mark.skipif(which("git") is None, reason="git, the oracle, is not installed")

SEED = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
ROUNDS = repeat(300)
NO_CONFIG = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CEILING_DIRECTORIES": "/"}
ENVIRON = {"PATH": os.environ["PATH"], **NO_CONFIG}
LABELS = ("-L", "mine", "-L", "base", "-L", "agent")

# Few distinct lines allow many alignments; git's diff, but not its merge, considers indentation and blank lines.
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

    def merge(self, base: bytes, user_side: bytes, agent: bytes, *options: str) -> tuple[int, bytes]:
        """Return git's number of conflicts and its output."""
        for file, data in zip(self.files, (user_side, base, agent), strict=True):
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
            some.insert(at, dice.choice([*alphabet, b"X" + detect_line_end(alphabet[0])]))
        elif what < 0.6:
            some[at : at + 1] = [dice.choice([*alphabet, b"Y" + detect_line_end(alphabet[0])])]
        else:
            del some[at : at + dice.randint(1, 3)]
    return some


def text(dice: random.Random, some: list[bytes]) -> bytes:
    """Join lines; one time in five, drop the final newline."""
    whole = b"".join(some)
    return whole.removesuffix(b"\n").removesuffix(b"\r") if dice.random() < 0.2 else whole


def three(dice: random.Random, alphabet: list[bytes]) -> tuple[bytes, bytes, bytes]:
    base = [dice.choice(alphabet) for _ in range(dice.randint(0, 16))]
    return text(dice, base), text(dice, edited(dice, base, alphabet)), text(dice, edited(dice, base, alphabet))


def assert_as_git(git: Git, base: bytes, user_side: bytes, agent: bytes) -> LineMerge:
    """Check that the verdict and the bytes of a clean merge equal git's; return the merge."""
    merged = merge_lines(base, user_side, agent)
    conflicts, result = git.merge(base, user_side, agent)
    assert merged.is_clean == (conflicts == 0), (base, user_side, agent)
    assert not merged.is_clean or merged.resolve() == result, (base, user_side, agent)
    return merged


def test_random_merges_equal_those_of_git(git: Git) -> None:
    print(f"AGENT_DEV_TEST_SEED={SEED}")  # noqa: T201  (shown when it fails)
    dice = random.Random(SEED)  # noqa: S311  (texts, not secrets)
    clean = 0
    for _ in range(ROUNDS):
        merged = assert_as_git(git, *three(dice, dice.choice([*ALPHABETS, MIXED])))
        clean += merged.is_clean
    print(f"{ROUNDS} merges, {clean} of them clean")  # noqa: T201
    assert ROUNDS < 100 or ROUNDS / 4 < clean < ROUNDS * 3 / 4


def test_random_conflicts_have_the_regions_of_git(git: Git) -> None:
    """Compare the conflict markers and every resolution with git byte for byte, in the diff3 style."""
    print(f"AGENT_DEV_TEST_SEED={SEED}")  # noqa: T201  (shown when it fails)
    dice = random.Random(SEED)  # noqa: S311  (texts, not secrets)
    for _ in range(ROUNDS // 3):
        base, user_side, agent = three(dice, dice.choice(ALPHABETS))
        merged = merge_lines(base, user_side, agent)
        if merged.is_clean or not all(b"\n" in one for one in (base, user_side, agent)):
            continue  # allowed: if a text has no newline at all, git's markers end in LF, whatever the other texts use
        count = len(merged.conflicts)
        assert git.merge(base, user_side, agent, "--diff3") == (count, format_with_markers(merged, b"mine", b"agent", b"base"))
        ours, theirs, union = (merged.resolve(merged.default_resolutions(side)) for side in ConflictSide)
        assert git.merge(base, user_side, agent, "--diff3", "--ours")[1] == ours
        assert git.merge(base, user_side, agent, "--diff3", "--theirs")[1] == theirs
        if ends_with_yours_alone(merged):  # allowed: git adds a newline to my last line although nothing follows
            union += merged.line_end
        assert git.merge(base, user_side, agent, "--diff3", "--union")[1] == union


def ends_with_yours_alone(merged: LineMerge) -> bool:
    last = merged.conflicts[-1]
    return merged.regions[-1] is last and not last.agent and bool(last.yours) and not last.yours.endswith(b"\n")


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b" a\n", b"\xff\n"]), max_size=12)


@settings(max_examples=min(ROUNDS, 150), deadline=None)
@given(LINES, LINES, LINES)
def test_unrelated_texts_merge_like_git(base: list[bytes], user_side: list[bytes], agent: list[bytes]) -> None:
    git = Git()
    try:
        assert_as_git(git, b"".join(base), b"".join(user_side), b"".join(agent))
    finally:
        git.close()


@pytest.mark.parametrize(
    ("user_side", "agent", "is_clean"),
    [
        (b"A\nb\nc\nd\n", b"a\nb\nC\nd\n", True),  # one unchanged line between the edits
        (b"A\nb\nc\nd\n", b"a\nB\nc\nd\n", False),  # adjacent lines
        (b"x\na\nb\nc\nd\n", b"A\nb\nc\nd\n", False),  # an insertion before the edited line
        (b"a\nx\nb\nc\nd\n", b"a\nb\ny\nc\nd\n", True),  # one unchanged line between two insertions
        (b"a\nx\nb\nc\nd\n", b"a\ny\nb\nc\nd\n", False),  # two insertions at the same position
        (b"a\nx\nb\nc\nd\n", b"a\nc\nd\n", False),  # an insertion next to a deletion
        (b"a\nd\n", b"a\nc\nd\n", False),  # a deletion within a larger one
        (b"a\nb\nc\nd", b"A\nb\nc\nd\n", True),  # the missing final newline is far from the other edit
    ],
)
def test_adjacent_edits_are_treated_like_git(git: Git, user_side: bytes, agent: bytes, *, is_clean: bool) -> None:
    assert assert_as_git(git, b"a\nb\nc\nd\n", user_side, agent).is_clean is is_clean


def test_an_indentation_heuristic_would_merge_what_git_calls_a_conflict(git: Git) -> None:
    """The reason why a merge compares texts without sliding hunks to fit the indentation."""
    base, user_side, agent = b"a\n}\n", b"a\n", b"a\n\na\n}\n"
    assert find_hunks(base, agent) != find_hunks(base, agent, slide=False)
    assert_as_git(git, base, user_side, agent)


def test_git_trims_common_lines_from_a_conflict_and_we_do_not(git: Git) -> None:
    base, user_side, agent = b"a\n", b"x\ny\n1\n2\n3\n4\n5\nm\n", b"x\ny\n1\n2\n3\n4\n5\nn\n"
    assert git.merge(base, user_side, agent)[1].startswith(b"x\ny\n")
    assert format_with_markers(merge_lines(base, user_side, agent), b"mine", b"agent").startswith(b"<<<<<<< mine\nx\ny\n")


def test_text_that_git_refuses_as_binary_is_merged(git: Git) -> None:
    assert git.files
    merged = merge_lines(b"\0\nb\nc\n", b"\0\0\nb\nc\n", b"\0\nb\nC\n")
    assert merged.regions == (
        MergedRegion(RegionSource.YOURS, b"\0\0\n", b"\0\n"),
        MergedRegion(RegionSource.UNCHANGED, b"b\n", b"b\n"),
        MergedRegion(RegionSource.AGENT, b"C\n", b"c\n"),
    )
