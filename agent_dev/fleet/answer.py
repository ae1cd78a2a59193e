"""Answers of a worker: its greeting, and the result of a task in the manifest of the bundle. Both are untrusted."""

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from agent_dev.bundle import manifest as manifests
from agent_dev.errors import BadBundle, WorkerRefused
from agent_dev.fleet.ticket import PROTOCOL
from agent_dev.quick_dataclass import dataclass
from agent_dev.transaction.result import FAILED, MERGED, CommandStep, TransactionResult
from agent_dev.version_range import VersionRange, parse_range

MAX_GREETING = 256 << 10  # bytes
MAX_KNOWN = 1000  # commits in a greeting
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII).fullmatch
_CAUSES = ("", "command", "signal", "timeout", "limit", "validation", "score", "policy", "not started")
_MAX_TEXT, _MAX_STEPS, _MAX_WORDS = 2000, 100, 1000
_MAX_MILLISECONDS = 1 << 40
_MAX_SCORE = sys.float_info.max


@dataclass(frozen=True, slots=True)
class WorkerGreeting:
    """The first line of a worker that prepares a commit: its version, its processors, and the commits that it has.

    `protocol`, `bundle`: the versions that it speaks and writes.
    """

    program: str
    processors: int
    has_commit: bool
    known: tuple[str, ...] = ()
    protocol: VersionRange = PROTOCOL
    bundle: VersionRange = manifests.VERSIONS


def encode_greeting(greeting: WorkerGreeting) -> bytes:
    """Return a greeting as one line."""
    value = {
        "format": "agent-dev worker",
        "protocol": greeting.protocol.encode(),
        "bundle": greeting.bundle.encode(),
        "program": greeting.program,
        "processors": greeting.processors,
        "has_commit": greeting.has_commit,
        "known": list(greeting.known[:MAX_KNOWN]),
    }
    return json.dumps(value).encode() + b"\n"


def parse_greeting(
    line: bytes, host: str, protocol: VersionRange = PROTOCOL, bundle: VersionRange = manifests.VERSIONS
) -> WorkerGreeting:
    """Return a worker's greeting, which may have keys of a newer version. Raises WorkerRefused.

    `protocol`, `bundle`: the versions that this agent-dev speaks and reads; the worker must have one of each.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("format") != "agent-dev worker":
        raise WorkerRefused(host=host, reason="its answer is not that of `agent-dev work`")
    its_protocol = _shared_range(value.get("protocol"), protocol, "the protocol", host)
    its_bundle = _shared_range(value.get("bundle"), bundle, "bundles", host)
    known: Any = value.get("known")
    is_valid = (
        isinstance(value.get("program"), str)
        and type(value.get("processors")) is int
        and isinstance(value.get("has_commit"), bool)
        and isinstance(known, list)
        and len(known) <= MAX_KNOWN
        and all(isinstance(one, str) and _COMMIT(one) for one in known)
    )
    if not is_valid:
        raise WorkerRefused(host=host, reason="a value of its greeting is not valid")
    processors = min(max(value["processors"], 1), 64)
    return WorkerGreeting(value["program"][:50], processors, value["has_commit"], tuple(known), its_protocol, its_bundle)


def _shared_range(value: Any, ours: VersionRange, what: str, host: str) -> VersionRange:
    """Return the versions of a worker. Raises WorkerRefused if none of them is ours; the reason says which side to upgrade."""
    theirs = parse_range(value)
    if theirs is None:
        raise WorkerRefused(host=host, reason="a value of its greeting is not valid")
    if theirs.highest_common(ours) is None:
        side = f"on {host}" if theirs.newest < ours.oldest else "here"
        raise WorkerRefused(host=host, reason=f"it has version {theirs} of {what}, this machine {ours}: upgrade agent-dev {side}")
    return theirs


def agree_on_protocol(
    greetings: Mapping[str, WorkerGreeting], ours: VersionRange = PROTOCOL
) -> tuple[int, dict[str, WorkerRefused]]:
    """Return the version of the protocol for a run, and the hosts that do not speak it, each with the error.

    Every ticket may go to any host, so there is one version: that of the most hosts, the highest of these. Each host has one
    of ours.
    """
    ranges = {name: greeting.protocol for name, greeting in greetings.items()}
    versions = range(ours.oldest, ours.newest + 1)
    agreed = max(versions, key=lambda version: (sum(version in one for one in ranges.values()), version))
    refused = {}
    for name, theirs in ranges.items():
        if agreed not in theirs:
            side = name if theirs.newest < agreed else "the other hosts"
            reason = f"it has version {theirs} of the protocol, the other hosts {agreed}: upgrade agent-dev on {side}"
            refused[name] = WorkerRefused(host=name, reason=reason)
    return agreed, refused


def encode_task(task_id: str, result: TransactionResult, version: int = PROTOCOL.newest) -> dict[str, Any]:
    """Return the `task` of a bundle's manifest. `version`: of the ticket."""
    return {
        "id": task_id,
        "result": {
            "version": version,
            "state": result.state,
            "exit": min(max(result.code, 0), 255),
            "cause": result.cause,
            "reason": result.reason[:_MAX_TEXT],
            "commits": result.commits,
            "steps": [_encode_step(one) for one in result.steps[:_MAX_STEPS]],
            **({} if result.score is None else {"score": result.score}),
        },
    }


def _encode_step(step: CommandStep) -> dict[str, Any]:
    words = [word[:_MAX_TEXT] for word in step.argv[:_MAX_WORDS]]
    return {"command": words, "exit": step.code, "milliseconds": step.milliseconds}


def parse_task(manifest: Mapping[str, Any], task_id: str) -> TransactionResult:
    """Return the result in a bundle, which must be that of this task. Raises BadBundle."""
    task: Any = manifest.get("task")
    _require(task is not None, "it has no result of a task")
    _require(task["id"] == task_id, "it belongs to another task")
    value = task["result"]
    version = value.get("version")
    _require(version in PROTOCOL, f"its result has version {str(version)[:20]}, and this agent-dev reads {PROTOCOL}")
    try:
        return _result(value)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadBundle(reason=f"a value of its result is missing or of the wrong type ({str(error)[:100]})") from None


def _result(value: Mapping[str, Any]) -> TransactionResult:
    fields = {"version", "state", "exit", "cause", "reason", "commits", "steps"}
    _require(fields <= value.keys() <= {*fields, "score"}, "its result has unknown fields")
    _require(value["state"] in (MERGED, FAILED) and value["cause"] in _CAUSES, "the state of its result is not valid")
    _require((value["state"] == MERGED) == (value["cause"] == ""), "its result contradicts itself")
    _require(_is_count(value["exit"], 255), "the exit code of its result is not valid")
    _require(value["state"] == FAILED or value["exit"] == 0, "its result contradicts itself")
    _require(_is_text(value["reason"]), "the reason of its result is not valid")
    _require(_is_count(value["commits"], 1 << 30), "the number of its commits is not valid")
    _require(isinstance(value["steps"], list) and len(value["steps"]) <= _MAX_STEPS, "the steps of its result are not valid")
    score = value.get("score")
    _require(score is None or (value["state"] == MERGED and _is_finite(score)), "its score is not valid")
    steps = tuple(map(_step, value["steps"]))
    result = TransactionResult(value["state"], value["exit"], steps, value["cause"], value["reason"], commits=value["commits"])
    return result.replace(score=None if score is None else float(score))


def _is_finite(score: Any) -> bool:
    return type(score) in (int, float) and -_MAX_SCORE <= score <= _MAX_SCORE


def _step(row: Mapping[str, Any]) -> CommandStep:
    words = row["command"]
    is_valid = isinstance(words, list) and len(words) <= _MAX_WORDS and all(map(_is_text, words))
    is_valid = is_valid and row.keys() == {"command", "exit", "milliseconds"}
    _require(
        is_valid and _is_count(row["exit"], 255) and _is_count(row["milliseconds"], _MAX_MILLISECONDS), "a step is not valid"
    )
    return CommandStep(tuple(words), row["exit"], row["milliseconds"])


def _require(is_met: bool, reason: str) -> None:  # noqa: FBT001  (reads as an assertion)
    if not is_met:
        raise BadBundle(reason=reason)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_TEXT and "\0" not in value


def _is_count(value: Any, most: int) -> bool:
    return type(value) is int and 0 <= value <= most
