"""The changes that belong to a repository that the agent created inside a root."""

import pytest

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.embedded_repositories import find_repositories, is_inside
from agent_dev.risk.risk_rules import RiskRule, find_risks


def change(path: str, kind: ChangeKind = ChangeKind.ADDED) -> Change:
    entry = Entry(FileType.FILE, 0o644, 1)
    return Change(
        Key(0, path.encode()), kind, None if kind is ChangeKind.ADDED else entry, None if kind is ChangeKind.DELETED else entry
    )


BARE = ["b.git/HEAD", "b.git/objects/info", "b.git/refs/heads"]

CASES = [
    ("a clone", ["vendor/x/.git", "vendor/x/a"], {"vendor/x"}),
    ("in other letters", ["x/.GIT", "x/a"], {"x"}),
    ("in each other", ["x/.git", "x/y/.git"], {"x", "x/y"}),
    ("bare", BARE, {"b.git"}),
    ("no bare one without refs", BARE[:2], set()),
    ("no bare one without HEAD", BARE[1:], set()),
    ("a directory of that name", ["x/HEAD", "x/y/objects/info", "x/refs/heads"], set()),
    ("the root itself", [".git", "a"], set()),
    ("the root itself as a bare one", ["HEAD", "objects/info", "refs/heads"], set()),
    ("names that are like it", ["x/.github", "x/.gitignore", "x/a.git"], set()),
]


@pytest.mark.parametrize(("name", "paths", "expected"), CASES, ids=[row[0] for row in CASES])
def test_a_directory_that_became_a_repository_is_found(name: str, paths: list[str], expected: set[str]) -> None:
    assert find_repositories(map(change, paths)) == {path.encode() for path in expected}, name


@pytest.mark.parametrize("kind", [ChangeKind.EDITED, ChangeKind.DELETED])
def test_an_existing_repository_is_not_the_agents(kind: ChangeKind) -> None:
    assert find_repositories([change("x/.git", kind), change("x/a")]) == frozenset()


@pytest.mark.parametrize(("path", "expected"), [(b"x", True), (b"x/a/b", True), (b"xy/a", False), (b"a/x", False), (b"", False)])
def test_everything_below_a_new_repository_belongs_to_it(*, path: bytes, expected: bool) -> None:
    assert is_inside(path, frozenset((b"x",))) is expected


def test_a_rule_for_new_repositories_applies_nowhere_else() -> None:
    rules = (RiskRule("inner", "why", in_repository=True), RiskRule("any", "why"))

    assert [risk.rule for risk in find_risks(change("a"), rules)] == ["any"]
    assert [risk.rule for risk in find_risks(change("a"), rules, is_embedded=True)] == ["inner", "any"]
