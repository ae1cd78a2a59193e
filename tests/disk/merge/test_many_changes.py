"""Queries over a whole merge run a constant number of times: one query for each change would take quadratic time."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.merge import conclude
from agent_dev.merge_engine import merged_texts
from agent_dev.merge_engine.journal import Journal
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import FILE, Node, Tree

LINES = b"".join(b"%d\n" % number for number in range(9))


def world(folder: Path, count: int) -> EndedSession:
    folder.mkdir()
    base: Tree = {b"%d" % number: Node(FILE, LINES) for number in range(count)}
    agent: Tree = {name: Node(FILE, LINES.replace(b"1\n", b"agent\n")) for name in base}
    return EndedSession(folder, base, trees.upper_of(base, agent))


def edited(session: EndedSession) -> None:
    for path in session.real.iterdir():
        path.write_bytes(path.read_bytes().replace(b"7\n", b"user\n"))


def asked(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Counter[str]:
    """Return how often each query over a whole merge is called."""
    counts: Counter[str] = Counter()

    def counted(place: object, name: str) -> None:
        real = getattr(place, name)

        def call(*args: object, **named: object) -> object:
            counts[name] += 1
            return real(*args, **named)

        patch.setattr(place, name, call)

    with monkeypatch.context() as patch:
        counted(Journal, "applied_ops")
        for name in ("_imported_keys", "_saved_slots", "_differing_paths", "_session_only_paths"):
            counted(conclude, name)
        counted(merged_texts, "_texts")
        act()
    return counts


def test_undo_and_redo_need_a_constant_number_of_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[Counter[str]]] = []
    for count in (3, 30):
        with world(tmp_path / f"{count}", count) as session:
            assert len(session.merge_all().applied) == count
            rows = [asked(monkeypatch, session.undo), asked(monkeypatch, session.redo)]
            edited(session)
            rows.append(asked(monkeypatch, lambda session=session: session.undo(is_three_way=True)))  # type: ignore[misc]
            rows.append(asked(monkeypatch, session.redo))
            assert session.changes().changes == ()
        found.append(rows)
    assert found[0] == found[1]
    assert all(row["applied_ops"] for row in found[0])
    assert found[0][2]["_texts"]
