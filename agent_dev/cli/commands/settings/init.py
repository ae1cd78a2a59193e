"""The subcommand `init`: ask for settings, write config.yaml, and show what agents see with it."""

import os

from agent_dev.agents import catalogue
from agent_dev.agents.startable import find_installed
from agent_dev.cli.console import notify, warn, write_stdout
from agent_dev.cli.render import plans as output
from agent_dev.cli.render.format import print_line
from agent_dev.cli.setup import config_file, options, questions
from agent_dev.cli.setup.ask import SetupDecision, ask_user
from agent_dev.cli.setup.config_file import ConfigFile
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, AgentDevError
from agent_dev.git import repository
from agent_dev.run import show
from agent_dev.run.request import RunRequest
from agent_dev.session.sessions import CommandContext

_SHELL = "bash"  # its sandbox is shown if no agent is installed


def run(argv: list[str], context: CommandContext, run_options: RunOptions) -> int:
    """Run the subcommand `init`."""
    args = options.parse_arguments(argv)
    file = config_file.read_config(run_options, context.environ)
    answers = options.answers_with_options(args, file.answers, context.environ)
    agents = options.selected_agents(args, run_options, context.environ)
    text = config_file.new_text(answers)
    options.check_home(args, answers, context)
    if args.dry_run:
        write_stdout((file.changed(answers) if args.update and file.text else None) or text)
        return SUCCESS
    existing = questions.UPDATE if args.update else questions.NEXT_TO_IT
    decision = SetupDecision(answers, agents, questions.WRITE if file.text is None else existing)
    if not args.non_interactive:
        code, decision = ask_user(decision, file, run_options, context, is_plain=args.plain)
        if code:
            notify("nothing was written")
            return code
    if decision.action == questions.NOTHING:
        notify("nothing was written")
        return FAILURE
    if not _write(file, decision):
        return FAILURE
    _show_result(file.path, decision.agents, run_options, context)
    return SUCCESS


def _write(file: ConfigFile, decision: SetupDecision) -> bool:
    """Change config.yaml, or write it or a file next to it, and report that; return False if it cannot be changed."""
    if decision.action == questions.UPDATE:
        text = file.changed(decision.answers)
        if text == file.text:
            notify(f"{file.path} already has these settings")
            return True
        if text is not None:
            old = config_file.replace(file, text)
            notify(f"changed {file.path}; the old one is {os.path.basename(old)}")
            return True
        warn(f"{file.path} cannot be changed without losing something; it was not changed")
        config_file.write_new(file.new_path, config_file.new_text(decision.answers))
        warn(f"wrote the settings to {file.new_path}; it has no effect, because config.yaml already exists")
        return False
    path = file.path if decision.action == questions.WRITE else file.new_path
    config_file.write_new(path, config_file.new_text(decision.answers))
    notify(f"wrote {path}{'' if path == file.path else '; it has no effect, because config.yaml already exists'}")
    if decision.action == questions.NEXT_TO_IT:
        notify("hint: agent-dev init --update changes config.yaml itself")
    return True


def _show_result(path: str, agents: tuple[str, ...], run_options: RunOptions, context: CommandContext) -> None:
    """Show the sandbox of the first of these agents that is installed, else of a shell, and the next command."""
    with_file = run_options.replace(config=path)
    found = find_installed(context.cwd, with_file, context.environ)
    known = catalogue.list_agents(with_file, context.environ)
    agents = agents or tuple(one.name for one in known if one.name in found.installed)
    shown = next((name for name in agents if name in found.installed), _SHELL)
    try:
        preview = show.preview_run(RunRequest((shown,), with_file, context.environ))
    except AgentDevError as error:
        warn(f"cannot show the sandbox: {error.message}")
    else:
        output.print_run_plan(preview, as_json=False, with_defaults=False)
    is_repository = repository.find_location(context.cwd).git is not None
    print_line("")
    print_line(f"next  {questions.next_step(agents, found.installed, is_repository=is_repository)}")
