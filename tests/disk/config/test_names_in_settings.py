"""`agent-dev config` checks the names that the schema of config.yaml does not know, and shows where each value is set."""

from pathlib import Path

import pytest

from agent_dev.cli.commands.settings import config
from agent_dev.config.options import RunOptions
from agent_dev.errors import InvalidConfiguration
from agent_dev.session.sessions import CommandContext, command_context
from tests.disk.config.load_world import User


@pytest.fixture
def context(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandContext:
    """Return the context of a command with a config.yaml, in the home."""
    monkeypatch.chdir(tmp_path)
    user.write(
        "config.yaml", 'keys:\n  apply: x\n  foo: "y"\ntheme: nope\ntx_allow: [deletion, deletoin]\nlimits: {memory: 8G}\n'
    )
    return command_context(RunOptions(), user.environ)


def test_names_of_keys_themes_and_rules_are_checked_together(context: CommandContext, user: User) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        config.run([], context, RunOptions())
    assert refused.value.message.replace(str(user.config), "…").splitlines() == [
        "…/config.yaml:3: keys.foo: unknown id",
        "…/config.yaml:4: theme: nope is not agent-dev, agent-dev-light or a theme of Textual",
        "…/config.yaml:5: tx_allow: deletoin: no such rule in risks.yaml (did you mean deletion?)",
    ]


def test_limits_and_keys_are_shown_with_their_lines(user: User, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = user.write("config.yaml", "keys:\n  apply: x\nlimits:\n  memory: 8G\n")
    config.run([], command_context(RunOptions(directory=str(tmp_path)), user.environ), RunOptions(directory=str(tmp_path)))
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {f"limits memory=8G ({path}:4)", f'keys ["apply", "x"] ({path}:2)'} < set(shown)
