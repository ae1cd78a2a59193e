"""A name means a session of the repository in which it is used, before one of another repository."""

from typing import Any

import pytest

from agent_dev.errors import UsageError
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession, match_session


def listed(number: str, root: str, name: str = "fix", state: str = store.MERGED) -> ListedSession:
    record: Any = {"name": name, "root": root, "roots": [root, f"{root}-lib"]}
    return ListedSession(store.Session(number, ""), record, state)


def matched(name: str, root: str) -> str:
    found = match_session((listed("1", "/a"), listed("2", "/a"), listed("3", "/b"), listed("4", "/a", "other")), name, root)
    return found.session.id if found else ""


def test_a_name_means_the_newest_session_of_this_repository() -> None:
    assert (matched("fix", "/a"), matched("fix", "/a-lib"), matched("fix", "/b")) == ("2", "2", "3")


def test_a_name_that_no_session_here_has_means_the_newest_elsewhere() -> None:
    assert (matched("fix", "/c"), matched("other", "/b"), matched("none", "/a")) == ("3", "4", "")


def test_an_id_means_its_session_everywhere() -> None:
    assert (matched("1", "/b"), matched("3", "/a")) == ("1", "3")


def test_a_name_means_the_open_session_even_if_a_newer_one_was_merged() -> None:
    found = match_session((listed("1", "/a", state=store.WAITING), listed("2", "/a"), listed("3", "/b")), "fix", "/a")
    assert found is not None
    assert found.session.id == "1"


@pytest.mark.parametrize(("other", "root"), [("/a", "/a"), ("/a", "/c"), ("/b", "/c")])
def test_a_name_of_two_open_sessions_is_refused_but_not_their_ids(other: str, root: str) -> None:
    two = (listed("1", "/a", state=store.WAITING), listed("2", other, state=store.KILLED))
    with pytest.raises(UsageError, match="2 open sessions have the name fix: 1, 2"):
        match_session(two, "fix", root)
    assert match_session(two, "1", root) is two[0]


def test_an_open_session_elsewhere_is_found_before_a_merged_one() -> None:
    two = (listed("1", "/a", state=store.WAITING), listed("2", "/b"))
    assert match_session(two, "fix", "/c") is two[0]
