"""Changes found at the end of a session are reused by the next command: they are searched once, and equal a new search."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.fs import walk
from agent_dev.merge.review import open_review
from agent_dev.overlay.fold_renames import fold_renames
from agent_dev.run import finish
from agent_dev.session import store
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.trees import DIRECTORY, FILE, Node, UpperEntry

BASE = b"".join(b"line %d\n" % number for number in range(30))
AGENT = BASE.replace(b"line 3\n", b"three\n")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[EndedSession]:
    marks = [
        UpperEntry(b"x", Node(FILE, AGENT)),
        UpperEntry(b"moved", Node(FILE, BASE * 2)),
        UpperEntry(b"old", None),
        UpperEntry(b"d", Node(DIRECTORY, mode=0o755)),
    ]
    with EndedSession(tmp_path, {b"x": Node(FILE, BASE), b"old": Node(FILE, BASE * 2)}, marks) as made:
        (made.real / "x").write_bytes(BASE.replace(b"line 25\n", b"the user's\n"))  # compatible: it changes other lines
        yield made


def resolved(session: EndedSession) -> finish.KeptContents:
    return finish._count(session.session, store.read_record(session.session), ENVIRON)


def test_changes_are_searched_once(session: EndedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    held = resolved(session)
    assert held.review_cache is not None
    assert held.changes == len(fold_renames(held.review_cache.changes).changes) > 0
    with monkeypatch.context() as patched:
        patched.setattr(walk, "walk", lambda *_, **__: pytest.fail("walked again"))
        review = open_review(session.session, ENVIRON, with_risks=False, seen=held.review_cache)
    review.close()


def test_cached_changes_equal_a_new_search(session: EndedSession) -> None:
    seen = resolved(session).review_cache
    again = open_review(session.session, ENVIRON, with_risks=False)
    served = open_review(session.session, ENVIRON, with_risks=False, seen=seen)
    try:
        assert served.changes == again.changes
        assert served.reconciliations == again.reconciliations
        assert served.reconciliations
        assert served.assess() == again.assess()
    finally:
        served.close()
        again.close()


def test_with_an_unreadable_directory_changes_are_searched_again(session: EndedSession) -> None:
    (session.upper / "d").chmod(0)
    held = resolved(session)
    assert held.changes
    assert (held.review_cache is None) == (os.getuid() != 0), "root is kept out of no directory"
