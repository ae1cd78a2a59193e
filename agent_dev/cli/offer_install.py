"""Install an agent, and ask on a terminal whether to install one that is missing."""

import os
import sys

from agent_dev.agents import catalogue
from agent_dev.agents.catalogue import Agent
from agent_dev.agents.install import install_agent
from agent_dev.agents.install_script import DOES_NOT_START, INTERRUPTED, NEEDS_PROGRAM
from agent_dev.agents.registries import files_with_secrets, variables_with_secrets
from agent_dev.cli import typeahead
from agent_dev.cli.console import notify, warn
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS
from agent_dev.linux import users
from agent_dev.sanitize import visible

_REASONS = {
    NEEDS_PROGRAM: "a program that it needs is missing",
    DOES_NOT_START: "this version does not start; another one: --version VERSION",
    INTERRUPTED: "it was interrupted",
}


def offer_install(name: str, options: RunOptions, environ: dict[str, str]) -> bool:
    """Offer to install an agent; return whether it is installed now. Off a terminal nothing is asked or installed."""
    if not (os.isatty(0) and os.isatty(2)):
        return False
    agent = catalogue.find_agent(name, options, environ)
    if agent is None:
        return False
    typeahead.drop_typeahead()
    sys.stderr.write(f"agent-dev: {name} is not installed in {agent.home}. Install {agent.entry.package} now? [Y/n] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer or answer.strip().lower() not in ("", "y", "yes"):
        return False
    return install_one(agent, "", options, environ) == SUCCESS


def install_one(agent: Agent, version: str, options: RunOptions, environ: dict[str, str]) -> int:
    """Install an agent and say so; return the exit code: 0, or 1 if it is not usable afterwards."""
    notify(f"installing {agent.name} ({agent.entry.package}) in {agent.home}")
    code = install_agent(agent, version, options, environ, notify)
    installed = catalogue.find_agent(agent.name, options, environ) or agent
    if code:
        reason = _REASONS.get(code, f"the installation ended with status {code}")
        wanted = f" {version}" if version else ""
        remaining = f"; {visible(installed.version)} remains installed" if installed.version else ""
        warn(f"{agent.name}{wanted} is not installed: {reason}{remaining}")
        if code not in _REASONS:
            _explain_secrets(agent, options, environ)
        return FAILURE
    notify(f"{agent.name} {visible(installed.version)} is installed; to start it: agent-dev {agent.name}")
    return SUCCESS


def _explain_secrets(agent: Agent, options: RunOptions, environ: dict[str, str]) -> None:
    """Say how the user's token or password for a registry gets into an installation, if they have one."""
    home, is_npm = users.home_directory(environ), bool(agent.entry.npm)
    paths = (*options.ro, *files_with_secrets(home, environ, is_npm=is_npm))
    given = tuple(name + (separator and "=…") for name, separator, _ in (word.partition("=") for word in options.env))
    known = {word.removesuffix("=…") for word in given}
    names = (*given, *(name for name in variables_with_secrets(home, environ, is_npm=is_npm) if name not in known))
    if len({*paths}) == len({*options.ro}) and names == given:
        return
    shown = [f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path for path in dict.fromkeys(paths)]
    words = (*(f"--ro {visible(path)}" for path in shown), *(f"--env {visible(name)}" for name in names))
    warn(f"hint: if your registry needs your token or password: agent-dev {' '.join(words)} install {agent.name}")
