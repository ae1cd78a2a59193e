"""The profiles whose command is found on this machine, and those whose command is missing."""

from agent_dev.config import load
from agent_dev.config.options import RunOptions
from agent_dev.errors import AgentDevError, CommandNotFound, InvalidConfiguration, NotExecutable, UnknownAgent
from agent_dev.linux import users
from agent_dev.quick_dataclass import dataclass
from agent_dev.run.prepare import prepare_run
from agent_dev.run.request import RunRequest
from agent_dev.sandbox import machine


@dataclass(frozen=True, slots=True)
class InstalledAgents:
    """The profiles whose command is installed, and those whose command is missing. `problem`: why no agent can start."""

    installed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str = ""


def find_installed(cwd: str, options: RunOptions, environ: dict[str, str]) -> InstalledAgents:
    """Return the profiles that can start in a directory; faulty profiles are left out."""
    installed: list[str] = []
    missing: list[str] = []
    try:
        facts = machine.inspect_machine(environ, ())
    except AgentDevError as error:
        return InstalledAgents(problem=error.message)
    for name, _, _ in load.list_profiles(users.home_directory(environ), environ):
        try:
            prepare_run(RunRequest((name,), options.replace(directory=cwd), environ), facts)
        except (UnknownAgent, InvalidConfiguration):
            continue  # `default`, a file whose name is not valid, or a faulty one: `agent-dev profiles` shows these
        except (CommandNotFound, NotExecutable):
            missing.append(name)
        except AgentDevError as error:
            return InstalledAgents(problem=error.message)
        else:
            installed.append(name)
    return InstalledAgents(tuple(installed), tuple(missing))
