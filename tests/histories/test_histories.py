"""Random histories of a user, agents, merges and their inverses, as an ordinary user; for the oracle see oracle.py.

`AGENT_DEV_TEST_SCALE` sets their number. The first seed is random, and a failure prints it: `AGENT_DEV_TEST_SEED` sets it, and
`python -m tests.histories --seed SEED --count 1`, with `--commits` or `--mixed`, plays one history again.
"""

from collections.abc import Callable
from types import ModuleType

import pytest

from agent_dev.fs import attribute_digest
from tests.harness import users
from tests.harness.owner_view import TreeEntry
from tests.harness.scale import printed_seed, repeat
from tests.histories import commits, history, mixed, oracle
from tests.histories.__main__ import reported
from tests.histories.history import Step

_AT_LEAST = 3  # histories of a test, about a second each
COUNT = max(_AT_LEAST, repeat(10))


def play(draw: Callable[[int], tuple[Step, ...]], violation_of: Callable[[tuple[Step, ...]], str], count: int) -> None:
    """Play histories from a random seed as an ordinary user; fail with the first that violates an invariant."""
    first = printed_seed()

    def act() -> None:
        for seed in range(first, first + count):
            if found := violation_of(steps := draw(seed)):
                pytest.fail(reported(seed, steps, found))

    users.call_as_ordinary_user(act)


@pytest.mark.parametrize("part", range(4))
def test_no_history_loses_hides_or_changes_anything_unasked(part: int) -> None:
    play(history.draw, history.violation_of, COUNT)


def test_no_history_with_stages_in_the_tree_loses_anything() -> None:
    with history.stages_in_tree():
        play(history.draw, history.violation_of, COUNT)


def test_no_history_of_files_and_commits_loses_or_hides_anything() -> None:
    play(mixed.draw, mixed.violation_of, max(2, COUNT // 2))


# Violations that histories found, shortened.
FOUND = {
    "attributes of a directory come back to the session": (
        Step("user", (("write", b"d/a", b"<u000001>"),)),
        Step("run", (("attribute", b"d", b"<a000001>"),)),
        Step("merge all"),
        Step("undo"),
    ),
    "an attribute of a file that may not be read is merged": (
        Step("user", (("write", b"a", b"<u000001>"), ("attribute", b"a", b"<u000002>"), ("chmod", b"a", 0o7))),
        Step("run", (("edit", b"a", b"<a000001>"),)),
        Step("merge all"),
    ),
    "a file without read permission stops no undo of three ways": (
        Step("user", (("write", b"a", b"<u000001>"),)),
        Step("run", (("special", b"a", 0o7000),)),
        Step("user", (("write", b"a", b"<u000002>"),)),
        Step("merge all"),
        Step("three-way"),
    ),
    "a deletion in a directory that may not be entered is told": (
        Step("user", (("write", b"d/a", b"<u000001>"), ("chmod", b"d", 0o77))),
        Step("run", (("remove", b"d/a", b"<a000001>"),)),
    ),
    "a directory that the agent deleted is listed after an undo emptied it": (
        Step("user", (("write", b"d/e/a", b"<u000004>"), ("rename", b"d/e/a", b"-x"))),
        Step("run", (("write", b"d/e/a", b"<a3e9ed4>"),)),
        Step("merge all"),
        Step("run", (("remove", b"d", b"<acda936>"),)),
        Step("three-way"),
    ),
    "a directory that an undo creates in the session has the attributes of the real one": (
        Step("user", (("write", b"d/e/a", b"<u000004>"), ("attribute", b"d", b"<u04c288>"))),
        Step("run", (("attribute", b"d/e/a", b"<a752ddf>"),)),
        Step("merge all"),
        Step("three-way"),
    ),
    "a deletion in an inaccessible directory stays in the session": (
        Step("user", (("write", b"n/x", b"<u000005>"), ("chmod", b"n", 0o222))),
        Step("run", (("rename", b"n/x", b"new\nline"), ("mkdir", b"d/a", b"<a36b9af>"))),
        Step("merge all"),
        Step("undo"),
    ),
    "an edit between two runs is merged with the agent's earlier edit": (
        Step("user", (("write", b"b", b"<u000001>"),)),
        Step("run", (("edit", b"b", b"<a9f19d9>"),)),
        Step("user", (("edit", b"b", b"<u1511bd>"),)),
        Step("resume"),
        Step("merge all"),
    ),
    "an undo restores the mode of a session's directory that has an unlocked one in it": (
        Step("user", (("write", b"d/e/a", b"<u000004>"),)),
        Step("run", (("attribute", b"d", b"<a03bcbf>"), ("mkdir", b"new\nline", b"<a269c7e>"), ("chmod", b"d/e", 0o444))),
        Step("user", (("chmod", b"d", 0o644),)),
        Step("merge part", (), 387405088),
        Step("undo"),
    ),
    "a restored directory has its ACL": (
        Step("user", (("write", b"d/e/a", b"<u000004>"), ("list", b"d/e", b"<u799d1a>"))),
        Step("run", (("remove", b"d", b"<a332e72>"),)),
        Step("merge all"),
        Step("undo"),
    ),
    "attributes that the agent changed are listed after the user removed the file": (
        Step("user", (("write", b"a", b"<u000001>"), ("attribute", b"a", b"<u000002>"))),
        Step("run", (("unset", b"a", b"<a000001>"),)),
        Step("user", (("remove", b"a", b"<u000003>"),)),
    ),
    "the user's attributes of a directory are not overwritten by an agent's mode": (
        Step("user", (("write", b"d/a", b"<u000001>"),)),
        Step("run", (("chmod", b"d", 0o700),)),
        Step("user", (("attribute", b"d", b"<u000002>"),)),
        Step("merge all"),
    ),
    "an undo removes no attribute of an unreadable directory": (
        Step("user", (("write", b"d/a", b"<u000001>"), ("attribute", b"d", b"<u000002>"), ("chmod", b"d", 0o111))),
        Step("run", (("write", b"d/n", b"<a000001>"),)),
        Step("merge all"),
        Step("undo"),
    ),
    "a changed mode of a directory in an unreadable one is listed": (
        Step("user", (("write", b"d/e/a", b"<u000001>"), ("chmod", b"d", 0o111))),
        Step("run", (("chmod", b"d/e", 0o400), ("write", b"n", b"<a000001>"))),
        Step("merge all"),
    ),
    "a directory that a merge refused has its mode in the session after an undo": (
        Step("user", (("write", b"n/x", b"<u000001>"), ("mkdir", b"-x", b"<u000002>"))),
        Step("run", (("chmod", b"n", 0o444), ("link", b"d", b"<a000001>"), ("attribute", b"-x", b"<a000002>"))),
        Step("user", (("remove", b"n", b"<u000003>"),)),
        Step("merge all", (), 87101658),
        Step("undo"),
    ),
    "a rollback past a merge keeps the user's merged edits": (
        Step("user", (("write", b"b", b"<u000001>"),)),
        Step("run", (("replace", b"b", b"<a000001>"),)),
        Step("checkpoint"),
        Step("user", (("write", b"b", b"<u000002>"),)),
        Step("merge part", (), 860384064),
        Step("rollback", (), 701884729),
        Step("merge all", (), 972175057),
    ),
    "an agent can replace an unreadable directory": (
        Step("user", (("write", b"d/e/a", b"<u000001>"), ("chmod", b"d/e", 0o111))),
        Step("run", (("remove", b"d", b"<a000001>"), ("write", b"d/e", b"<a000002>"))),
        Step("merge all"),
        Step("undo"),
    ),
    "of two new directories the user's stays, which is not a change": (
        Step("run", (("mkdir", b"new\nline", b"<a000001>"), ("chmod", b"new\nline", 0o444))),
        Step("user", (("mkdir", b"new\nline", b"<u000001>"),)),
    ),
    "two merges of one file are redone after both were undone": (
        Step("user", (("write", b"b", b"<u000001>"),)),
        Step("run", (("edit", b"b", b"<a000001>"),)),
        Step("merge all"),
        Step("run", (("edit", b"b", b"<a000002>"),)),
        Step("merge all"),
        Step("undo"),
        Step("undo"),
        Step("redo"),
        Step("redo"),
    ),
    "nested directories made inaccessible are merged and undone": (
        Step("user", (("write", b"d/e/a", b"<u000001>"),)),
        Step("run", (("chmod", b"d/e", 0o644), ("chmod", b"d", 0o222), ("edit", b"d/e/a", b"<a000001>"))),
        Step("merge all"),
        Step("undo"),
    ),
    "a directory made inaccessible during an undo leads to an unlocked one": (
        Step("user", (("write", b"d/e/a", b"<u000001>"),)),
        Step("run", (("special", b"d/e", 0o7000),)),
        Step("merge all"),
        Step("three-way", (), 0, (("chmod", b"d", 0o444),), 25),
    ),
    "the user's mode of a new directory survives an undo": (
        Step("run", (("mkdir", b"d/e/a", b"<a000001>"),)),
        Step("merge all"),
        Step("user", (("chmod", b"d/e/a", 0o500),)),
        Step("undo"),
    ),
    "the user's attribute of a restored directory survives a redo": (
        Step("user", (("mkdir", b"d", b"<u000001>"),)),
        Step("run", (("remove", b"d", b"<a000001>"), ("write", b"d", b"<a000002>"))),
        Step("merge all"),
        Step("undo"),
        Step("user", (("attribute", b"d", b"<u000002>"),)),
        Step("redo"),
    ),
    "the user's attribute of a touched file survives an undo": (
        Step("user", (("write", b"a", b"<u000001>"),)),
        Step("run", (("edit", b"a", b"<a000001>"),)),
        Step("merge all"),
        Step("user", (("attribute", b"a", b"<u000002>"), ("touch", b"a", b"<u000003>"))),
        Step("undo"),
    ),
    "a file that another merge changed is not called the user's": (
        Step("user", (("write", b"new\nline", b"<u000007>"),)),
        Step("run", (("write", b"c", b"<aff8591>"), ("write", b"new\nline", b"<a413192>"))),
        Step("merge part", (), 273685770),
        Step("undo", (), 1003127347),
        Step("merge", (), 623767564),
        Step("redo", (), 793588631),
        Step("undo", (), 1041564921),
        Step("redo", (), 929881948),
    ),
    "an agent replaces what the user made of its merged change": (
        Step("user", (("write", b"a", b"<u000001>"), ("write", b"b", b"<u000002>"), ("write", b"c", b"<u000003>"))),
        Step("run", (("chmod", b"a", 0o444),)),
        Step("user", (("rename", b"b", b"a"),)),
        Step("merge all"),
        Step("resume", (("rename", b"c", b"a"),)),
        Step("merge all"),
    ),
    "a directory that the user created during a redo stays after an undo": (
        Step("run", (("mkdir", b"n/x", b"<a000001>"), ("mkdir", b"c", b"<a000002>"))),
        Step("merge all"),
        Step("undo"),
        Step("redo", (), 0, (("mkdir", b"n", b"<u000001>"),), 8),
        Step("three-way"),
    ),
    "a directory whose mode was merged is removed by the user": (
        Step("user", (("write", b"c", b"<u000001>"), ("write", b"d/e/a", b"<u000002>"))),
        Step("run", (("touch", b"d/e/a", b"<a000001>"), ("edit", b"c", b"<a000002>"), ("chmod", b"d", 0))),
        Step("merge", (), 7),
        Step("user", (("remove", b"d", b"<u000003>"),)),
    ),
    "the user's attribute of a directory survives an undo and the next merge": (
        Step("user", (("write", b"d/a", b"<u000001>"),)),
        Step("run", (("chmod", b"d", 0o700),)),
        Step("merge all"),
        Step("user", (("attribute", b"d", b"<u000002>"),)),
        Step("undo"),
        Step("merge all"),
    ),
    "a new directory stays for what the user created in it": (
        Step("run", (("write", b"d/e/a", b"<a000001>"),)),
        Step("merge all"),
        Step("user", (("write", b"d/a", b"<u000001>"),)),
        Step("undo"),
    ),
    "an entry that replaces a file does not get its attributes": (
        Step("user", (("write", b"a", b"<u000001>"), ("write", b"d/a", b"<u000002>"), ("attribute", b"a", b"<u000003>"))),
        Step("run", (("rename", b"d/a", b"a"),)),
        Step("user", (("touch", b"a", b"<u000004>"),)),
        Step("merge all"),
    ),
    "an edit between two runs in a directory that the agent made unreadable is merged": (
        Step("user", (("write", b"d/a", b"<u000003>"),)),
        Step("run", (("mkdir", b"b", b"<a000001>"), ("edit", b"d/a", b"<a000002>"), ("chmod", b"d", 0o333))),
        Step("user", (("edit", b"d/a", b"<u000004>"),)),
        Step("resume"),
        Step("merge all"),
    ),
    "a file that the user also deletes while the session is opened is no change any more": (
        Step("user", (("write", b"d/e/a", b"<u000004>"), ("write", b"n/x", b"<u000005>"))),
        Step("run", (("chmod", b"d/e", 0o644), ("remove", b"n", b"<a000001>"))),
        Step("merge all", (), 208035933, (("mkdir", b"\xff z", b"<u000006>"), ("remove", b"n/x", b"<u000007>")), 3),
    ),
    "an ACL set during a merge is the redone file's": (
        Step("user", (("write", b"n/x", b"<u000005>"), ("write", b"\xff z", b"<u000006>"))),
        Step(
            "run",
            (
                ("attribute", b"n/x", b"<a000001>"),
                ("remove", b"\xff z", b"<a000002>"),
                ("write", b"\xff z", b"<a000003>"),
                ("link", b"b", b"<a000004>"),
            ),
        ),
        Step("merge all", (), 33949678, (("list", b"\xff z", b"<u000007>"),), 31),
        Step("undo", (), 678023313),
        Step("redo", (), 751088699),
    ),
    "what the user deletes during a merge that keeps the user's version stays deleted": (
        Step("user", (("write", b"a", b"<u000000>"), ("write", b"d/e/a", b"<u000004>"))),
        Step("run", (("remove", b"d/e/a", b"<a000001>"), ("remove", b"a", b"<a000002>"))),
        Step("user", (("special", b"d/e/a", 0o1755),)),
        Step("merge all", (), 0, (("remove", b"d", b"<u000007>"),), 5),
        Step("undo"),
    ),
    "the user's mode of a directory that is about to be removed survives an undo": (
        Step("user", (("write", b"d/a", b"<u000003>"), ("write", b"d/e/a", b"<u000004>"), ("write", b"new\nline", b"<u000007>"))),
        Step("run", (("remove", b"d", b"<a000001>"), ("write", b"new\nline", b"<a000002>"), ("write", b"n/x", b"<a000003>"))),
        Step("merge all", (), 0, (("special", b"d", 0o4755),), 34),
        Step("undo"),
    ),
    "an attribute set during a redo comes back with the file that the redo replaced": (
        Step("user", (("write", b"a", b"<u000000>"), ("write", b"\xff z", b"<u000006>"), ("write", b"new\nline", b"<u000007>"))),
        Step("run", (("edit", b"a", b"<a000001>"), ("remove", b"\xff z", b"<a000002>"), ("remove", b"new\nline", b"<a000003>"))),
        Step("merge all"),
        Step("three-way"),
        Step("redo", (), 0, (("attribute", b"a", b"<u000009>"),), 18),
        Step("undo"),
    ),
    "a directory that the user renames during a merge is not part of its undo": (
        Step("user", (("write", b"d/e/a", b"<u000004>"),)),
        Step("run", (("chmod", b"d/e/a", 0o700),)),
        Step("merge all", (), 0, (("rename", b"d/e", b"-x"),), 11),
        Step("undo"),
    ),
    "the user changes the mode of a directory that a partial selection applied": (
        Step("user", (("write", b"d/a", b"<u000003>"), ("write", b"c", b"<u000006>"), ("chmod", b"d/a", 0o500))),
        Step("run", (("chmod", b"d", 0o600), ("remove", b"c", b"<a000001>"), ("unset", b"d/a", b"<a000002>"))),
        Step("merge part"),
        Step("user", (("chmod", b"d", 0o777),)),
    ),
    "a redo keeps what the user set on a directory since the undo": (
        Step("user", (("write", b"n/x", b"<u000001>"),)),
        Step("run", (("chmod", b"n", 0o777),)),
        Step("merge all"),
        Step("undo"),
        Step("user", (("attribute", b"n", b"<u000002>"),)),
        Step("redo"),
    ),
    "a redo does not apply an attribute that the agent set since the undo": (
        Step("user", (("write", b"d/e/a", b"<u000001>"),)),
        Step("run", (("write", b"d/e/a", b"<a000001>"),)),
        Step("merge all"),
        Step("undo"),
        Step("resume", (("attribute", b"d/e/a", b"<a000002>"),)),
        Step("redo"),
    ),
    "the user makes the agent's change in the last instant before the merge": (
        Step("user", (("write", b"a", b"<u000001>"), ("write", b"c", b"<u000002>"))),
        Step("run", (("chmod", b"a", 0o444), ("edit", b"c", b"<a000001>"))),
        Step("merge all", (), 0, (("chmod", b"a", 0o444),), 30),
        Step("undo"),
    ),
    "the user renames a directory in which a merge deletes a file": (
        Step("user", (("write", b"n/x", b"<u000001>"),)),
        Step("run", (("write", b"b", b"<a000001>"), ("remove", b"n/x", b"<a000002>"))),
        Step("merge all", (), 0, (("rename", b"n", b"-x"),), 22),
        Step("undo"),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_violations_found_by_earlier_histories_do_not_recur(name: str) -> None:
    def act() -> None:
        assert history.violation_of(FOUND[name]) == ""

    users.call_as_ordinary_user(act)


@pytest.mark.parametrize("part", range(4))
def test_a_users_change_at_any_moment_of_a_merge_survives_its_undo(part: int) -> None:
    begun = (Step("user", (("write", b"b", b"<u000001>"),)), Step("run", (("edit", b"b", b"<a000001>"),)))

    def act() -> None:
        for moment in range(1 + part, 45, 4):
            met = Step("merge all", (), 1, (("chmod", b"b", 0o500),), moment)
            assert history.violation_of((*begun, met, Step("three-way"))) == "", moment

    users.call_as_ordinary_user(act)


def test_no_history_of_commits_loses_or_changes_unselected_content() -> None:
    play(commits.draw, commits.violation_of, max(1, COUNT // 3))


def _forget_attributes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attribute_digest, "digest_attributes", lambda *_: "")


BROKEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], tuple[Step, ...]]] = {
    "an undo drops what the user set": (
        _forget_attributes,
        (
            Step("user", (("write", b"a", b"<u000001>"),)),
            Step("run", (("edit", b"a", b"<a000001>"),)),
            Step("merge all"),
            Step("user", (("attribute", b"a", b"<u000002>"),)),
            Step("undo"),
        ),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_oracle_detects_injected_bugs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks, steps = BROKEN[name]

    def act() -> None:
        assert history.violation_of(steps) == ""
        breaks(monkeypatch)
        assert "the user's b'a'" in history.violation_of(steps)

    users.call_as_ordinary_user(act)


def test_the_oracle_detects_unselected_changes() -> None:
    one, other = ({b"a": TreeEntry(0o100000, mode)} for mode in (0o644, 0o600))
    with pytest.raises(oracle.Violation):
        oracle.check_merge((one, other), {}, other, [oracle.Run(one, other)], frozenset())


def test_the_oracle_detects_a_hidden_deletion() -> None:
    base = {b"a": TreeEntry(0o100000, 0o644, b"mine")}
    oracle.check_reported({b"a": "deleted"}, ({}, base), [base], [{}])
    oracle.check_reported({}, ({}, base), [base], [{b"a": None}])
    with pytest.raises(oracle.Violation):
        oracle.check_reported({}, ({}, base), [base], [{}])


@pytest.mark.parametrize("kind", [history, commits, mixed])
def test_a_history_is_drawn_again_from_its_seed(kind: ModuleType) -> None:
    assert kind.draw(7) == kind.draw(7) != kind.draw(8)


def test_mixed_histories_have_every_kind_of_step() -> None:
    words = {step.word for seed in range(200) for step in mixed.draw(seed)}
    assert words == {"user commits", "run", *mixed.WORDS}


def test_a_path_that_the_agent_left_unchanged_is_the_users() -> None:
    was, now = ({b"n": TreeEntry(0o040000, mode)} for mode in (0o755, 0o744))
    assert oracle.Interference(was, now).split(was, now, was, ()) == (now, now)
