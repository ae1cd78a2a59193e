"""Each shipped risk rule has a reason and advice on what to check in such a change."""

from pathlib import Path

import pytest
import yaml

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, Risk
from agent_dev.risk.risk_rules import RiskRule, find_risks
from tui.text import labels

RULES = yaml.safe_load((Path(__file__).parents[3] / "profiles/risks.yaml").read_text())


@pytest.mark.parametrize("name", RULES)
def test_a_shipped_rule_has_advice_on_what_to_check(name: str) -> None:
    check = RULES[name]["check"]
    assert 10 < len(check) < 130
    assert not check.endswith(".")
    assert check != RULES[name]["why"]


def test_a_risk_has_the_advice_of_its_rule() -> None:
    change = Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.FILE))
    assert find_risks(change, (RiskRule(name="r", why="w", check="c", paths=("x",)),)) == (Risk("r", "w", "c"),)


def test_rules_of_the_user_need_no_advice() -> None:
    assert "every line" in labels.risk_check(Risk("mine", "why"))
