"""The subcommand `install`."""

import argparse

from agent_dev.agents import catalogue
from agent_dev.agents.catalogue import Agent
from agent_dev.cli.commands.settings.outdated import find_outdated
from agent_dev.cli.console import notify
from agent_dev.cli.offer_install import install_one
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render.format import format_table, print_line
from agent_dev.config import validators
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UsageError
from agent_dev.sanitize import visible
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `install`."""
    parser = make_parser("install", "Install agents in the sandbox, into the agent home.", "agent-dev install claude")
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="an agent: agent-dev install --list")
    parser.add_argument("--list", action="store_true", help="list the agents that can be installed")
    parser.add_argument(
        "--upgrade", action="store_true", help="install the newest version; without AGENT: for all outdated agents"
    )
    parser.add_argument("--version", default="", metavar="VERSION", help="install this version")
    args = parser.parse_args(argv)
    if args.list:
        return _list(options, context)
    if args.version and len(args.agents) != 1:
        raise UsageError(message="--version takes one agent", hint="agent-dev install --list")
    if not args.agents:
        if not args.upgrade:
            raise UsageError(message="install needs an agent", hint="agent-dev install --list")
        return _upgrade_all(options, context)
    found = [_find(name, options, context) for name in args.agents]
    return max(_install_one(agent, args, options, context) for agent in found)


def _upgrade_all(options: RunOptions, context: CommandContext) -> int:
    outdated = [agent for agent, newest in find_outdated(options, context) if newest]
    if not outdated:
        notify("all installed agents are up to date")
    return max((install_one(agent, "", options, context.environ) for agent in outdated), default=SUCCESS)


def _find(name: str, options: RunOptions, context: CommandContext) -> Agent:
    agent = catalogue.find_agent(name, options, context.environ)
    if agent is None:
        names = [one.name for one in catalogue.list_agents(options, context.environ)]
        similar = validators.closest_match(name, names)
        raise UsageError(message=f"{name} is not an agent that can be installed", hint=f"agent-dev install {similar or '--list'}")
    return agent


def _install_one(agent: Agent, args: argparse.Namespace, options: RunOptions, context: CommandContext) -> int:
    if agent.version and not args.upgrade and agent.version != args.version and not args.version:
        notify(
            f"{agent.name} {visible(agent.version)} is already installed; to upgrade: agent-dev install --upgrade {agent.name}"
        )
        return SUCCESS
    return install_one(agent, args.version, options, context.environ)


def _list(options: RunOptions, context: CommandContext) -> int:
    rows = [
        (agent.name, visible(agent.version) or "-", agent.entry.package)
        for agent in catalogue.list_agents(options, context.environ)
    ]
    for line in format_table([("agent", "installed", "package"), *rows]):
        print_line(line)
    return SUCCESS
