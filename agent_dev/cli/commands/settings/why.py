"""The subcommand `why`: explain whether an agent can see a path, reach a host or run a command, and which setting decides."""

import argparse
import os
import re
import shlex
import shutil

from agent_dev.cli.parser import make_parser
from agent_dev.cli.render.format import print_json, print_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UnknownAgent, UsageError
from agent_dev.policy.load import load_policy
from agent_dev.run import resume, show, why
from agent_dev.run.prepare import prepare_run
from agent_dev.run.request import AGENT, COMMAND, PreparedRun, RunRequest
from agent_dev.sanitize import visible
from agent_dev.session import sessions
from agent_dev.session.sessions import CommandContext, ListedSession

_HOST = re.compile(r"(localhost|\[?[\w-]*[.:][\w.:-]*\]?)(:\d+)?")  # a name with a dot, or an address


_HINT = "agent-dev why ~/.ssh/config"


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `why`."""
    about = "Say whether an agent can see a path, reach a host or run a command, which setting decides, and how to change it."
    parser = make_parser("why", about, _HINT)
    parser.usage = (
        "agent-dev why [--agent AGENT] [--json] PATH|HOST[:PORT]|COMMAND [SESSION]\n"
        + " " * 7
        + "agent-dev why [SESSION] -- COMMAND…"
    )
    parser.add_argument("subject", nargs="?", default="", metavar="PATH|HOST|COMMAND", help="what to explain")
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help="as in this session; default: in a new run")
    parser.add_argument(
        "--agent", default="", metavar="AGENT", help="as in a new run of this agent; default: the default profile"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    index = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:index])
    command = tuple(argv[index + 1 :])
    if command:
        args.subject, args.session = "", args.session or args.subject
    elif not args.subject:
        raise UsageError(message="why: name a path, a host or a command", hint=_HINT)
    one = sessions.find_session(context, args.session) if args.session else None
    prepared = _prepare(args, one, context, options)
    folder = one.session.folder if one else ""
    _print(_explain(args.subject, command, prepared, context, folder), as_json=args.json)
    return SUCCESS


def _prepare(args: argparse.Namespace, one: ListedSession | None, context: CommandContext, options: RunOptions) -> PreparedRun:
    if one:
        return resume.prepare_again(one, RunRequest((), options, context.environ, COMMAND))
    words, kind = ((args.agent,), AGENT) if args.agent else (("true",), COMMAND)
    try:
        return prepare_run(RunRequest(words, options, context.environ, kind), with_command=False)  # it need not be installed
    except UnknownAgent as error:
        error.hint = "agent-dev profiles"
        raise


def _explain(
    subject: str, command: tuple[str, ...], prepared: PreparedRun, context: CommandContext, folder: str
) -> why.Explanation:
    """Explain a path (it contains a slash or exists, here or in the session), a host (it looks like one), or else a command."""
    path = _real_path(os.path.join(context.cwd, os.path.expanduser(subject)))
    command = command or _quoted_command(subject, path)
    made = bool(folder) and why.is_made(path, prepared, folder)
    if not command and ("/" in subject or subject.startswith(("~", ".")) or made or os.path.lexists(path)):
        return why.explain_path(path, prepared, show.preview_spec(prepared, context.environ), is_made=made)
    if not command and _HOST.fullmatch(subject) and not shutil.which(subject):
        return why.explain_host(subject, prepared, folder)
    prepared = prepared.replace(command=command or (subject,))
    policy = load_policy(prepared.settings.profile.policy, prepared.machine.home, context.environ)
    return why.explain_command(prepared, policy)


def _real_path(path: str) -> str:
    """Return a path whose directory is resolved, not what it names itself."""
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(folder), name)


def _quoted_command(subject: str, path: str) -> tuple[str, ...]:
    """Return the words of a command that is one word for the shell, as in `why 'rm -rf /'`; () for all else."""
    if os.path.lexists(path) or subject.startswith(("/", "~", ".")):
        return ()
    try:
        words = tuple(shlex.split(subject))
    except ValueError:  # an open quotation
        return ()
    return words if len(words) > 1 else ()


def _print(found: why.Explanation, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "version": 1,
                "subject": found.subject,
                "state": found.state,
                "text": found.text,
                "origin": found.origin,
                "changes": list(found.changes),
            }
        )
        return
    print_line(f"{visible(found.subject)}: {found.state}{': ' if found.text else ''}{visible(found.text)}")
    print_line(f"because of  {visible(found.origin)}")
    for index, change in enumerate(found.changes):
        print_line(f"{'to change:  ' if not index else ' ' * 12}{visible(change)}")
