"""Check the places of `--on`: GNU parallel here, and on each host the protocol and what `doctor` finds there."""

import json
import subprocess

from agent_dev.errors import AgentDevError
from agent_dev.fleet.hosts import greet_place, read_bounded
from agent_dev.fleet.jobs import find_parallel
from agent_dev.fleet.places import Places, parse_places, place_names, remote_argv
from agent_dev.linux import programs
from agent_dev.run.doctor import Finding, FindingState
from agent_dev.session.sessions import CommandContext

_MOST = 1 << 20  # bytes of a worker's document
_PATIENCE = 120.0  # seconds for it


def check_places(text: str, context: CommandContext) -> tuple[Finding, ...]:
    """Check the places that `--on` names. Raises UsageError."""
    places = parse_places(text, context.profile.engines)
    found = [_check_parallel(context)]
    for name in place_names(places):
        found += _check_place(places, name, context)
    return tuple(found)


def _check_parallel(context: CommandContext) -> Finding:
    try:
        return Finding("GNU parallel", find_parallel(context))
    except AgentDevError as error:
        return Finding("GNU parallel", error.message, FindingState.FAILED, error.hint)


def _check_place(places: Places, name: str, context: CommandContext) -> list[Finding]:
    try:
        greeting = greet_place(places, name, context)
    except AgentDevError as error:
        remedy = f"ssh {name} {context.profile.worker} --version, or set `worker:` in config.yaml"
        return [Finding(f"worker {name}", error.message, FindingState.FAILED, remedy)]
    result = f"agent-dev {greeting.program}, {greeting.processors} processors"
    return [Finding(f"worker {name}", result), *_remote_findings(places, name, context)]


def _remote_findings(places: Places, name: str, context: CommandContext) -> list[Finding]:
    """Return what `doctor` finds on a place that prevents agents from running there. It is untrusted."""
    argv = remote_argv(places, name, context.profile.worker, ("doctor", "--json"))
    program = programs.find_program(argv[0], context.environ, (context.root,)) or argv[0]
    with subprocess.Popen(
        (program, *argv[1:]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=context.environ
    ) as process:
        assert process.stdout is not None  # noqa: S101  (for mypy: it is a pipe)
        data = read_bounded(process.stdout.fileno(), _MOST, _PATIENCE) or b""
        process.kill()
    try:
        rows = [(str(row["check"]), str(row["result"])) for row in json.loads(data)["findings"] if row["failed"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return [Finding(f"doctor on {name}", "its answer cannot be read", FindingState.FAILED)]
    return [Finding(f"{check[:100]} on {name}", result[:500], FindingState.FAILED) for check, result in rows] or [
        Finding(f"doctor on {name}", "nothing is wrong")
    ]
