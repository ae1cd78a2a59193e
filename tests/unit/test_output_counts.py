"""Numbers in what is printed: one of a thing has no plural, few bytes are no 0.0 MB, what is left is all that is left."""

from types import SimpleNamespace

import pytest

from agent_dev.cli.render import commits
from agent_dev.cli.render import merge as merging
from agent_dev.cli.render import undo as undoing
from agent_dev.cli.render.format import numbered, size
from agent_dev.commits.bring import Brought
from agent_dev.merge.merge import Merged
from agent_dev.merge.undo import Undone
from agent_dev.merge_engine.merge_plan import Left
from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind
from agent_dev.session import store

KEYS = tuple(Key(0, name) for name in (b"a", b"b", b"c"))


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (10 << 10, "10 KiB"),
        (1023 << 10, "1.0 MiB"),
        (5 << 20, "5.0 MiB"),
        (300 << 30, "300 GiB"),
        (5000 << 30, "5000 GiB"),
    ],
)
def test_a_size_is_never_nothing_unless_it_is(count: int, words: str) -> None:
    assert size(count) == words


def test_one_of_a_thing_has_no_plural() -> None:
    assert [numbered(count, "file") for count in (0, 1, 2, 1234)] == ["0 files", "1 file", "2 files", "1,234 files"]


@pytest.mark.parametrize(("count", "words"), [(1, ", 1 file changed"), (2, ", 2 files changed")])
def test_commits_that_came_say_how_many_files_changed(count: int, words: str) -> None:
    done = Brought("s", merge="m", ref="refs/heads/main", after="0" * 40, taken=KEYS[:count])
    assert words in "\n".join(commits.told(done))


def test_a_conflict_is_left_too(capsys: pytest.CaptureFixture[str]) -> None:
    added = Change(KEYS[0], Kind.ADDED, None, Entry(FileType.FILE, 0o644))
    left = Left(KEYS[1], "it was not asked for")
    done = Merged("m", (added,), (left,), (Left(KEYS[2], "both changed it"),), is_all=False)
    record = {**store.BLANK, "roots": ["/r"], "name": "p"}
    review = SimpleNamespace(record=record, changes=ChangeSet((added,)))  # as much of one as is printed
    merging.merged(done, review, is_dry=False, as_json=False)  # type: ignore[arg-type]
    assert capsys.readouterr().out.splitlines()[-1] == "merge m: 1 taken, 2 left (agent-dev undo)"


def test_a_redo_says_nothing_of_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    undoing.undone(Undone("m", ("/r",), KEYS[:1], ()), as_json=False, word="merged again")
    assert capsys.readouterr().out.splitlines()[-1] == "merge m: 1 merged again"
    undoing.undone(Undone("m", ("/r",), KEYS[:1], (Left(KEYS[1], "it changed"),)), as_json=False, word="undone")
    assert capsys.readouterr().out.splitlines()[-1] == "merge m: 1 undone, 1 left"
