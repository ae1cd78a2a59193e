"""Merges of single hunks, lines and modes, of patches, and of resolved conflicts, on real files."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.cli.render.merge import print_export
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.diff.partial_selection import LineSelection
from agent_dev.errors import AgentDevError, UsageError
from agent_dev.fs.entry import FileType, Key
from agent_dev.merge import export, merge, select_by_options
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.overlay import patch_write
from agent_dev.overlay.changes import ChangeKind
from agent_dev.overlay.selection import select_all
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import DIRECTORY, FIFO, FILE, SYMLINK, Node, UpperEntry
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory

BASE = b"".join(b"line %d\n" % number for number in range(30))
AGENT = BASE.replace(b"line 3\n", b"the agent's 3\n").replace(b"line 15\n", b"").replace(b"line 25\n", b"line 25\nmore\n")
X = Key(0, b"x")


def file(data: bytes) -> Node:
    return Node(FILE, data)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[EndedSession]:
    marks = [UpperEntry(b"x", file(AGENT)), UpperEntry(b"y", file(b"new"))]
    with EndedSession(tmp_path, {b"x": file(BASE), b"z": file(b"z")}, marks) as made:
        yield made


def text(session: EndedSession) -> bytes:
    return (session.real / "x").read_bytes()


def take(session: EndedSession, *numbers: int) -> merge.MergeResult:
    return session.merge_selected(SelectionRequest(parts=((X, frozenset(numbers)),)))


def test_a_hunk_is_applied_and_the_rest_stays_in_the_session(session: EndedSession) -> None:
    merged = take(session, 1)

    assert text(session) == BASE.replace(b"line 3\n", b"the agent's 3\n")
    assert ([change.key for change in merged.applied], merged.is_session_empty) == ([X], False)
    assert session.kinds() == {b"x": ChangeKind.EDITED, b"y": ChangeKind.ADDED}
    assert session.conflicts() == {}


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_applying_every_hunk_in_turn_yields_the_agents_file(session: EndedSession, order: tuple[int, ...]) -> None:
    left = [1, 2, 3]
    for number in order:
        take(session, left.index(number) + 1)
        left.remove(number)

    assert text(session) == AGENT
    assert session.kinds() == {b"y": ChangeKind.ADDED}


def test_a_hunk_and_then_the_rest_yield_the_agents_tree_and_end_the_session(session: EndedSession) -> None:
    take(session, 2)
    merged = session.merge_all()

    assert merged.is_session_empty
    assert trees.read(session.real) == {b"x": file(AGENT), b"y": file(b"new"), b"z": file(b"z")}


def test_a_partial_merge_can_be_undone_and_returns_to_the_session(session: EndedSession) -> None:
    take(session, 2, 3)
    session.undo()

    assert text(session) == BASE
    assert session.kinds() == {b"x": ChangeKind.EDITED, b"y": ChangeKind.ADDED}
    take(session, 1, 2, 3)
    assert text(session) == AGENT


def test_a_partial_merge_can_be_redone(session: EndedSession) -> None:
    take(session, 2)
    after = text(session)
    session.undo()
    session.redo()

    assert text(session) == after
    session.merge_all()
    assert text(session) == AGENT


def test_a_part_is_merged_with_concurrent_changes_of_the_user(session: EndedSession) -> None:
    yours = BASE.replace(b"line 20\n", b"mine 20\n")
    (session.real / "x").write_bytes(yours)
    take(session, 1)

    assert text(session) == yours.replace(b"line 3\n", b"the agent's 3\n")
    session.merge_all()
    assert text(session) == AGENT.replace(b"line 20\n", b"mine 20\n")


@pytest.mark.parametrize("number", [0, 4])
def test_an_unknown_hunk_is_refused(session: EndedSession, number: int) -> None:
    with pytest.raises(UsageError, match=f"has no hunk {number}"):
        take(session, number)
    assert text(session) == BASE


def patch_of(session: EndedSession, before: bytes, after: bytes) -> bytes:
    change = session.changes().by_key()[X]
    return patch_write.change_patch(change, b"x", before, after)


def test_exactly_the_hunks_of_a_patch_are_applied(session: EndedSession) -> None:
    wanted = BASE.replace(b"line 15\n", b"")
    session.merge_selected(SelectionRequest(patch=patch_of(session, BASE, wanted)))

    assert text(session) == wanted
    assert session.kinds() == {b"x": ChangeKind.EDITED, b"y": ChangeKind.ADDED}


def test_a_patch_of_everything_applies_everything(session: EndedSession) -> None:
    merged = session.merge_selected(SelectionRequest(patch=patch_of(session, BASE, AGENT)))

    assert text(session) == AGENT
    assert [change.key for change in merged.applied] == [X]
    assert session.kinds() == {b"y": ChangeKind.ADDED}


def test_a_patch_that_is_not_the_agents_is_refused(session: EndedSession) -> None:
    with pytest.raises(AgentDevError, match="hunk 1"):
        session.merge_selected(SelectionRequest(patch=patch_of(session, BASE, BASE.replace(b"line 7\n", b"mine\n"))))
    assert text(session) == BASE


# --- conflicts ---

CONFLICT = BASE.replace(b"line 3\n", b"mine 3\n")


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        (ConflictSide.YOURS, AGENT.replace(b"the agent's 3\n", b"mine 3\n")),
        (ConflictSide.AGENT, AGENT),
        (ConflictSide.BOTH, AGENT.replace(b"the agent's 3\n", b"mine 3\nthe agent's 3\n")),
        (b"from an editor\n", b"from an editor\n"),
    ],
)
def test_a_line_conflict_is_resolved_as_requested(session: EndedSession, how: ConflictSide | bytes, wanted: bytes) -> None:
    (session.real / "x").write_bytes(CONFLICT)
    assert session.conflicts() == {b"x": "you and the agent changed the same lines"}
    session.merge_selected(SelectionRequest(resolutions=((X, how),)))

    assert text(session) == wanted
    assert session.kinds() == {b"y": ChangeKind.ADDED}
    session.undo()
    assert text(session) == CONFLICT
    assert session.conflicts() == {b"x": "you and the agent changed the same lines"}


@pytest.mark.parametrize(("how", "wanted"), [(ConflictSide.YOURS, b"mine\0"), (ConflictSide.AGENT, b"agent\0")])
def test_a_binary_conflict_is_resolved_by_one_side(tmp_path: Path, how: ConflictSide, wanted: bytes) -> None:
    with EndedSession(
        tmp_path, {b"x": file(b"base\0"), b"y": file(b"y")}, [UpperEntry(b"x", file(b"agent\0")), UpperEntry(b"y", file(b"Y"))]
    ) as one:
        (one.real / "x").write_bytes(b"mine\0")
        with pytest.raises(UsageError, match="both changed it, and it is not a text file; only one side can be applied"):
            one.merge_selected(SelectionRequest(resolutions=((X, ConflictSide.BOTH),)))
        one.merge_selected(SelectionRequest(resolutions=((X, how),)))

        assert text(one) == wanted
        assert (one.kinds(), one.conflicts()) == ({b"y": ChangeKind.EDITED}, {})
        one.undo()
        assert (text(one), one.conflicts()) == (b"mine\0", {b"x": "both changed it, and it is not a text file"})


@pytest.mark.parametrize(("how", "is_there"), [(ConflictSide.YOURS, True), (ConflictSide.AGENT, False)])
def test_a_conflict_of_deletion_and_edit_is_resolved_by_one_side(tmp_path: Path, *, how: ConflictSide, is_there: bool) -> None:
    with EndedSession(tmp_path, {b"x": file(b"base")}, [UpperEntry(b"x", None)]) as one:
        (one.real / "x").write_bytes(b"mine")
        one.merge_selected(SelectionRequest(resolutions=((X, how),)))

        assert (one.real / "x").exists() == is_there
        assert (one.kinds(), one.conflicts()) == ({}, {})
        one.undo()
        assert (text(one), one.conflicts()) == (b"mine", {b"x": "you changed it, the agent deleted it"})
        one.redo()
        assert (one.kinds(), one.conflicts()) == ({}, {})


def test_resolving_edit_against_deletion_can_restore_the_file(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {b"x": file(b"base")}, [UpperEntry(b"x", file(b"agent"))]) as one:
        (one.real / "x").unlink()
        assert one.conflicts() == {b"x": "you deleted it, the agent changed it"}
        one.merge_selected(SelectionRequest(resolutions=((X, ConflictSide.AGENT),)))

        assert text(one) == b"agent"
        one.undo()
        assert not (one.real / "x").exists()
        assert one.conflicts() == {b"x": "you deleted it, the agent changed it"}


@pytest.mark.parametrize("how", ConflictSide)
def test_the_hint_of_a_change_below_a_file_tells_how_to_resolve_it(tmp_path: Path, how: ConflictSide) -> None:
    marks = [UpperEntry(b"p", Node(DIRECTORY, b"", 0o755)), UpperEntry(b"p/q", file(b"q"))]
    request = SelectionRequest(resolutions=((Key(0, b"p/q"), how),))
    with EndedSession(tmp_path, {b"x": file(b"x")}, marks) as one:
        (one.real / "p").write_bytes(b"mine")
        with pytest.raises(UsageError, match="p is not a directory any more") as refused:
            one.merge_selected(request)
        assert refused.value.hint == "make p a directory again, then run agent-dev merge"

        (one.real / "p").unlink()
        (one.real / "p").mkdir()
        one.merge_all()
        assert (one.real / "p/q").read_bytes() == b"q"


def test_a_change_without_a_conflict_is_not_resolved(session: EndedSession) -> None:
    with pytest.raises(UsageError, match="has no conflict"):
        session.merge_selected(SelectionRequest(resolutions=((X, ConflictSide.YOURS),)))


# --- many deletions, and exports ---


@pytest.mark.parametrize(("gone", "percent", "many"), [(30, 25, 30), (30, 80, 0), (9, 0, 0), (11, 0, 11)])
def test_many_deletions_are_counted_relative_to_the_tree(tmp_path: Path, gone: int, percent: int, many: int) -> None:
    names = [b"f%d" % number for number in range(40)]
    with EndedSession(tmp_path, dict.fromkeys(names, file(b"x")), [UpperEntry(name, None) for name in names[:gone]]) as one:
        review = one.review()
        selected, asked = select_by_options.select_requested(review, SelectionRequest(select_all=True, include_risky=True))
        planned = merge.plan_selection(review, selected, asked)
        review.close()

        assert merge.excessive_deletions(review, planned, percent) == many


@pytest.mark.parametrize(
    ("made", "many"),
    [
        (lambda name: [UpperEntry(name, file(b""))], 30),
        (lambda name: [UpperEntry(name, file(b"x" * 50))], 30),
        (lambda name: [UpperEntry(name, file(b"y" * 1900))], 0),
        (lambda name: [UpperEntry(name, Node(SYMLINK, b"elsewhere"))], 30),
        (lambda name: [UpperEntry(name, Node(DIRECTORY, b"", 0o755))], 30),
        (lambda name: [UpperEntry(name, Node(DIRECTORY, b"", 0o755)), UpperEntry(name + b"/g", file(b"g"))], 30),
        (lambda name: [UpperEntry(name, None), UpperEntry(b"moved-" + name, file(name * 700))], 0),
        (lambda name: [UpperEntry(name, None), UpperEntry(b"moved-" + name, file(name * 700 + b"more"))], 30),
    ],
    ids=["emptied", "gutted", "edited", "links", "empty directories", "directories", "moved", "moved and edited"],
)
def test_emptied_files_count_as_deleted(tmp_path: Path, made: Callable[[bytes], list[UpperEntry]], many: int) -> None:
    names = [b"f%02d" % number for number in range(40)]
    with EndedSession(
        tmp_path, {name: file(name * 700) for name in names}, [one for name in names[:30] for one in made(name)]
    ) as one:
        review = one.review()
        selected, asked = select_by_options.select_requested(review, SelectionRequest(select_all=True, include_risky=True))
        planned = merge.plan_selection(review, selected, asked)
        review.close()

        assert merge.excessive_deletions(review, planned, 25) == many


def test_the_halves_of_a_rename_are_selected_together(tmp_path: Path) -> None:
    marks = [UpperEntry(name, None) for name in (b"old", b"gone", b"x")]
    marks += [UpperEntry(b"new", file(b"same\n")), UpperEntry(b".envrc", file(b"x\n"))]
    before = {b"old": file(b"same\n"), b"gone": file(b"gone\n"), b"x": file(b"x\n")}
    with EndedSession(tmp_path, before, marks) as one:
        table = {change.key.path: change for change in one.changes().changes}
        risky = {path for path, change in table.items() if change.risks}
        one.merge_selected(SelectionRequest(select_all=True))

        assert (risky, table[b"old"].requires, table[b"new"].requires) == (
            {b"gone", b".envrc"},
            (Key(0, b"new"),),
            (Key(0, b"old"),),
        )
        assert sorted(path.name for path in one.real.iterdir()) == ["gone", "new", "x"]


@pytest.mark.parametrize("kind", [FILE, SYMLINK])
def test_a_deletion_below_a_replaced_directory_is_merged_alone(tmp_path: Path, kind: FileType) -> None:
    before = {b"d": Node(DIRECTORY, b"", 0o755), b"d/e": Node(DIRECTORY, b"", 0o755), b"d/e/a": file(b"1\n")}
    before[b"d/b"] = file(b"2\n")
    with EndedSession(tmp_path, before, [UpperEntry(b"d", Node(kind, b"target"))]) as one:
        one.merge_selected(SelectionRequest(paths=(Key(0, b"d/e/a"),)))
        assert sorted(trees.read(one.real)) == [b"d", b"d/b"]
        assert {change.key.path: change.kind for change in one.changes().changes} == {
            b"d": ChangeKind.RETYPED,
            b"d/b": ChangeKind.DELETED,
        }


def test_selected_changes_can_be_exported(tmp_path: Path) -> None:
    marks = [
        UpperEntry(b"x", file(AGENT)),
        UpperEntry(b"n", Node(DIRECTORY, b"", 0o755)),
        UpperEntry(b"n/y\xff", file(b"new")),
        UpperEntry(b"z", None),
    ]
    with EndedSession(tmp_path, {b"x": file(BASE), b"z": file(b"z")}, marks) as one:
        before = trees.read(one.real)
        review = one.review()
        selected, asked = select_by_options.select_requested(review, SelectionRequest(select_all=True, include_risky=True))
        planned = merge.plan_selection(review, selected, asked)
        gone = export.export(review, planned, str(tmp_path / "out"), lambda key: key.path)
        export.export(review, planned, str(tmp_path / "out.patch"), lambda key: key.path)
        with pytest.raises(UsageError, match="already exists"):
            export.export(review, planned, str(tmp_path / "out"), lambda key: key.path)
        review.close()

        assert gone == (Key(0, b"z"),)
        wanted = {b"x": file(AGENT), b"n/y\xff": file(b"new")}
        assert {path: node for path, node in trees.read(tmp_path / "out").items() if node.type is FILE} == wanted
        patch = (tmp_path / "out.patch").read_bytes()
        assert b"deleted file mode" in patch
        assert b"+the agent's 3" in patch
        assert trees.read(one.real) == before


def exported_as_patch(session: EndedSession, target: Path) -> set[bytes]:
    """Export everything as a patch, print the result, and return the paths that are not in it."""
    review = session.review()
    try:
        planned = merge.plan_selection(review, select_all(review.changes, risky=True), frozenset())
        count = len(planned.selected)
        gone = export.export(review, planned, str(target), lambda key: key.path)
    finally:
        review.close()
    print_export(count, target.name, [os.fsdecode(key.path) for key in gone], is_patch=True)
    return {key.path for key in gone}


def test_an_empty_patch_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = {b"d": Node(DIRECTORY, b"", 0o755), b"d/x": file(b"x")}
    with EndedSession(tmp_path, base, [UpperEntry(b"d", Node(DIRECTORY, b"", 0o700)), UpperEntry(b"p", Node(FIFO))]) as one:
        assert exported_as_patch(one, tmp_path / "out.patch") == {b"d", b"p"}
    assert capsys.readouterr().out.splitlines()[0] == "out.patch is empty: no git patch can contain the 2 changes"


def test_a_patch_contains_a_file_replaced_by_a_directory_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    marks = [UpperEntry(b"x", Node(DIRECTORY)), UpperEntry(b"x/y", file(b"y\n")), UpperEntry(b"z", Node(DIRECTORY))]
    with EndedSession(tmp_path, {b"x": file(b"x\n"), b"z": file(b"z\n")}, marks) as one:
        assert exported_as_patch(one, tmp_path / "out.patch") == {b"z"}


# Modes, and partial deletions


@pytest.fixture
def script(tmp_path: Path) -> Iterator[EndedSession]:
    marks = [UpperEntry(b"x", Node(FILE, AGENT, 0o755)), UpperEntry(b"new", Node(FILE, b"a\nb\n", 0o755))]
    with EndedSession(tmp_path, {b"x": file(BASE), b"old": file(b"1\n2\n3\n")}, [*marks, UpperEntry(b"old", None)]) as made:
        yield made


def mode(session: EndedSession, name: str) -> int:
    return (session.real / name).stat().st_mode & 0o777


def test_a_mode_is_applied_without_the_lines(script: EndedSession) -> None:
    script.merge_hunks(b"x", LineSelection())

    assert (text(script), mode(script, "x")) == (BASE, 0o755)
    assert script.kinds()[b"x"] is ChangeKind.EDITED


def test_lines_are_applied_without_the_mode_which_stays_in_the_session(script: EndedSession) -> None:
    script.merge_hunks(b"x", LineSelection(frozenset((0, 1, 2)), mode=False))

    assert (text(script), mode(script, "x")) == (AGENT, 0o644)
    assert script.kinds()[b"x"] is ChangeKind.METADATA


def test_hunks_by_number_leave_the_mode_in_the_session(script: EndedSession) -> None:
    take(script, 1, 2, 3)

    assert (text(script), mode(script, "x")) == (AGENT, 0o644)
    assert script.kinds()[b"x"] is ChangeKind.METADATA


@pytest.mark.parametrize("wanted", [AGENT, BASE.replace(b"line 15\n", b"")])
@pytest.mark.parametrize("has_mode", [False, True])
def test_a_patch_applies_the_mode_only_if_it_has_it(script: EndedSession, wanted: bytes, *, has_mode: bool) -> None:
    patch = patch_of(script, BASE, wanted)
    assert b"old mode 100644\nnew mode 100755\n" in patch
    if not has_mode:
        patch = patch[patch.index(b"--- a/x") :]
    script.merge_selected(SelectionRequest(patch=patch))

    assert (text(script), mode(script, "x")) == (wanted, 0o755 if has_mode else 0o644)
    is_all = wanted == AGENT and has_mode
    assert script.kinds().get(b"x") is (None if is_all else ChangeKind.METADATA if wanted == AGENT else ChangeKind.EDITED)


def test_a_patch_of_the_mode_alone_applies_no_lines(script: EndedSession) -> None:
    script.merge_selected(SelectionRequest(patch=b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"))

    assert (text(script), mode(script, "x")) == (BASE, 0o755)


def test_a_patch_leaves_the_attributes_in_the_session(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {b"x": file(BASE)}, [UpperEntry(b"x", file(AGENT))]) as one:
        os.setxattr(one.upper / "x", "user.q", b"1")
        one.merge_selected(SelectionRequest(patch=patch_of(one, BASE, AGENT)))
        assert (text(one), os.listxattr(one.real / "x")) == (AGENT, [])
        assert one.kinds()[b"x"] is ChangeKind.METADATA


def test_a_patch_of_a_new_script_has_its_mode(script: EndedSession) -> None:
    change = script.changes().by_key()[Key(0, b"new")]
    patch = patch_write.change_patch(change, b"new", None, b"a\nb\n")
    merged = script.merge_selected(SelectionRequest(patch=patch.replace(b"100755", b"100644")))

    assert (mode(script, "new"), script.kinds()[b"new"]) == (0o644, ChangeKind.METADATA)
    script.undo(merged.id)
    script.merge_selected(SelectionRequest(patch=patch))
    assert (mode(script, "new"), script.kinds().get(b"new")) == (0o755, None)


def test_lines_of_a_new_script_are_applied_as_a_plain_file(script: EndedSession) -> None:
    script.merge_hunks(b"new", LineSelection(new_lines=frozenset((0,)), mode=False))

    assert ((script.real / "new").read_bytes(), mode(script, "new")) == (b"a\n", 0o644)
    assert script.kinds()[b"new"] is ChangeKind.EDITED


def test_a_partly_applied_deletion_stays_a_deletion_in_the_session(script: EndedSession) -> None:
    merged = script.merge_hunks(b"old", LineSelection(old_lines=frozenset((1,))))

    assert (script.real / "old").read_bytes() == b"1\n3\n"
    assert script.kinds()[b"old"] is ChangeKind.DELETED
    script.undo(merged.id)
    assert (script.real / "old").read_bytes() == b"1\n2\n3\n"
    assert script.kinds()[b"old"] is ChangeKind.DELETED
    script.merge_all()
    assert not (script.real / "old").exists()


def test_a_part_keeps_a_mode_that_the_user_set(session: EndedSession) -> None:
    (session.real / "x").chmod(0o755)
    take(session, 1)
    session.merge_all()

    assert (text(session), (session.real / "x").stat().st_mode & 0o777) == (AGENT, 0o755)
    assert session.kinds() == {}


@pytest.mark.parametrize("mode", [0o0, 0o7000, 0o200])
def test_a_hunk_of_a_file_that_is_unreadable_now_is_applied(tmp_path: Path, mode: int) -> None:
    with EndedSession(tmp_path, {b"x": file(BASE)}, [UpperEntry(b"x", Node(FILE, AGENT, mode))]) as session:
        session.merge_hunks(b"x", LineSelection(frozenset((0,))))
        session.undo()
        assert text(session) == BASE
        session.redo()
        assert (session.real / "x").stat().st_mode & 0o777 == mode & 0o777
        (session.real / "x").chmod(0o644)
        assert text(session) == BASE.replace(b"line 3\n", b"the agent's 3\n")


def test_a_change_in_a_directory_without_access_names_the_directory() -> None:
    """The sides cannot be compared, so none resolves the conflict; once the user has access, it is one of two new files."""
    marks = [UpperEntry(b"d", Node(DIRECTORY, b"", 0)), UpperEntry(b"d/a", file(b"more\n")), UpperEntry(b"d/n/b", file(b"new\n"))]
    base = {b"d": Node(DIRECTORY, b"", 0), b"d/a": file(b"a\n")}

    def check() -> None:
        with EndedSession(folder, base, [*marks[:1], UpperEntry(b"d/n", Node(DIRECTORY)), *marks[1:]]) as session:
            assert session.conflicts() == {b"d/a": "you cannot access d", b"d/n/b": "you cannot access d"}
            with pytest.raises(UsageError) as refused:
                session.merge_selected(SelectionRequest(resolutions=((Key(0, b"d/a"), ConflictSide.AGENT),)))
            assert refused.value.hint == "chmod u+rwx d, then run agent-dev merge"
            (session.real / "d").chmod(0o755)
            assert session.conflicts() == {b"d/a": "both added it, with different contents"}

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(check)
