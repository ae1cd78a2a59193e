"""Network rules next to the profiles: those that answers made, and the hosts of agents."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_dev.config import remembered_rules
from agent_dev.config.profile import Layer
from agent_dev.config.remembered_rules import ALLOW, DENY, RememberedRules, read_rules, remember
from agent_dev.errors import InvalidConfiguration
from tests.disk.config.load_world import User

ASK = Layer({"net": "ask"}, {"net": "--net"})


def test_remembered_rules_count_with_a_gateway_alone_and_have_an_origin(user: User) -> None:
    user.write("profiles/mine.yaml", "command: [mine]\nallow: [a.example]\n")
    path = user.write("network/mine.yaml", "allow:\n  - b.example:22\ndeny: [c.example]\n")
    assert user.settings().profile.allow == ("a.example",)
    found = user.settings(flags=ASK)
    assert (found.profile.allow, found.profile.deny) == (("a.example", "b.example:22"), ("c.example",))
    assert found.origins["allow:b.example:22"] == f"{path}:2"
    assert user.settings("other", flags=ASK).profile.allow == ()


@pytest.mark.parametrize("text", ["net: host", "allow: x", "allow: [a b]", "deny: [unix:/x]", "- a", "\0", "allow: [a.example"])
def test_a_damaged_file_of_remembered_rules_is_refused_with_its_line(user: User, text: str) -> None:
    user.write("profiles/mine.yaml", "command: [mine]\n")
    user.write("network/mine.yaml", text)
    assert user.settings().profile.net == "host"
    assert all(line.startswith("…/network/mine.yaml:1: ") for line in user.problems(flags=ASK))


def test_the_hosts_of_an_agent_are_rules_and_its_telemetry_is_denied(user: User) -> None:
    text = "command: [mine]\ndeny: [own.example]\nagent:\n  hosts: [a.example, own.example]\n  telemetry:\n    - t.example\n"
    path = user.write("profiles/mine.yaml", text)
    assert user.settings().profile.allow == ()
    found = user.settings(flags=ASK)
    assert (found.profile.allow, found.profile.deny) == (("a.example", "own.example"), ("own.example", "t.example"))
    assert found.origins["allow:a.example"] == f"{path}:4, agent.hosts"
    assert (found.origins["deny:t.example"], found.origins["deny:own.example"]) == (f"{path}:5, agent.telemetry", f"{path}:2")
    user.write("profiles/mine.yaml", text.replace("t.example", "no host").replace("a.example", "-"))
    assert len(user.problems()) == 2


def test_remembering_a_rule_takes_it_out_of_the_other_list(tmp_path: Path) -> None:
    path = f"{tmp_path}/network/mine.yaml"
    for field, rule in ((ALLOW, "a.example:443"), (ALLOW, "[2001:db8::1]:22"), (DENY, "a.example:443"), (DENY, "a.example:443")):
        remember(path, field, rule)
    assert read_rules(path) == RememberedRules(("[2001:db8::1]:22",), ("a.example:443",))
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_concurrent_answers_are_all_remembered(tmp_path: Path) -> None:
    path = f"{tmp_path}/network/mine.yaml"
    names = [f"n{number}.example:443" for number in range(30)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda rule: remember(path, ALLOW, rule), names))
    assert sorted(read_rules(path).allow) == sorted(names)


def test_a_damaged_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("allow: {")
    with pytest.raises(InvalidConfiguration):
        remember(str(path), ALLOW, "a.example:443")
    assert path.read_text() == "allow: {"


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "mine.yaml"
    path.symlink_to(tmp_path / "elsewhere" / "mine.yaml")
    remember(str(path), remembered_rules.ALLOW, "a.example:443")
    assert path.is_symlink()
    assert read_rules(str(path)).allow == ("a.example:443",)
