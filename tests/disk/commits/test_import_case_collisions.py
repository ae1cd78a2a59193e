"""Commits with names that collide on a case-insensitive disk are refused with a list of these names, and nothing is changed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.disk.commits.import_world import fsck, graces_repository, head, status
from tests.harness.disks import case_insensitive_disk
from tests.harness.git.git_session import GitSession
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
    """Yield a session of a repository on a case-insensitive disk; the state directory is on another disk."""
    if reason := case_insensitive_disk.missing_requirement():
        pytest.skip(reason)
    with case_insensitive_disk.case_insensitive_directory() as disk:
        root = graces_repository(disk / "root")
        write(root, readme="r\n", gone="g\n", **{"lib/m": "m\n"})
        commit(root, "what is there")
        with GitSession(state, root) as made:
            made.run_agent_git("config", "core.ignorecase", "false")
            yield made


@pytest.mark.only_root
@pytest.mark.parametrize("act", ACTS)
def test_commits_with_case_collisions_are_refused_as_a_whole(act: str, tmp_path: Path) -> None:
    with session(tmp_path) as one:
        does, colliding = ACTS[act]
        does(one.agent)
        tip = one.commit("one", else__txt="comes with it\n")
        write(one.root, notes="mine\n")
        one.end()
        before = head(one.root), one.files(), git(one.root, "ls-files", "-s")
        imported = one.import_commits()

        assert {left.key.path for left in imported.conflicts} == colliding
        assert all("the same name on this disk" in left.reason for left in imported.conflicts)
        assert (imported.merge, imported.resolvable) == ("", ())
        assert imported.next_command.endswith("--as NAME")
        assert (head(one.root), one.files(), git(one.root, "ls-files", "-s")) == before
        one.import_commits(name="theirs")
        assert head(one.root, "theirs") == tip
        assert fsck(one.root) == ""


@pytest.mark.only_root
def test_other_commits_are_imported_and_undone(tmp_path: Path) -> None:
    with session(tmp_path) as one:
        write(one.agent, readme="theirs\n", libs="no folder\n", **{"lib/M2": "n\n"})
        (one.agent / "gone").unlink()
        tip = one.commit("one")
        one.end()
        before, start = one.files(), head(one.root)
        assert one.import_commits().conflicts == ()

        assert (head(one.root), status(one.root)) == (tip, "")
        came = {"readme": b"theirs\n", "libs": b"no folder\n", "lib/M2": b"n\n"}
        assert one.files() == {name: data for name, data in {**before, **came}.items() if name != "gone"}
        one.undo()
        assert (head(one.root), status(one.root), one.files()) == (start, "", before)
