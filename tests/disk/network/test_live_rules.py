"""The rules of a running sandbox: answers are added, kept for the session, and read from the profile's file."""

from pathlib import Path

import pytest

from agent_dev.config.remembered_rules import ALLOW, DENY, remember
from agent_dev.network.deciding.live_rules import LiveRules, read_session_rules
from agent_dev.network.gateway_options import file_mark

NAME = "a.example"
Places = tuple[str, tuple[str, tuple[int, ...]]]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Return a session's folder, and the path of the profile's file with its mark: it does not exist."""
    (tmp_path / "session").mkdir()
    return f"{tmp_path}/session", (f"{tmp_path}/network/mine.yaml", ())


def allows(live: LiveRules, name: str = NAME, port: int = 443) -> bool:
    return bool(live.current.allowing(port, name=name)) and not live.current.denying(port, name=name)


def test_answers_for_the_session_hold_in_its_next_run(places: Places) -> None:
    live = LiveRules((), (), *places)
    live.add_for_session(ALLOW, f"{NAME}:443")
    assert allows(live)
    assert not allows(live, port=22)
    assert allows(LiveRules((), (), *places))
    live.add_for_session(DENY, f"{NAME}:443")
    assert not allows(LiveRules((), (), *places))


def test_a_rule_that_another_session_remembers_is_read(places: Places) -> None:
    path, live = places[1][0], LiveRules((), (), *places)
    remember(path, ALLOW, f"{NAME}:443")
    assert not allows(live)
    live.read_changes()
    assert allows(live)
    Path(path).write_text("allow: {")
    live.read_changes()
    assert allows(live)
    Path(path).write_text("")
    live.read_changes()
    assert not allows(live)


def test_a_rule_remembered_before_the_gateway_has_loaded_is_read(places: Places) -> None:
    remember(places[1][0], ALLOW, f"{NAME}:443")
    live = LiveRules((), (), *places)
    live.read_changes()
    assert allows(live)
    same = LiveRules((), (), places[0], (places[1][0], file_mark(places[1][0])))
    same.read_changes()
    assert not allows(same)  # the settings have its rules


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"allow": 7, "deny": []}', '{"allow": ["a b"], "deny": []}', '{"allow": []}']
)
def test_a_damaged_file_of_a_session_has_no_rules(places: Places, text: str) -> None:
    Path(places[0], "network-rules.json").write_text(text)
    assert read_session_rules(places[0]) == read_session_rules("/nowhere")
    assert not allows(LiveRules((), (), *places))
