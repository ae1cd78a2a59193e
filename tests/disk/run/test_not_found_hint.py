"""The hint for a command that was not found in the sandbox: whether it is a control command, and what it requires."""

from types import SimpleNamespace
from typing import cast

import pytest

from agent_dev.run import command_not_found
from agent_dev.run.request import PreparedRun


def prepared(*system: str, tx_inside: bool = True) -> PreparedRun:
    """Return a prepared run with only what the hint depends on: system directories, and whether there is a control socket."""
    settings = SimpleNamespace(profile=SimpleNamespace(tx_inside=tx_inside))
    return cast("PreparedRun", SimpleNamespace(settings=settings, machine=SimpleNamespace(system=system), untrusted_paths=()))


@pytest.mark.parametrize("word", ["tx", "agent-dev", "checkpoint", "rollback"])
def test_inner_verbs_exist_with_a_control_socket_and_python(word: str) -> None:
    assert command_not_found.is_control_command(word, prepared("/"), is_direct=False)


def test_other_verbs_do_not_exist() -> None:
    assert not command_not_found.is_control_command("merge", prepared("/"), is_direct=False)


@pytest.mark.parametrize(
    ("system", "tx_inside", "is_direct", "hint"),
    [
        ("/", False, False, "`tx_inside: true`"),
        ("/", True, True, "remove --direct"),
        ("/nowhere", True, False, "agent-dev doctor"),
    ],
)
def test_a_hint_names_the_missing_requirement(system: str, hint: str, *, tx_inside: bool, is_direct: bool) -> None:
    here = prepared(system, tx_inside=tx_inside)
    assert not command_not_found.is_control_command("tx", here, is_direct=is_direct)
    assert hint in command_not_found.missing_command_hint("tx", here, is_direct=is_direct)
