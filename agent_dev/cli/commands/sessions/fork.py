"""The subcommand `fork`, which copies an ended session."""

import sys

from agent_dev.cli.console import notify
from agent_dev.cli.options import check_session_name
from agent_dev.cli.parser import make_session_parser
from agent_dev.cli.render.format import print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, SessionBusy
from agent_dev.merge import session_access
from agent_dev.run.ended import fork
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext

_ABOUT = """\
Copy an ended session. The copy has the same files and commits, and is resumed and merged independently.

The agent home is shared. The copy continues a copy of the agent's last conversation if the agent can make one, else the
conversation itself."""


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `fork`."""
    parser = make_session_parser("fork", _ABOUT)
    parser.add_argument("--name", default="", metavar="NAME", help="the name of the copy: letters, digits, `.`, `-` and `_`")
    args = parser.parse_args(argv)
    name = args.name or options.name
    if name:
        check_session_name(name, "--name ", "--name second-try")
    one = sessions.find_session(context, args.session, (store.WAITING, store.KILLED))
    if one.state == store.RUNNING:
        what = "running: only an ended session can be copied"
        raise SessionBusy(session=one.name, what=what, hint=f"agent-dev stop {one.name}")
    locked = session_access.lock_ended(one)
    try:
        copy = fork.fork_session(context, locked, name)
    finally:
        store.unlock_session(locked.session)
    print_outcome(f"session {copy.name} is a copy of {one.name}")
    sys.stdout.flush()  # before the hint on stderr
    notify(f"hint: agent-dev resume {copy.name}")
    return SUCCESS
