"""The decision for a path that both sides may have changed: every cell of the table, and laws over all combinations."""

from itertools import product

import pytest

from agent_dev.fs.entry import Entry, FileType
from agent_dev.merge.decision import Digests, PathDecision, Verdict, decide

FILE, DIR, SYMLINK = FileType.FILE, FileType.DIRECTORY, FileType.SYMLINK
CLEAN_AGENT, ALREADY, KEEP_YOURS_, MERGE_TEXT, CONFLICT = Verdict
TAG, TAG2 = (("user.tag", b"1"),), (("user.tag", b"2"),)

Version = tuple[Entry | None, bytes | None]  # an entry, and the digest of a file's content

NONE: Version = (None, None)
A: Version = (Entry(FILE), b"a")
B: Version = (Entry(FILE), b"b")
C: Version = (Entry(FILE), b"c")
A_X: Version = (Entry(FILE, 0o755), b"a")
B_X: Version = (Entry(FILE, 0o755), b"b")
C_X: Version = (Entry(FILE, 0o755), b"c")
A_P: Version = (Entry(FILE, 0o600), b"a")
B_P: Version = (Entry(FILE, 0o600), b"b")
A_TAG: Version = (Entry(FILE, attributes=TAG), b"a")
A_TAG2: Version = (Entry(FILE, attributes=TAG2), b"a")
A_X_TAG: Version = (Entry(FILE, 0o755, attributes=TAG), b"a")
B_TAG: Version = (Entry(FILE, attributes=TAG), b"b")
UNKNOWN: Version = (Entry(FILE), None)
L: Version = (Entry(SYMLINK, 0o777, target=b"a"), None)
M: Version = (Entry(SYMLINK, 0o777, target=b"b"), None)
N: Version = (Entry(SYMLINK, 0o777, target=b"c"), None)
L_MODE: Version = (Entry(SYMLINK, 0o700, target=b"a"), None)
D: Version = (Entry(DIR, 0o755), None)
D_P: Version = (Entry(DIR, 0o700), None)
D_G: Version = (Entry(DIR, 0o775), None)
FIFO: Version = (Entry(FileType.FIFO), None)
FIFO_P: Version = (Entry(FileType.FIFO, 0o600), None)
SOCKET: Version = (Entry(FileType.SOCKET), None)
DEVICE: Version = (Entry(FileType.DEVICE), None)
EVERY = (NONE, A, B, C, A_X, B_X, A_P, B_P, A_TAG, A_TAG2, B_TAG, UNKNOWN, L, M, N, D, D_P, D_G, FIFO, FIFO_P, SOCKET, DEVICE)


def decided(base: Version, yours: Version, agent: Version, *, is_text: bool = True) -> PathDecision:
    digests = Digests(base[1], yours[1], agent[1])
    return decide(base[0], yours[0], agent[0], digests, is_text=is_text)


@pytest.mark.parametrize(
    ("base", "yours", "agent", "verdict", "mode"),
    [
        # changed by the agent alone
        (NONE, NONE, A, CLEAN_AGENT, 0o644),
        (NONE, NONE, D, CLEAN_AGENT, 0o755),
        (NONE, NONE, L, CLEAN_AGENT, 0o777),
        (NONE, NONE, UNKNOWN, CLEAN_AGENT, 0o644),
        (A, A, B, CLEAN_AGENT, 0o644),
        (A, A, A_X, CLEAN_AGENT, 0o755),
        (A, A, B_X, CLEAN_AGENT, 0o755),
        (A, A, NONE, CLEAN_AGENT, 0),
        (A, A, L, CLEAN_AGENT, 0o777),
        (A, A, D, CLEAN_AGENT, 0o755),
        (A, A, UNKNOWN, CLEAN_AGENT, 0o644),
        (L, L, M, CLEAN_AGENT, 0o777),
        (L, L_MODE, M, CLEAN_AGENT, 0o777),  # a link has no mode
        (L, L, NONE, CLEAN_AGENT, 0),
        (L, L, A, CLEAN_AGENT, 0o644),
        (D, D, D_P, CLEAN_AGENT, 0o700),
        (D, D, NONE, CLEAN_AGENT, 0),
        (D, D, A, CLEAN_AGENT, 0o644),
        (D, D, L, CLEAN_AGENT, 0o777),
        (FIFO, FIFO, NONE, CLEAN_AGENT, 0),
        (FIFO, FIFO, FIFO_P, CLEAN_AGENT, 0o600),
        # the same change on both sides, or none by the agent
        (NONE, A, A, ALREADY, 0o644),
        (NONE, L, L, ALREADY, 0o777),
        (NONE, D, D, ALREADY, 0o755),
        (NONE, D_P, D, ALREADY, 0o700),
        (NONE, FIFO, FIFO, ALREADY, 0o644),
        (A, B, B, ALREADY, 0o644),
        (A, B_X, B_X, ALREADY, 0o755),
        (A, NONE, NONE, ALREADY, 0),
        (A, L, L, ALREADY, 0o777),
        (A, D, D_P, ALREADY, 0o755),
        (A, B, A, ALREADY, 0o644),
        (A, NONE, A, ALREADY, 0),
        (A, D, A, ALREADY, 0o755),
        (UNKNOWN, B, B, ALREADY, 0o644),
        (UNKNOWN, NONE, NONE, ALREADY, 0),
        # content on one side, mode or attributes on the other
        (A, B, A_X, KEEP_YOURS_, 0o755),
        (A, A_X, B, CLEAN_AGENT, 0o755),
        (A, B, B_X, KEEP_YOURS_, 0o755),
        (A, B_X, B, ALREADY, 0o755),
        (A, B_X, A_X, ALREADY, 0o755),
        (A, A_X, B_X, CLEAN_AGENT, 0o755),
        (A, B, A_TAG, KEEP_YOURS_, 0o644),
        (A, A_TAG, B, CLEAN_AGENT, 0o644),
        (A, A_X, A_TAG, KEEP_YOURS_, 0o755),
        (A, A_TAG, A_X, KEEP_YOURS_, 0o755),
        # content on both sides
        (A, B, C, MERGE_TEXT, 0o644),
        (A, B_X, C, MERGE_TEXT, 0o755),
        (A, B, C_X, MERGE_TEXT, 0o755),
        (A, B_X, C_X, MERGE_TEXT, 0o755),
    ],
)
def test_compatible_changes_are_merged(base: Version, yours: Version, agent: Version, verdict: Verdict, mode: int) -> None:
    decision = decided(base, yours, agent)
    assert (decision.verdict, decision.mode, decision.why) == (verdict, mode, "")


@pytest.mark.parametrize(
    ("base", "yours", "agent", "why"),
    [
        # added on both sides
        (NONE, A, B, "both added it, with different contents"),
        (NONE, A, A_X, "both added it, with different modes"),
        (NONE, A, A_TAG, "both added it, with different attributes"),
        (NONE, A, UNKNOWN, "both added it, with different contents"),
        (NONE, UNKNOWN, UNKNOWN, "both added it, with different contents"),
        (NONE, L, M, "both added it, with different targets"),
        (NONE, FIFO, FIFO_P, "both added it, with different modes"),
        (NONE, A, L, "both added it: yours is a file, the agent's a symlink"),
        (NONE, D, A, "both added it: yours is a directory, the agent's a file"),
        (NONE, FIFO, SOCKET, "both added it: yours is a fifo, the agent's a socket"),
        # deleted on one side, changed on the other
        (A, NONE, B, "you deleted it, the agent changed it"),
        (A, NONE, A_X, "you deleted it, the agent changed it"),
        (A, NONE, D, "you deleted it, the agent changed it"),
        (L, NONE, M, "you deleted it, the agent changed it"),
        (D, NONE, D_P, "you deleted it, the agent changed it"),
        (A, B, NONE, "you changed it, the agent deleted it"),
        (A, A_X, NONE, "you changed it, the agent deleted it"),
        (A, A_TAG, NONE, "you changed it, the agent deleted it"),
        (A, L, NONE, "you changed it, the agent deleted it"),
        (D, D_P, NONE, "you changed it, the agent deleted it"),
        (L, M, NONE, "you changed it, the agent deleted it"),
        (UNKNOWN, A, NONE, "you changed it, the agent deleted it"),
        (UNKNOWN, NONE, A, "you deleted it, the agent changed it"),
        # the sides have different types
        (A, B, L, "it was a file: yours is a file, the agent's a symlink"),
        (A, L, B, "it was a file: yours is a symlink, the agent's a file"),
        (A, L, D, "it was a file: yours is a symlink, the agent's a directory"),
        (A, D, FIFO, "it was a file: yours is a directory, the agent's a fifo"),
        (D, D_P, A, "it was a directory: yours is a directory, the agent's a file"),
        (L, A, DEVICE, "it was a symlink: yours is a file, the agent's a device"),
        # the sides have the same type, the base another
        (L, A, B, "it was a symlink, both replaced it, with different contents"),
        (D, A, A_X, "it was a directory, both replaced it, with different modes"),
        (A, L, M, "it was a file, both replaced it, with different targets"),
        # all versions have the same type
        (L, M, N, "both changed the link's target"),
        (A, A_X, A_P, "both changed its mode"),
        (A, A_X, B_P, "both changed its mode"),
        (A, B_P, C_X, "both changed its mode"),
        (D, D_P, D_G, "both changed its mode"),
        (A, A_TAG, A_TAG2, "both changed its attributes"),
        (UNKNOWN, A, B, "its content is unknown on one side"),
        (UNKNOWN, UNKNOWN, B, "its content is unknown on one side"),
        (A, UNKNOWN, B, "its content is unknown on one side"),
        (A, B, UNKNOWN, "its content is unknown on one side"),
    ],
)
def test_incompatible_changes_conflict(base: Version, yours: Version, agent: Version, why: str) -> None:
    assert decided(base, yours, agent) == PathDecision(CONFLICT, why)


def test_two_edits_of_a_binary_file_conflict() -> None:
    assert decided(A, B, C, is_text=False) == PathDecision(CONFLICT, "both changed it, and it is not a text file")


@pytest.mark.parametrize(
    ("yours", "agent", "verdict"),
    [(A, B, CLEAN_AGENT), (B, B, ALREADY), (B, A, ALREADY), (A_X, B, CLEAN_AGENT), (B, A_X, KEEP_YOURS_), (A, NONE, CLEAN_AGENT)],
)
def test_one_edit_of_a_binary_file_is_applied(yours: Version, agent: Version, verdict: Verdict) -> None:
    assert decided(A, yours, agent, is_text=False).verdict is verdict


def test_attributes_are_merged_separately_from_bytes_and_mode() -> None:
    assert decided(A, A_X_TAG, B).attributes == TAG
    assert decided(A, B, A_TAG).attributes == TAG
    assert decided(A_TAG, B_TAG, A).attributes == ()


def test_times_inodes_and_link_counts_are_ignored() -> None:
    entry = Entry(FILE, inode=7, mtime=8, ctime=9, links=3)
    assert decided(A, (entry, b"a"), B).verdict is CLEAN_AGENT


# --- laws over all combinations of three versions ---


@pytest.mark.parametrize("base", EVERY)
def test_only_a_conflict_has_a_reason(base: Version) -> None:
    for yours, agent in product(EVERY, EVERY):
        decision = decided(base, yours, agent)
        assert (decision.verdict is CONFLICT) == bool(decision.why)


@pytest.mark.parametrize("base", EVERY)
def test_a_conflict_is_symmetric(base: Version) -> None:
    for yours, agent in product(EVERY, EVERY):
        assert (decided(base, yours, agent).verdict is CONFLICT) == (decided(base, agent, yours).verdict is CONFLICT)


@pytest.mark.parametrize("base", EVERY)
def test_a_merged_mode_is_symmetric(base: Version) -> None:
    for yours, agent in product(EVERY, EVERY):
        one, other = decided(base, yours, agent), decided(base, agent, yours)
        if one.verdict is not CONFLICT and {yours, agent} - {D, D_P, D_G}:
            assert (one.mode, one.attributes) == (other.mode, other.attributes)


def what(version: Version) -> tuple[FileType, bytes, bytes | None] | None:
    entry, digest = version
    return (entry.type, entry.target, digest) if entry else None


@pytest.mark.parametrize("base", EVERY)
def test_your_bytes_are_never_overwritten(base: Version) -> None:
    """The agent's content replaces yours only if yours is known and equals the base version."""
    for yours, agent in product(EVERY, EVERY):
        if decided(base, yours, agent).verdict is CLEAN_AGENT:
            assert what(base) == what(yours)
            assert yours is not UNKNOWN


@pytest.mark.parametrize("yours", EVERY)
def test_a_file_unchanged_by_you_becomes_the_agents(yours: Version) -> None:
    for agent in EVERY:
        assert yours in (UNKNOWN, agent) or decided(yours, yours, agent).verdict is CLEAN_AGENT


@pytest.mark.parametrize("base", EVERY)
def test_a_change_made_by_both_is_already_applied(base: Version) -> None:
    for same in EVERY:
        assert same is UNKNOWN or decided(base, same, same).verdict is ALREADY
