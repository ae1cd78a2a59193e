"""Parts of files, patches, conflicts and their ways out, on real files: what lands, what stays, what comes back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.diff import hunks as blocks
from agent_dev.diff.merge3 import Side
from agent_dev.diff.partial import Choice
from agent_dev.errors import AgentDevError, UsageError
from agent_dev.merge import export, merge
from agent_dev.merge import select_by_flags as pick
from agent_dev.merge.select_by_flags import Wish
from agent_dev.overlay.changes import Key, Kind
from tests.harness import trees
from tests.harness.ended import Ended
from tests.harness.trees import DIRECTORY, FILE, Mark, Node

BASE = b"".join(b"line %d\n" % number for number in range(30))
AGENT = BASE.replace(b"line 3\n", b"the agent's 3\n").replace(b"line 15\n", b"").replace(b"line 25\n", b"line 25\nmore\n")
X = Key(0, b"x")


def file(data: bytes) -> Node:
    return Node(FILE, data)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Ended]:
    marks = [Mark(b"x", file(AGENT)), Mark(b"y", file(b"new"))]
    with Ended(tmp_path, {b"x": file(BASE), b"z": file(b"z")}, marks) as made:
        yield made


def text(session: Ended) -> bytes:
    return (session.real / "x").read_bytes()


def take(session: Ended, *numbers: int) -> merge.Merged:
    return session.merge_by(Wish(parts=((X, frozenset(numbers)),)))


def test_a_block_lands_and_the_rest_stays_in_the_session(session: Ended) -> None:
    merged = take(session, 1)

    assert text(session) == BASE.replace(b"line 3\n", b"the agent's 3\n")
    assert ([change.key for change in merged.taken], merged.is_all) == ([X], False)
    assert session.kinds() == {b"x": Kind.EDITED, b"y": Kind.ADDED}
    assert session.conflicts() == {}


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_block_after_block_makes_the_agents_file(session: Ended, order: tuple[int, ...]) -> None:
    left = [1, 2, 3]
    for number in order:
        take(session, left.index(number) + 1)
        left.remove(number)

    assert text(session) == AGENT
    assert session.kinds() == {b"y": Kind.ADDED}


def test_a_block_and_then_all_makes_the_agents_tree_and_ends_the_session(session: Ended) -> None:
    take(session, 2)
    merged = session.merge_all()

    assert merged.is_all
    assert trees.read(session.real) == {b"x": file(AGENT), b"y": file(b"new"), b"z": file(b"z")}


def test_a_part_can_be_taken_back_and_is_whole_in_the_session_again(session: Ended) -> None:
    take(session, 2, 3)
    session.undo()

    assert text(session) == BASE
    assert session.kinds() == {b"x": Kind.EDITED, b"y": Kind.ADDED}
    take(session, 1, 2, 3)
    assert text(session) == AGENT


def test_a_part_can_be_done_again(session: Ended) -> None:
    take(session, 2)
    after = text(session)
    session.undo()
    session.redo()

    assert text(session) == after
    session.merge_all()
    assert text(session) == AGENT


def test_a_part_is_merged_with_what_the_user_changed_meanwhile(session: Ended) -> None:
    mine = BASE.replace(b"line 20\n", b"mine 20\n")
    (session.real / "x").write_bytes(mine)
    take(session, 1)

    assert text(session) == mine.replace(b"line 3\n", b"the agent's 3\n")
    session.merge_all()
    assert text(session) == AGENT.replace(b"line 20\n", b"mine 20\n")


@pytest.mark.parametrize("number", [0, 4])
def test_a_block_that_is_not_there_is_refused(session: Ended, number: int) -> None:
    with pytest.raises(UsageError, match=f"has no block {number}"):
        take(session, number)
    assert text(session) == BASE


def patch_of(session: Ended, before: bytes, after: bytes) -> bytes:
    change = session.changes().by_key()[X]
    return blocks.patch(change, b"x", before, after)


def test_exactly_the_hunks_of_a_patch_are_taken(session: Ended) -> None:
    wanted = BASE.replace(b"line 15\n", b"")
    session.merge_by(Wish(patch=patch_of(session, BASE, wanted)))

    assert text(session) == wanted
    assert session.kinds() == {b"x": Kind.EDITED, b"y": Kind.ADDED}


def test_a_patch_of_everything_takes_everything(session: Ended) -> None:
    merged = session.merge_by(Wish(patch=patch_of(session, BASE, AGENT)))

    assert text(session) == AGENT
    assert [change.key for change in merged.taken] == [X]
    assert session.kinds() == {b"y": Kind.ADDED}


def test_a_patch_that_the_agent_did_not_make_is_refused(session: Ended) -> None:
    with pytest.raises(AgentDevError, match="hunk 1"):
        session.merge_by(Wish(patch=patch_of(session, BASE, BASE.replace(b"line 7\n", b"mine\n"))))
    assert text(session) == BASE


# --- conflicts ---

CLASH = BASE.replace(b"line 3\n", b"mine 3\n")


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        (Side.MINE, AGENT.replace(b"the agent's 3\n", b"mine 3\n")),
        (Side.AGENT, AGENT),
        (Side.BOTH, AGENT.replace(b"the agent's 3\n", b"mine 3\nthe agent's 3\n")),
        (b"from an editor\n", b"from an editor\n"),
    ],
)
def test_a_conflict_of_lines_is_settled_as_told(session: Ended, how: Side | bytes, wanted: bytes) -> None:
    (session.real / "x").write_bytes(CLASH)
    assert session.conflicts() == {b"x": "you and the agent changed the same lines"}
    session.merge_by(Wish(resolve=((X, how),)))

    assert text(session) == wanted
    assert session.kinds() == {b"y": Kind.ADDED}
    session.undo()
    assert text(session) == CLASH
    assert session.conflicts() == {b"x": "you and the agent changed the same lines"}


@pytest.mark.parametrize(("how", "wanted"), [(Side.MINE, b"mine\0"), (Side.AGENT, b"agent\0")])
def test_a_conflict_of_bytes_is_settled_by_one_side(tmp_path: Path, how: Side, wanted: bytes) -> None:
    with Ended(
        tmp_path, {b"x": file(b"base\0"), b"y": file(b"y")}, [Mark(b"x", file(b"agent\0")), Mark(b"y", file(b"Y"))]
    ) as one:
        (one.real / "x").write_bytes(b"mine\0")
        with pytest.raises(UsageError, match="only lines can be taken from both"):
            one.merge_by(Wish(resolve=((X, Side.BOTH),)))
        one.merge_by(Wish(resolve=((X, how),)))

        assert text(one) == wanted
        assert (one.kinds(), one.conflicts()) == ({b"y": Kind.EDITED}, {})
        one.undo()
        assert (text(one), one.conflicts()) == (b"mine\0", {b"x": "both changed it, and it is not text"})


@pytest.mark.parametrize(("how", "is_there"), [(Side.MINE, True), (Side.AGENT, False)])
def test_a_deletion_against_an_edit_is_settled_by_one_side(tmp_path: Path, *, how: Side, is_there: bool) -> None:
    with Ended(tmp_path, {b"x": file(b"base")}, [Mark(b"x", None)]) as one:
        (one.real / "x").write_bytes(b"mine")
        one.merge_by(Wish(resolve=((X, how),)))

        assert (one.real / "x").exists() == is_there
        assert (one.kinds(), one.conflicts()) == ({}, {})
        one.undo()
        assert (text(one), one.conflicts()) == (b"mine", {b"x": "you changed it, the agent deleted it"})
        one.redo()
        assert (one.kinds(), one.conflicts()) == ({}, {})


def test_an_edit_against_a_deletion_brings_the_file_back_when_told(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"x": file(b"base")}, [Mark(b"x", file(b"agent"))]) as one:
        (one.real / "x").unlink()
        assert one.conflicts() == {b"x": "you deleted it, the agent changed it"}
        one.merge_by(Wish(resolve=((X, Side.AGENT),)))

        assert text(one) == b"agent"
        one.undo()
        assert not (one.real / "x").exists()
        assert one.conflicts() == {b"x": "you deleted it, the agent changed it"}


def test_what_is_in_no_conflict_is_not_settled(session: Ended) -> None:
    with pytest.raises(UsageError, match="in no conflict"):
        session.merge_by(Wish(resolve=((X, Side.MINE),)))


# --- the guard, and writing out ---


@pytest.mark.parametrize(("gone", "percent", "many"), [(30, 25, 30), (30, 80, 0), (9, 0, 0), (11, 0, 11)])
def test_many_deletions_are_counted_against_the_tree(tmp_path: Path, gone: int, percent: int, many: int) -> None:
    names = [b"f%d" % number for number in range(40)]
    with Ended(tmp_path, dict.fromkeys(names, file(b"x")), [Mark(name, None) for name in names[:gone]]) as one:
        review = one.review()
        chosen, asked = pick.choose(review, Wish(is_everything=True, with_risky=True))
        planned = merge.plan(review, chosen, asked)
        review.close()

        assert merge.deletes_too_much(review, planned, percent) == many


def test_what_is_chosen_can_be_written_out_instead(tmp_path: Path) -> None:
    marks = [Mark(b"x", file(AGENT)), Mark(b"n", Node(DIRECTORY, b"", 0o755)), Mark(b"n/y", file(b"new")), Mark(b"z", None)]
    with Ended(tmp_path, {b"x": file(BASE), b"z": file(b"z")}, marks) as one:
        before = trees.read(one.real)
        review = one.review()
        chosen, asked = pick.choose(review, Wish(is_everything=True, with_risky=True))
        planned = merge.plan(review, chosen, asked)
        gone = export.export(review, planned, str(tmp_path / "out"), lambda key: key.path)
        export.export(review, planned, str(tmp_path / "out.patch"), lambda key: key.path)
        with pytest.raises(UsageError, match="is there already"):
            export.export(review, planned, str(tmp_path / "out"), lambda key: key.path)
        review.close()

        assert gone == (Key(0, b"z"),)
        wanted = {b"x": file(AGENT), b"n/y": file(b"new")}
        assert {path: node for path, node in trees.read(tmp_path / "out").items() if node.type is FILE} == wanted
        patch = (tmp_path / "out.patch").read_bytes()
        assert b"deleted file mode" in patch
        assert b"+the agent's 3" in patch
        assert trees.read(one.real) == before


# Modes, and files that go, in part


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Ended]:
    marks = [Mark(b"x", Node(FILE, AGENT, 0o755)), Mark(b"new", Node(FILE, b"a\nb\n", 0o755))]
    with Ended(tmp_path, {b"x": file(BASE), b"old": file(b"1\n2\n3\n")}, [*marks, Mark(b"old", None)]) as made:
        yield made


def mode(session: Ended, name: str) -> int:
    return (session.real / name).stat().st_mode & 0o777


def test_a_mode_lands_without_the_lines(script: Ended) -> None:
    script.merge_part(b"x", Choice())

    assert (text(script), mode(script, "x")) == (BASE, 0o755)
    assert script.kinds()[b"x"] is Kind.EDITED


def test_lines_land_without_the_mode_and_the_mode_stays_in_the_session(script: Ended) -> None:
    script.merge_part(b"x", Choice(frozenset((0, 1, 2)), mode=False))

    assert (text(script), mode(script, "x")) == (AGENT, 0o644)
    assert script.kinds()[b"x"] is Kind.METADATA


def test_a_new_script_lands_as_a_plain_file(script: Ended) -> None:
    script.merge_part(b"new", Choice(new=frozenset((0,)), mode=False))

    assert ((script.real / "new").read_bytes(), mode(script, "new")) == (b"a\n", 0o644)
    assert script.kinds()[b"new"] is Kind.EDITED


def test_some_lines_of_a_deleted_file_go_and_the_rest_of_it_stays_deletable(script: Ended) -> None:
    merged = script.merge_part(b"old", Choice(old=frozenset((1,))))

    assert (script.real / "old").read_bytes() == b"1\n3\n"
    assert script.kinds()[b"old"] is Kind.DELETED
    script.undo(merged.id)
    assert (script.real / "old").read_bytes() == b"1\n2\n3\n"
    assert script.kinds()[b"old"] is Kind.DELETED
    script.merge_all()
    assert not (script.real / "old").exists()
