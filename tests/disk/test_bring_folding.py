"""Commits that bring names which differ only in case to a disk that takes them for one: refused and named, nothing is touched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.disk.bring_world import fsck, graces_repository, head, status
from tests.harness import folding
from tests.harness.git_session import GitSession
from tests.harness.repository import commit, git


def write(place: Path, **files: str) -> None:
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)


def move(place: Path, old: str, new: str) -> None:
    (place / old).rename(place / "between")
    (place / "between").rename(place / new)


ACTS: dict[str, tuple[Callable[[Path], object], set[bytes]]] = {
    "two new files": (lambda place: write(place, New="one\n", NEW="two\n"), {b"New", b"NEW"}),
    "one new, where another is": (lambda place: write(place, README="mine\n"), {b"README"}),
    "one new, where another is that is in no commit": (lambda place: write(place, NOTES="n\n"), {b"NOTES"}),
    "the case of a name": (lambda place: move(place, "readme", "Readme"), {b"readme", b"Readme"}),
    "a new folder, where another is": (lambda place: write(place, **{"Lib/a": "a\n"}), {b"Lib/a"}),
}


@contextmanager
def session(state: Path) -> Iterator[GitSession]:
    """A session of a repository on such a disk, with its state on another."""
    if reason := folding.why_not():
        pytest.skip(reason)
    with folding.folding() as disk:
        root = graces_repository(disk / "root")
        write(root, readme="r\n", gone="g\n", **{"lib/m": "m\n"})
        commit(root, "what is there")
        with GitSession(state, root) as made:
            made.let_agent("config", "core.ignorecase", "false")
            yield made


@pytest.mark.only_root
@pytest.mark.parametrize("act", ACTS)
def test_commits_with_what_collides_are_refused_as_a_whole(act: str, tmp_path: Path) -> None:
    with session(tmp_path) as one:
        does, colliding = ACTS[act]
        does(one.agent)
        tip = one.commit("one", else__txt="comes with it\n")
        write(one.root, notes="mine\n")
        one.end()
        before = head(one.root), one.files(), git(one.root, "ls-files", "-s")
        brought = one.bring()

        assert {left.key.path for left in brought.conflicts} == colliding
        assert all("for one name" in left.why for left in brought.conflicts)
        assert (brought.merge, brought.met) == ("", ())
        assert brought.next.endswith("--as NAME")
        assert (head(one.root), one.files(), git(one.root, "ls-files", "-s")) == before
        one.bring(name="theirs")
        assert head(one.root, "theirs") == tip
        assert fsck(one.root) == ""


@pytest.mark.only_root
def test_all_else_comes_home_and_goes_back(tmp_path: Path) -> None:
    with session(tmp_path) as one:
        write(one.agent, readme="theirs\n", libs="no folder\n", **{"lib/M2": "n\n"})
        (one.agent / "gone").unlink()
        tip = one.commit("one")
        one.end()
        before, start = one.files(), head(one.root)
        assert one.bring().conflicts == ()

        assert (head(one.root), status(one.root)) == (tip, "")
        came = {"readme": b"theirs\n", "libs": b"no folder\n", "lib/M2": b"n\n"}
        assert one.files() == {name: data for name, data in {**before, **came}.items() if name != "gone"}
        one.undo()
        assert (head(one.root), status(one.root), one.files()) == (start, "", before)
