"""The subcommand `outdated`."""

from agent_dev.agents import catalogue
from agent_dev.agents.catalogue import Agent
from agent_dev.agents.install import newest_version
from agent_dev.cli.console import notify
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render.format import format_table, print_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.progress import show_progress
from agent_dev.sanitize import visible
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `outdated`."""
    make_parser("outdated", "List the installed agents that have a newer version.", "agent-dev outdated").parse_args(argv)
    if not any(agent.version for agent in catalogue.list_agents(options, context.environ)):
        notify("no agent is installed in the agent home; agent-dev install --list")
        return SUCCESS
    found = find_outdated(options, context)
    rows = [(agent.name, visible(agent.version), visible(newest) or "unknown") for agent, newest in found]
    for line in format_table([("agent", "installed", "newest"), *rows]) if rows else ():
        print_line(line)
    notify("agent-dev install --upgrade" if rows else "all installed agents are up to date")
    return SUCCESS


def find_outdated(options: RunOptions, context: CommandContext) -> list[tuple[Agent, str]]:
    """Return the installed agents that do not have the newest version, and that version ("": unknown)."""
    installed = [agent for agent in catalogue.list_agents(options, context.environ) if agent.version]
    found = []
    with show_progress("looking for newer versions") as report_progress:
        for number, agent in enumerate(installed, 1):
            found.append((agent, newest_version(agent, options, context.environ)))
            report_progress(number, len(installed))
    return [(agent, newest) for agent, newest in found if newest != agent.version]
