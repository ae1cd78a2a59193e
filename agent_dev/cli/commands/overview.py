"""`agent-dev` without arguments: the sessions of the repository, the installed agents, and the next command."""

from agent_dev.cli.commands.parser import Verb
from agent_dev.cli.console import write_stdout
from agent_dev.cli.render.overview import InstalledAgents, Overview, overview_text
from agent_dev.config import load
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, AgentDevError, CommandNotFound, InvalidConfiguration, NotExecutable, UnknownAgent
from agent_dev.git import repository
from agent_dev.linux import users
from agent_dev.run.prepare import prepare_run
from agent_dev.run.request import RunRequest
from agent_dev.sandbox import machine
from agent_dev.session import approvals, sessions, store
from agent_dev.session.sessions import CommandContext


def _overview(_argv: list[str], context: CommandContext, options: RunOptions) -> int:
    found = sessions.sessions_of_repository(context)
    is_repository = repository.find_location(context.cwd).git is not None
    overview = Overview(
        root=context.root,
        home=users.home_directory(context.environ),
        sessions=found,
        questions={
            one.name: count
            for one in found
            if one.state == store.RUNNING and (count := len(approvals.list_questions(one.session.folder)))
        },
        agents=_installed_agents(context, options) if is_repository or found else InstalledAgents(),
        is_repository=is_repository,
    )
    write_stdout(overview_text(overview))
    return SUCCESS


def _installed_agents(context: CommandContext, options: RunOptions) -> InstalledAgents:
    """Return the profiles whose command is found, and those whose command is missing; faulty profiles are left out."""
    installed: list[str] = []
    missing: list[str] = []
    try:
        facts = machine.inspect_machine(context.environ, ())
    except AgentDevError as error:
        return InstalledAgents(problem=error.message)
    for name, _, _ in load.list_profiles(users.home_directory(context.environ), context.environ):
        try:
            prepare_run(RunRequest((name,), options.replace(directory=context.cwd), context.environ), facts)
        except (UnknownAgent, InvalidConfiguration):
            continue  # `default`, a file whose name is not valid, or a faulty one: `agent-dev profiles` shows these
        except (CommandNotFound, NotExecutable):
            missing.append(name)
        except AgentDevError as error:
            return InstalledAgents(problem=error.message)
        else:
            installed.append(name)
    return InstalledAgents(tuple(installed), tuple(missing))


VERBS: dict[str, Verb] = {"": _overview}
