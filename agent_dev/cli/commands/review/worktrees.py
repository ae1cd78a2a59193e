"""The subcommand `worktrees`: the work trees that an agent made with git."""

import os

from agent_dev.agent_git import work_trees
from agent_dev.agent_git.work_trees import AgentWorkTree
from agent_dev.cli.commands.open_session import locked_session
from agent_dev.cli.parser import make_session_parser
from agent_dev.cli.render.format import print_json, print_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, SessionBusy, UsageError
from agent_dev.linux import users
from agent_dev.overlay.labels import format_count
from agent_dev.run.request import COMMAND, RunRequest
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession

_ABOUT = """\
List the work trees that the session's agent made with git, and their uncommitted files.

merge --commits BRANCH imports the commits of one. --commit first commits its uncommitted files, in the sandbox; if its HEAD is
detached, on a new branch worktree-NAME."""


_SCRIPT = """\
cd -- "$1" || exit
[ -z "$3" ] || git switch -q -c "$3" || exit
git add -A && { git diff --cached --quiet || git commit -q -m "$2"; }
"""
_PREFIX = "worktree-"


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `worktrees`."""
    parser = make_session_parser("worktrees", _ABOUT)
    parser.add_argument("--commit", default="", metavar="NAME", help="commit the uncommitted files of the work tree NAME")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    one = sessions.find_session(context, args.session, sessions.OPEN)
    found = work_trees.find_work_trees(one.session, one.record, users.home_directory(context.environ), context.environ)
    if args.commit:
        return _commit(one, _named(found, args.commit, one), context, options)
    rows = [(tree, work_trees.find_uncommitted(tree, context.environ)) for tree in found]
    if args.json:
        trees = [
            {"name": tree.name, "path": tree.path, "branch": tree.branch or None, "commit": tree.commit, "uncommitted": files}
            for tree, files in rows
        ]
        print_json({"version": 1, "session": one.session.id, "worktrees": trees})
        return SUCCESS
    for tree, files in rows:
        _print(one, tree, files)
    if not rows:
        print_line(f"the agent of session {one.name} made no work trees")
    return SUCCESS


def _print(one: ListedSession, tree: AgentWorkTree, files: tuple[str, ...]) -> None:
    print_line(f"{visible(tree.name)}  {visible(tree.branch) or 'detached'}  {visible(tree.path_in(one.record['root']))}")
    if files:
        names = ", ".join(map(visible, files[:3])) + (" …" if len(files) > 3 else "")
        print_line(f"  {format_count(len(files), 'uncommitted file')}: {names}")
    if files or not tree.branch:
        print_line(f"  agent-dev worktrees {one.name} --commit {visible(tree.name)}")
    print_line(f"  agent-dev merge {one.name} --commits {visible(tree.branch or _PREFIX + tree.name)}")


def _named(found: tuple[AgentWorkTree, ...], name: str, one: ListedSession) -> AgentWorkTree:
    for tree in found:
        if tree.name == name:
            return tree
    raise UsageError(message=f"--commit {name}: no work tree of that name", hint=f"agent-dev worktrees {one.name}")


def _commit(one: ListedSession, tree: AgentWorkTree, context: CommandContext, options: RunOptions) -> int:
    from agent_dev.cli.post_run_review import resume_session  # only here: it runs a sandbox

    if one.state == store.RUNNING:
        raise SessionBusy(session=one.name, what="running", hint=f"agent-dev stop {one.name}")
    branch = "" if tree.branch else _PREFIX + tree.name
    words = ("sh", "-c", _SCRIPT, "sh", tree.path, f"Uncommitted files of the work tree {tree.name}", branch)
    code = resume_session(one, RunRequest(words, options.replace(merge=False), context.environ, COMMAND))
    if os.path.isdir(one.session.folder):
        with locked_session(one) as session:  # lists show the agent's command, not this one
            store.write_record(session, {**store.read_record(session), "command": one.record["command"]})
    return code
