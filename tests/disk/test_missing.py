"""What is said of a command that is not there inside: whether it is one of the session's own words, and what it lacks."""

from types import SimpleNamespace
from typing import cast

import pytest

from agent_dev.run import command_not_found as missing
from agent_dev.run.prepare import Prepared


def prepared(*system: str, tx_inside: bool = True) -> Prepared:
    """What was decided for a run, as far as it matters: the directories that are shown, and whether there is a door."""
    settings = SimpleNamespace(profile=SimpleNamespace(tx_inside=tx_inside))
    return cast("Prepared", SimpleNamespace(settings=settings, machine=SimpleNamespace(system=system), untrusted=()))


@pytest.mark.parametrize("word", ["tx", "agent-dev", "checkpoint", "rollback"])
def test_its_words_are_there_where_it_has_a_door_and_a_python(word: str) -> None:
    assert missing.is_there(word, prepared("/"), is_direct=False)


def test_other_words_are_not() -> None:
    assert not missing.is_there("merge", prepared("/"), is_direct=False)


@pytest.mark.parametrize(
    ("system", "tx_inside", "is_direct", "hint"),
    [
        ("/", False, False, "`tx_inside: true`"),
        ("/", True, True, "leave --direct"),
        ("/nowhere", True, False, "agent-dev doctor"),
    ],
)
def test_what_it_lacks_is_said(system: str, hint: str, *, tx_inside: bool, is_direct: bool) -> None:
    here = prepared(system, tx_inside=tx_inside)
    assert not missing.is_there("tx", here, is_direct=is_direct)
    assert hint in missing.hint("tx", here, is_direct=is_direct)
