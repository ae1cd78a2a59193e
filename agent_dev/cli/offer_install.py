"""Ask on a terminal whether to install an agent that is missing."""

import os
import sys

from agent_dev.agents.catalogue import find_agent
from agent_dev.cli import typeahead
from agent_dev.cli.commands.install import install_one
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS


def offer_install(name: str, options: RunOptions, environ: dict[str, str]) -> bool:
    """Offer to install an agent; return whether it is installed now. Off a terminal nothing is asked or installed."""
    if not (os.isatty(0) and os.isatty(2)):
        return False
    agent = find_agent(name, options, environ)
    if agent is None:
        return False
    typeahead.drop_typeahead()
    sys.stderr.write(f"agent-dev: {name} is not installed in {agent.home}. Install {agent.entry.package} now? [Y/n] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer or answer.strip().lower() not in ("", "y", "yes"):
        return False
    return install_one(agent, "", options, environ) == SUCCESS
