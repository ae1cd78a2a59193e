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
from agent_dev.errors import Refused, UnknownAgent, UsageError
from agent_dev.run.request import AGENT, COMMAND, PreparedRun, RunRequest
from agent_dev.run.run import run as run_agent
from agent_dev.session.sessions import CommandContext

_ABOUT = """\
Run an agent or a command once and record what it misses: files of yours that
it looks for and cannot see, programs that it does not find, and commands that
are denied. With `--net learn`, also the hosts that it reaches.

They are written to a draft profile, as comments. The run is slower, because agent-dev records each file that it opens."""


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `learn`."""
    output, words, kind = _parse(argv)
    path = os.path.join(context.cwd, output) if output else _default_path(words[0], context)
    if os.path.lexists(path):
        raise Refused(message=f"{path} exists", hint="read and remove it, or name another file with --output FILE")
    request = RunRequest(words, options, context.environ, kind)
    with tempfile.TemporaryDirectory(prefix="agent-dev-learn-") as folder:
        seen: list[PreparedRun] = []

        def note(prepared: PreparedRun) -> PreparedRun:
            seen.append(prepared)
            return prepared.replace(findings=f"{folder}/findings")

        try:
            outcome = run_agent(request, notify, note)
        except UnknownAgent as error:
            error.hint = f"to learn from a program: agent-dev learn -- {words[0]}"
            raise
        learned = find_missing(seen[0], context.environ, f"{folder}/findings")
    profile = seen[0].settings.profile.name
    _write(path, words[0], learned, seen[0].machine.home, "" if kind == AGENT and profile == words[0] else profile)
    if not outcome.is_kept:
        return outcome.exit_code
    from agent_dev.cli.post_run_review import review_run  # only if there is something to review

    return review_run(outcome, request)


def _parse(argv: list[str]) -> tuple[str, tuple[str, ...], str]:
    """Return the file of the draft, the agent or command with its arguments, and which of the two it is."""
    parser = make_parser("learn", _ABOUT, "agent-dev learn claude")
    parser.add_argument("--output", default="", metavar="FILE", help="write the draft to FILE; default: the profile NAME-learned")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="AGENT [ARGS…]", help="the agent and its arguments, as for a run"
    )
    parser.usage = "agent-dev learn [--output FILE] AGENT [ARGS…]\n       agent-dev learn [--output FILE] -- COMMAND [ARGS…]"
    args = parser.parse_args(argv)
    is_command = args.words[:1] == ["--"]
    words = tuple(args.words[is_command:])
    if not words:
        raise UsageError(message="learn needs an agent or a command", hint="agent-dev learn claude")
    return args.output, words, COMMAND if is_command else AGENT


def _default_path(agent: str, context: CommandContext) -> str:
    folder = load.config_folder(context.environ.get("HOME", ""), context.environ)
    return f"{folder}/profiles/{load.as_profile_name(os.path.basename(agent))}-learned.yaml"


def _write(path: str, agent: str, learned: Learned, home: str, extends: str) -> None:
    if learned.is_empty:
        notify(f"{agent} missed nothing; no draft was written")
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "x", encoding="utf-8") as file:
        file.write(draft_text(agent, learned, home, extends))
    counts = (("path", learned.paths + learned.secrets), ("program", learned.programs), ("denied command", learned.commands))
    missed = ", ".join(f"{len(found)} {name}{'s' if len(found) > 1 else ''}" for name, found in counts if found)
    reached = f"{agent} reached {len(learned.hosts)} host{'s' if len(learned.hosts) > 1 else ''}" if learned.hosts else ""
    notify(f"{' and '.join(filter(None, (missed and f'{agent} missed {missed}', reached)))}; draft profile written to {path}")
