"""Each shipped risk rule says, beside why, what somebody who looks at such a change should look at."""

from pathlib import Path

import pytest
import yaml

from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind, Risk
from agent_dev.risk.risk_rules import RiskRule, judge
from tui.text import labels as words

RULES = yaml.safe_load((Path(__file__).parents[2] / "profiles/risks.yaml").read_text())


@pytest.mark.parametrize("name", RULES)
def test_a_shipped_rule_says_what_to_look_at(name: str) -> None:
    check = RULES[name]["check"]
    assert 10 < len(check) < 130
    assert not check.endswith(".")
    assert check != RULES[name]["why"]


def test_it_comes_with_the_risk() -> None:
    change = Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.FILE))
    assert judge(change, (RiskRule(name="r", why="w", check="c", paths=("x",)),)) == (Risk("r", "w", "c"),)


def test_the_users_own_rules_need_none() -> None:
    assert "each line" in words.look(Risk("mine", "why"))
