"""Kill an import of commits of two repositories, its undo or its redo at any step: both branches have moved, or neither.

The same holds for the decline of their commits.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent_dev.agent_git import commits
from agent_dev.agent_git.repositories import list_repositories
from agent_dev.commits.decline import decline_commits
from tests.faults.test_kill_commit_import import ACTIONS, State, World, kill_everywhere, nothing, undo
from tests.harness.repository import ENVIRON, git, repository


class TwoRepositories(World):
    """A session with commits in two repositories."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.others = tuple(one.root for one in self.session.agent_roots[1:])

    def other_roots(self, folder: Path) -> tuple[Path, ...]:
        return (repository(folder / "other"),)

    def add_commits(self) -> None:
        self.session.agent_roots[1].commit("two", b__txt="other\n", a__txt="agent\n")

    def state(self) -> State:
        """Return the state of both repositories."""
        found = super().state()
        for root in self.others:
            logs = {str(path): path.read_bytes() for path in (root / ".git/logs").rglob("*") if path.is_file()}
            found = replace(
                found,
                refs=found.refs + git(root, "for-each-ref"),
                logs=found.logs | {f"{name}-other": data for name, data in logs.items()},
                index=found.index + git(root, "ls-files", "-s", "-v"),
                status=found.status + git(root, "--no-optional-locks", "status", "--porcelain"),
                files=found.files | {f"other/{path.name}": path.read_bytes() for path in root.glob("*.txt")},
            )
        return found

    def expect_rest(self) -> None:
        super().expect_rest()
        for root in self.others:
            assert git(root, "fsck", "--strict", "--no-dangling") == ""
            left = [path for path in root.rglob("*") if "agent-dev" in path.name or path.name.endswith(".lock")]
            assert left == []


@pytest.mark.parametrize("action", ["the branch goes forward", "an undo", "a redo"])
def test_an_import_in_two_repositories_killed_anywhere_moves_both_or_none(
    action: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("points", kill_everywhere(*ACTIONS[action], TwoRepositories))


class Undecided(TwoRepositories):
    """A session whose state includes the number of undecided commits by repository."""

    def state(self) -> State:
        found, session = super().state(), self.session
        sources = list_repositories(session.session, session.record)
        counts = [len(commits.list_undecided(source, ENVIRON)) for source in sources]
        return replace(found, refs=f"{found.refs}\nundecided\t{counts}")


def decline(one: World) -> None:
    review = one.session.review()
    try:
        decline_commits(review, ("",), one.session.store, one.session.printed.append)
    finally:
        review.close()


@pytest.mark.parametrize(("prepare", "act"), [(nothing, decline), (decline, undo)], ids=["decline", "undo"])
def test_a_decline_killed_anywhere_declines_all_commits_or_none(
    prepare: Callable[[World], None], act: Callable[[World], None], record_property: Callable[[str, object], None]
) -> None:
    record_property("points", kill_everywhere(prepare, act, Undecided))
