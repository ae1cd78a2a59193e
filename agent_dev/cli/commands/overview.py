"""`agent-dev` without arguments: the sessions of the repository, the installed agents, and the next command or a menu."""

import os

from agent_dev.agents.startable import InstalledAgents, find_installed
from agent_dev.cli.console import write_stdout
from agent_dev.cli.render.overview import Overview, overview_text, state_rows
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, CannotUndo
from agent_dev.git import repository
from agent_dev.linux import users
from agent_dev.session import approvals, sessions, store
from agent_dev.session.sessions import CommandContext


def run(_argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `overview`."""
    found = sessions.sessions_of_repository(context)
    is_repository = repository.find_location(context.cwd).git is not None
    overview = Overview(
        root=context.root,
        home=users.home_directory(context.environ),
        sessions=found,
        questions={
            one.name: counts
            for one in found
            if one.state == store.RUNNING and any(counts := approvals.count_by_kind(one.session.folder))
        },
        agents=find_installed(context.cwd, options, context.environ) if is_repository or found else InstalledAgents(),
        is_repository=is_repository,
    )
    if not options.plain and os.isatty(0) and os.isatty(1):
        _show_menu(overview, context)
    write_stdout(overview_text(overview))
    return SUCCESS


def _show_menu(overview: Overview, context: CommandContext) -> None:
    """Let the user select a command and run it; return if the user quits the menu, or the terminal cannot show it."""
    from agent_dev.cli.menu import entries, screen  # only on a terminal

    if not screen.can_show_menu(context.environ):
        return
    listed = entries.menu_entries(overview, has_merge=_has_merge(context))
    selected = screen.select_entry(listed, state_rows(overview))
    if selected is not None:
        screen.run_entry(selected, context.environ)


def _has_merge(context: CommandContext) -> bool:
    """Return whether a merge of this repository can be undone."""
    if not os.path.isdir(context.store.merges):
        return False
    from agent_dev.merge import history  # imports all of merging

    try:
        history.find_newest(context, is_forward=False)
    except CannotUndo:
        return False
    return True
