"""Tickets: what a worker is asked to run. A ticket is one line of JSON; every value is checked before it is used."""

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_dev.bundle import manifest
from agent_dev.config.options import RunOptions
from agent_dev.errors import BadTicket, UsageError
from agent_dev.quick_dataclass import dataclass
from agent_dev.version_range import VersionRange, parse_range

FORMAT = "agent-dev ticket"
PROTOCOL = VersionRange(1, 1)  # versions of greeting, ticket and result
MAX_TICKET = 512 << 10  # bytes
SENT_OPTIONS = ("net", "prompt", "allow", "deny", "limit", "env")  # options of a run that mean the same on every machine
_KINDS = ("agent", "command", "agent or command")  # as in run.request, which reads files
_LISTS = ("allow", "deny", "limit", "env")
_KEPT_HERE = ("directory", "config", "debug", "quiet", "plain", "merge", "name")  # options that only concern this machine
_FIELDS = frozenset(
    (
        *("format", "version", "bundle", "id", "commit", "branch", "name", "directory", "arguments", "kind", "validations"),
        *("timeout", "options", "score"),
    )
)
_ID = re.compile(r"[A-Za-z0-9-]{1,80}", re.ASCII).fullmatch
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII).fullmatch
_BRANCH = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*)(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*", re.ASCII).fullmatch
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", re.ASCII).fullmatch
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII).fullmatch
_MAX_TIMEOUT = 1 << 40  # ms


@dataclass(frozen=True, slots=True)
class Ticket:
    """A transaction for a worker. `name` and `branch` of the checkout ("": a detached HEAD); `directory` below it; ms.

    `version`: of the protocol; `bundle`: versions of a bundle that the coordinator reads.
    """

    id: str
    commit: str
    branch: str
    name: str
    directory: str
    arguments: tuple[str, ...]
    kind: str
    validations: tuple[str, ...] = ()
    timeout: int = 0
    options: RunOptions = RunOptions()
    score: str = ""  # a shell command that prints the score; empty: none
    version: int = PROTOCOL.newest
    bundle: VersionRange = manifest.VERSIONS


def encode_ticket(ticket: Ticket) -> str:
    """Return a ticket as one line, without the line feed."""
    options = ticket.options.as_dict()
    value = {
        "format": FORMAT,
        "version": ticket.version,
        "bundle": ticket.bundle.encode(),
        "id": ticket.id,
        "commit": ticket.commit,
        "branch": ticket.branch,
        "name": ticket.name,
        "directory": ticket.directory,
        "arguments": list(ticket.arguments),
        "kind": ticket.kind,
        "validations": list(ticket.validations),
        "timeout": ticket.timeout,
        "options": {name: options[name] for name in SENT_OPTIONS if options[name]},
        **({"score": ticket.score} if ticket.score else {}),
    }
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def parse_ticket(line: bytes) -> Ticket:
    """Return the ticket of a line. Raises BadTicket."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise BadTicket(reason="it is not one line of JSON") from None
    _require(isinstance(value, dict) and value.get("format") == FORMAT, "it is not a ticket of agent-dev")
    version = value.get("version")
    _require(version in PROTOCOL, _wrong_version(version))
    try:
        return _checked(value)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadTicket(reason=f"a value is missing or of the wrong type ({error})") from None


def _wrong_version(version: Any) -> str:
    if type(version) is not int:
        return "its version is not valid"
    side = "on the worker" if version > PROTOCOL.newest else "on the machine that sent it"
    return f"it has version {str(version)[:20]}, and the worker reads {PROTOCOL}: upgrade agent-dev {side}"


def _bundle_versions(value: Any) -> VersionRange:
    """Return the versions of a bundle that the coordinator reads, one of which this worker writes."""
    versions = parse_range(value)
    if versions is None:
        raise BadTicket(reason="its versions of a bundle are not valid")
    side = "on the worker" if versions.oldest > manifest.VERSIONS.newest else "on the machine that sent it"
    _require(
        versions.highest_common(manifest.VERSIONS) is not None,
        f"it wants bundles of version {versions}, and the worker writes {manifest.VERSIONS}: upgrade agent-dev {side}",
    )
    return versions


def _checked(value: Mapping[str, Any]) -> Ticket:
    bundle = _bundle_versions(value["bundle"])
    _require(value.keys() <= _FIELDS, "it has unknown fields")
    _require(bool(_ID(value["id"])), "its id is not valid")
    _require(bool(_COMMIT(value["commit"])), "its commit is not valid")
    _require(value["branch"] == "" or is_sent_branch(value["branch"]), "its branch is not valid")
    _require(bool(_NAME(value["name"])), "the name of its checkout is not valid")
    _require(_is_below(value["directory"]), "its directory is not below the checkout")
    _require(_is_words(value["arguments"]) and len(value["arguments"]) > 0, "its command is not valid")
    _require(value["kind"] in _KINDS, "its kind is not valid")
    _require(_is_words(value["validations"]), "its validations are not valid")
    score = value.get("score", "")
    _require(isinstance(score, str) and "\0" not in score, "its score command is not valid")
    timeout = value["timeout"]
    _require(type(timeout) is int and 0 <= timeout <= _MAX_TIMEOUT, "its timeout is not valid")
    return Ticket(
        id=value["id"],
        commit=value["commit"],
        branch=value["branch"],
        name=value["name"],
        directory=value["directory"],
        arguments=tuple(value["arguments"]),
        kind=value["kind"],
        validations=tuple(value["validations"]),
        timeout=timeout,
        options=_options(value["options"]),
        score=score,
        version=value["version"],
        bundle=bundle,
    )


def _options(value: Mapping[str, Any]) -> RunOptions:
    _require(value.keys() <= set(SENT_OPTIONS), "it has options that no ticket carries")
    for name, given in value.items():
        is_valid = _is_words(given) if name in _LISTS else isinstance(given, str) and "\0" not in given
        _require(is_valid, f"its option {name} is not valid")
    _require(all(map(_VARIABLE, value.get("env", ()))), "it sets variables")
    fields: dict[str, Any] = {name: tuple(given) if name in _LISTS else given for name, given in value.items()}
    return RunOptions(**fields)


def _require(is_met: bool, reason: str) -> None:  # noqa: FBT001  (reads as an assertion)
    if not is_met:
        raise BadTicket(reason=reason)


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and "\0" not in one for one in value)


def _is_below(path: Any) -> bool:
    return path == "" or ("\0" not in path and not any(part in ("", ".", "..", ".git") for part in path.split("/")))


def is_sent_branch(branch: str) -> bool:
    """Return whether a branch's name can be in a ticket; others become a detached HEAD."""
    parts = branch.split("/")
    return len(branch) < 200 and bool(_BRANCH(branch)) and not any(one.endswith((".lock", ".")) or ".." in one for one in parts)


def checkout_name(root: str) -> str:
    """Return the name of a worker's checkout of a repository: that of its directory, if possible."""
    name = root.rpartition("/")[2]
    return name if _NAME(name) else "repository"


def sent_options(options: RunOptions) -> RunOptions:
    """Return the options that a ticket carries. Raises UsageError for one that cannot be carried."""
    plain, given = RunOptions().as_dict(), options.as_dict()
    local = [name for name in given if given[name] != plain[name] and name not in (*SENT_OPTIONS, *_KEPT_HERE)]
    if local:
        name = {"profile_file": "profile"}.get(local[0], local[0])
        raise UsageError(message=f"tx: --{name} cannot be combined with --on", hint="put it into the profile on the worker")
    if any("=" in one for one in options.env):
        raise UsageError(
            message="tx: --env NAME=VALUE cannot be combined with --on: values stay on the worker",
            hint="--env NAME, with the value in the worker's environment or profile",
        )
    return RunOptions(**{name: given[name] for name in SENT_OPTIONS})
