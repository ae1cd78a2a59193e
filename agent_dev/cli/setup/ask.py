"""Ask the questions of `agent-dev init`: on the screen, or line by line."""

import json
import os
import sys

from agent_dev.agents import catalogue
from agent_dev.agents.startable import find_installed
from agent_dev.cli.console import warn
from agent_dev.cli.setup import config_file, questions
from agent_dev.cli.setup.config_file import ConfigFile
from agent_dev.config.new_config import NewSettings
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.quick_dataclass import dataclass
from agent_dev.session.sessions import CommandContext
from tui.setup.form import Form, Picks, open_form

_TITLE = "agent-dev init"


@dataclass(frozen=True, slots=True)
class SetupDecision:
    """The user's decision: the settings, the agents, and whether and where config.yaml is written."""

    answers: NewSettings
    agents: tuple[str, ...]
    action: str


def ask_user(
    first: SetupDecision, file: ConfigFile, options: RunOptions, context: CommandContext, *, is_plain: bool
) -> tuple[int, SetupDecision]:
    """Return the exit code and the user's decision. Raises UsageError without a terminal."""
    if not (os.isatty(0) and os.isatty(2)):
        raise UsageError(message="init asks questions, and this is not a terminal", hint="agent-dev init --non-interactive")
    facts = _find_facts(file, options, context)

    def preview(picks: Picks) -> tuple[str, ...]:
        return _preview(file, questions.picked_answers(picks, first.answers), picks)

    form = open_form(
        questions.make_questions(facts, first.answers, preview), questions.initial_picks(facts, first.answers, first.agents)
    )
    code, picks = _show_form(form, context, is_plain=is_plain)
    if picks is None:
        return code or FAILURE, SetupDecision(first.answers, first.agents, questions.NOTHING)
    return SUCCESS, SetupDecision(questions.picked_answers(picks, first.answers), picks["agents"], picks["write"][0])


def _show_form(form: Form, context: CommandContext, *, is_plain: bool) -> tuple[int, Picks | None]:
    if is_plain or not _has_screen(context.environ):
        from agent_dev.cli.screen.lines import StandardLines
        from tui.setup.plain import ask_form

        return SUCCESS, ask_form(form, StandardLines())
    from agent_dev.cli.screen import subprocess_screen
    from tui.setup.screen import run_form

    def work() -> tuple[int, str]:
        code, picks = run_form(form, _TITLE, context.profile.theme)
        return code, json.dumps(picks)

    code, word = subprocess_screen.run_in_child(work, warn, "nothing was written")
    found = json.loads(word or "null")
    return code, {name: tuple(values) for name, values in found.items()} if found else None


def _has_screen(environ: dict[str, str]) -> bool:
    """Return whether the terminal can show the screen; Textual waits forever for one without a size."""
    from tui.terminal.terminal_setup import can_show_screen  # deferred with the screen

    return can_show_screen(environ, sys.stdin, sys.__stderr__) and 0 not in os.get_terminal_size(0)


def _preview(file: ConfigFile, answers: NewSettings, picks: Picks) -> tuple[str, ...]:
    """Return the file that will be written."""
    changed = file.changed(answers) if picks["write"] == (questions.UPDATE,) else None
    return tuple((changed or config_file.new_text(answers)).splitlines())


def _find_facts(file: ConfigFile, options: RunOptions, context: CommandContext) -> questions.Facts:
    found = catalogue.list_agents(options, context.environ)
    installed = find_installed(context.cwd, options, context.environ).installed
    keys = {key: agent.name for agent in reversed(found) for key in agent.entry.keys if context.environ.get(key)}
    variables = {"ssh-agent": ("SSH_AUTH_SOCK",), "display": ("WAYLAND_DISPLAY", "DISPLAY")}
    return questions.Facts(
        agents=tuple((agent.name, agent.entry.package) for agent in found),
        installed=(*installed, *(agent.name for agent in found if agent.version and agent.name not in installed)),
        keys=keys,
        sockets=tuple(name for name, names in variables.items() if any(context.environ.get(one) for one in names)),
        path=file.path,
        has_config=file.text is not None,
    )
