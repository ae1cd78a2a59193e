"""The agents of all profiles, and the versions of those in their agent homes."""

import json
import os

from agent_dev.agents.install_script import PREFIX
from agent_dev.config import load
from agent_dev.config.agent_entry import AgentEntry, agent_entry
from agent_dev.config.options import RunOptions, options_layer
from agent_dev.errors import AgentDevError, InvalidConfiguration
from agent_dev.fs.read_regular import read_regular_file
from agent_dev.git import repository
from agent_dev.linux import users
from agent_dev.quick_dataclass import dataclass
from agent_dev.sandbox.plan import agent_home_path

_LARGEST = 1 << 20  # bytes of a package.json


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: the name of its profile, its program, its entry, its agent home, and its installed version ("": none)."""

    name: str
    program: str
    entry: AgentEntry
    home: str
    version: str


def find_agent(name: str, options: RunOptions, environ: dict[str, str]) -> Agent | None:
    """Return the agent of a profile; None for a profile without a package, or if there is no such profile."""
    home = users.home_directory(environ)
    if name not in load.list_profile_names(home, environ):
        return None
    request = load.SettingsRequest(agent=name, home=home, environ=environ, config=options.config, flags=options_layer(options))
    profile = load.load_settings(request).profile
    entry = agent_entry(profile)
    if not entry.package or not profile.command:
        return None
    root = repository.find_location(os.path.realpath(options.directory or ".")).root if "{project}" in profile.home else ""
    agent_home = os.path.realpath(agent_home_path(profile, home, root))
    return Agent(name, profile.command[0], entry, agent_home, _installed_version(agent_home, profile.command[0], entry))


def list_agents(options: RunOptions, environ: dict[str, str]) -> tuple[Agent, ...]:
    """Return all agents with a package; faulty profiles are left out."""
    found = []
    for name in load.list_profile_names(users.home_directory(environ), environ):
        try:
            agent = find_agent(name, options, environ)
        except InvalidConfiguration:
            continue  # `agent-dev profiles` shows it
        if agent is not None:
            found.append(agent)
    return tuple(found)


def login_files(environ: dict[str, str]) -> tuple[str, ...]:
    """Return the login files of all agents, relative to the agent home."""
    try:
        agents = list_agents(RunOptions(), environ)
    except AgentDevError:
        return ()
    return tuple(dict.fromkeys(path for agent in agents for path in agent.entry.login))


def _installed_version(home: str, program: str, entry: AgentEntry) -> str:
    """Return the version in the agent home. The agent can write there, so it is only for display."""
    prefix = f"{home}/{PREFIX}"
    if not os.path.lexists(f"{prefix}/bin/{program}"):
        return ""
    if entry.npm:
        # A program that is not npm's link starts the agent with a node of its own (install_script.py).
        own = f"/node/{entry.node.partition('.')[0]}" if not os.path.islink(f"{prefix}/bin/{program}") else ""
        try:
            document = json.loads(read_regular_file(f"{prefix}{own}/lib/node_modules/{entry.npm}/package.json", _LARGEST))
        except (OSError, ValueError, RecursionError):
            return ""
        version = document.get("version") if isinstance(document, dict) else None
        return version if isinstance(version, str) else ""
    return _pypi_version(f"{prefix}/venvs/{program}/lib", entry.pypi)


def _pypi_version(folder: str, package: str) -> str:
    wanted = package.lower().replace("-", "_")
    try:
        names = [name for python in os.listdir(folder) for name in os.listdir(f"{folder}/{python}/site-packages")]
    except OSError:
        return ""
    for name in names:
        distribution, dash, version = name.removesuffix(".dist-info").rpartition("-")
        if dash and name.endswith(".dist-info") and distribution.lower().replace("-", "_").replace(".", "_") == wanted:
            return version
    return ""
