"""The subcommand `learn`: run an agent once, and write a draft profile with what it missed."""

import argparse
import os
import tempfile

from agent_dev.agents.learn import find_missing
from agent_dev.cli.console import notify
from agent_dev.cli.parser import make_parser
from agent_dev.config import load
from agent_dev.config.learned_profile import Learned, draft_text
from agent_dev.config.options import RunOptions
from agent_dev.errors import Refused
from agent_dev.run.request import PreparedRun, RunRequest
from agent_dev.run.run import run as run_agent
from agent_dev.session.sessions import CommandContext

_ABOUT = """\
Run an agent once and record what it misses: your files that it looks for and cannot see, programs that it does not find, and
commands that are denied. With `--net learn`, also the hosts that it reaches.

They are written to a draft profile, as comments. The run is slower, because agent-dev records each file that it opens."""


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `learn`."""
    parser = make_parser("learn", _ABOUT, "agent-dev learn claude")
    parser.add_argument(
        "--output", default="", metavar="FILE", help="write the draft to FILE; default: the profile AGENT-learned"
    )
    parser.add_argument("agent", metavar="AGENT", help="the agent to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    args = parser.parse_args(argv)
    path = os.path.join(context.cwd, args.output) if args.output else _default_path(args.agent, context)
    if os.path.lexists(path):
        raise Refused(message=f"{path} exists", hint="read and remove it, or name another file with --output FILE")
    request = RunRequest((args.agent, *args.arguments), options, context.environ)
    with tempfile.TemporaryDirectory(prefix="agent-dev-learn-") as folder:
        seen: list[PreparedRun] = []

        def note(prepared: PreparedRun) -> PreparedRun:
            seen.append(prepared)
            return prepared.replace(findings=f"{folder}/findings")

        outcome = run_agent(request, notify, note)
        learned = find_missing(seen[0], context.environ, f"{folder}/findings")
    _write(path, args.agent, learned, seen[0].machine.home)
    if not outcome.is_kept:
        return outcome.exit_code
    from agent_dev.cli.post_run_review import review_run  # only if there is something to review

    return review_run(outcome, request)


def _default_path(agent: str, context: CommandContext) -> str:
    home = context.environ.get("HOME", "")
    return f"{load.config_folder(home, context.environ)}/profiles/{os.path.basename(agent)}-learned.yaml"


def _write(path: str, agent: str, learned: Learned, home: str) -> None:
    if learned.is_empty:
        notify(f"{agent} missed nothing; no draft was written")
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "x", encoding="utf-8") as file:
        file.write(draft_text(agent, learned, home))
    counts = (("path", learned.paths + learned.secrets), ("program", learned.programs), ("denied command", learned.commands))
    missed = ", ".join(f"{len(found)} {name}{'s' if len(found) > 1 else ''}" for name, found in counts if found)
    reached = f"{agent} reached {len(learned.hosts)} host{'s' if len(learned.hosts) > 1 else ''}" if learned.hosts else ""
    notify(f"{' and '.join(filter(None, (missed and f'{agent} missed {missed}', reached)))}; draft profile written to {path}")
