"""The live view of `watch` as lines, and its events as text and JSON."""

import json
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.cli.render.colour import PLAIN, Palette
from agent_dev.cli.watch.event_output import event_line, event_row
from agent_dev.cli.watch.events import Event, EventKind
from agent_dev.cli.watch.live_view import LiveView, screen_lines
from tui.text.cells import width

NOW = 1_795_450_834_000_000_000
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b\r\n\x07\u202e\u0301😀"), max_size=60)


def is_harmless(line: str) -> bool:
    """Return whether a line has no control characters, surrogates, line separators and reordering."""
    return not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char == "\u202e" for char in line)


def change(path: str, kind: str = "edited", origin: str | None = None) -> Event:
    return Event(EventKind.CHANGE, NOW, path, {"kind": kind, "path": path, "from": origin})


def command(line: str, **details: object) -> Event:
    return Event(EventKind.COMMAND, NOW, line, {"pid": 1, "argv": line.split(), "decision": "allow", **details})


def view_of(*events: Event, waiting: int = 0) -> LiveView:
    view = LiveView("fix", "claude", time.time_ns(), change_count=sum(event.kind is EventKind.CHANGE for event in events))
    for event in events:
        view.add(event)
    until = time.time_ns() + 60 * 10**9
    view.waiting = {number: {"argv": ["git", "push", str(number)], "until": until} for number in range(1, waiting + 1)}
    return view


@given(
    st.integers(1, 200),
    st.integers(1, 60),
    st.lists(TEXTS, max_size=40),
    st.lists(TEXTS, max_size=40),
    st.integers(0, 9),
    st.sampled_from((PLAIN, Palette(is_coloured=True))),
)
def test_the_view_fits_into_any_terminal(
    columns: int, rows: int, paths: list[str], lines: list[str], waiting: int, palette: Palette
) -> None:
    view = view_of(*map(change, paths), *(command(line) for line in lines), waiting=waiting)
    view.add(Event(EventKind.CHECKPOINT, NOW, "checkpoint 1 (start), 3 paths changed", {}))
    plain = screen_lines(view, columns, rows, PLAIN)
    assert len(plain) == rows
    assert all(width(line) <= columns and is_harmless(line) for line in plain)
    painted = screen_lines(view, columns, rows, palette)
    assert len(painted) == rows


def test_the_latest_paths_come_first_and_a_reverted_one_is_gone() -> None:
    view = view_of(change("a"), change("b"), change("a"), change("c"), Event(EventKind.REVERTED, NOW, "b", {"kind": "edited"}))
    rows = [line.split()[-1] for line in screen_lines(view, 80, 24, PLAIN) if line.startswith("  ~")]
    assert rows == ["c", "a"]


def test_a_long_path_keeps_its_end() -> None:
    (row,) = [line for line in screen_lines(view_of(change("x" * 200 + "/name.py")), 80, 24, PLAIN) if "name.py" in line]
    assert row.endswith("/name.py")
    assert "…" in row


def test_a_failed_command_shows_its_exit_status() -> None:
    end = Event(EventKind.EXIT, NOW, "make test", {"pid": 7, "exit": 2})
    view = view_of(command("make test", pid=7), command("make test", pid=8), command("ls"), command("false", exit=1), end)
    rows = [line.strip() for line in screen_lines(view, 80, 24, PLAIN)]
    assert rows[rows.index("Commands 4") + 1 :][:4] == ["false  exit 1", "ls", "make test", "make test  exit 2"]


def test_free_rows_go_to_the_section_that_needs_them() -> None:
    many = [change(f"f{number}") for number in range(100)]
    lines = screen_lines(view_of(*many, command("one")), 80, 24, PLAIN)
    assert sum(line.startswith("  ~") for line in lines) >= 12
    lines = screen_lines(view_of(change("one"), *(command(f"c{number}") for number in range(100))), 80, 24, PLAIN)
    assert sum(line.startswith("  c") for line in lines) >= 12
    lines = screen_lines(view_of(*many, *(command(f"c{number}") for number in range(100))), 80, 24, PLAIN)
    assert sum(line.startswith("  ~") for line in lines) >= 6
    assert sum(line.startswith("  c") for line in lines) >= 6


def test_memory_is_bounded() -> None:
    view = view_of(*(change(f"f{number}") for number in range(5000)), *(command(f"c{number}") for number in range(5000)))
    for number in range(5000):
        view.add(Event(EventKind.EXIT, NOW, f"c{number}", {"pid": number, "exit": 0}))
    assert max(map(len, (view.changes, view.commands, view.exits, view.checkpoints))) <= 300
    assert view.command_count == 5000


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (change("a\x1b[31m", "renamed", "b\n"), "change      renamed  a␛[31m (from b␊)"),
        (command("rm -rf /", decision="deny"), "command     denied: rm -rf /"),
        (command("git push", decision="ask", answer="yes"), "command     approved: git push"),
        (command("git push", decision="ask", answer="none"), "command     denied, no answer: git push"),
        (command("rm -r a", decision="checkpoint"), "command     checkpoint: rm -r a"),
        (Event(EventKind.EXIT, NOW, "make", {"exit": 2, "duration": 1500}), "exit        make  (exit status 2, 1.5 s)"),
        (Event(EventKind.APPROVAL, NOW, "git push", {"number": 3}), "approval    3: git push  (agent-dev approve 3)"),
        (Event(EventKind.END, NOW, "over", {"next": None}), "end         over"),
        (Event(EventKind.END, NOW, "over", {"next": "agent-dev merge s"}), "end         over; next: agent-dev merge s"),
    ],
)
def test_an_event_is_one_line_of_text(event: Event, text: str) -> None:
    assert event_line(event, PLAIN)[10:] == text


@given(TEXTS)
def test_an_event_is_one_line_whatever_its_text_is(text: str) -> None:
    assert is_harmless(event_line(change(text), PLAIN))
    row = event_row(change(text))
    assert "\n" not in row
    assert json.loads(row) == {"event": "change", "time": NOW, "kind": "edited", "path": text, "from": None}
