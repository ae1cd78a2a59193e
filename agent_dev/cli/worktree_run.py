"""Run an agent in a git work tree of its own (`--worktree NAME`), which is removed at the end if nothing is in it."""

import os
from collections.abc import Callable

from agent_dev.cli.console import notify, warn
from agent_dev.errors import AgentDevError, RunUsageError, UsageError
from agent_dev.git import repository
from agent_dev.run.request import RunRequest
from agent_dev.sanitize import visible
from agent_dev.session import made_work_trees, sessions, store


def run_in_work_tree(request: RunRequest, run: Callable[[RunRequest], int]) -> int:
    """Make a work tree, or use that of an earlier run, and run an agent there; return its exit code. Raises AgentDevError."""
    options = request.options
    if options.direct or options.detach:
        given = "--direct" if options.direct else "--detach"
        raise UsageError(message=f"--worktree cannot be used with {given}", hint="agent-dev --worktree NAME AGENT")
    try:
        context = sessions.command_context(options, request.environ)
        location = repository.find_location(context.cwd)
        tree, is_new = made_work_trees.make_work_tree(location, options.worktree, request.environ)
    except UsageError as error:
        raise RunUsageError(message=error.message, hint=error.hint) from None
    notify(f"{'made' if is_new else 'using'} the work tree {visible(tree.path)} on the branch {tree.branch}")
    below = os.path.relpath(context.cwd, location.root)
    cwd = os.path.normpath(f"{tree.path}/{below}")
    cwd = cwd if os.path.isdir(cwd) else tree.path
    try:
        return run(request.replace(options=options.replace(worktree="", directory=cwd)))
    finally:
        _remove_unused(request, context.store, location)


def _remove_unused(request: RunRequest, session_store: store.Store, location: repository.SessionLocation) -> None:
    try:
        removed = made_work_trees.remove_unused(session_store, location.git, request.environ) if location.git else ()
    except (AgentDevError, OSError) as error:
        warn(f"cannot remove the work tree: {error}")
        return
    for one in removed:
        notify(f"removed the work tree {visible(one.path)}, which has no changes")
