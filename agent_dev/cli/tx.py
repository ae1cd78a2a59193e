"""The subcommand `tx`. It parses without argparse, which would cost as much as the sandbox."""

import os

from agent_dev.cli import console
from agent_dev.cli import options as cli_options
from agent_dev.cli.render.transaction import print_result, result_as_json
from agent_dev.config.options import RunOptions
from agent_dev.errors import NOT_STARTED, AgentDevError, RunUsageError, UsageError
from agent_dev.inside.option_parser import InvalidOption, next_option
from agent_dev.inside.units import parse_duration
from agent_dev.run.request import AGENT_OR_COMMAND, COMMAND, RunRequest
from agent_dev.transaction import transact
from agent_dev.transaction.result import TransactionSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LISTS = {"--validate": "validations", "--take": "take", "--allow": "allowed"}
_COUNTS = {"--jobs": (1, 64), "--retries": (0, 100), "--best": (2, 64)}  # least, most
_TEXTS = ("--many", "--on", "--score", "--compare")
_VALUES = ("--timeout", *_TEXTS, *_COUNTS)
_SWITCHES = {
    "--include-ignored": "with_ignored",
    "--include-risky": "with_risky",
    "--yes-delete-many": "with_many_deletions",
    "--json": "json",
    "--first": "first",
    "--review": "review",
    "--resume": "resume",
    "--lowest": "lowest",
    "--merge": "merge",
    "-h": "help",
    "--help": "help",
}
_OF_MANY, _OF_BEST, _OF_BOTH = ("first", "review"), ("score", "lowest", "merge"), ("jobs", "on", "retries", "resume")
_OWN = ("help", "json", "many", "best", "compare", "lowest", "merge", *_OF_MANY, *_OF_BOTH)  # not fields of the spec
_OF_MERGE = {  # fields that have no effect if nothing is merged
    "take": "--take",
    "allowed": "--allow",
    "with_ignored": "--include-ignored",
    "with_risky": "--include-risky",
    "with_many_deletions": "--yes-delete-many",
}
_TAKES_VALUE = cli_options.TAKES_VALUE | dict.fromkeys((*_LISTS, *_VALUES), True) | dict.fromkeys(_SWITCHES, False)

HELP = """\
usage: agent-dev tx [OPTIONS] [--] COMMAND [ARGS…]
       agent-dev tx [OPTIONS] --many FILE
       agent-dev tx [OPTIONS] --best N --score CMD [--] COMMAND [ARGS…]

Run a command in a new overlay; apply its changes if all validations succeed.

  --validate CMD       shell command that must succeed afterwards; repeatable
  --timeout T          time limit for all of it: 90, 90s, 5m, 1h
  --take PATH          apply only PATH and everything below it; repeatable
  --include-ignored    apply files that git ignores, too
  --allow RULE         apply changes with this risk; repeatable
  --include-risky      apply all risky changes
  --yes-delete-many    allow deleting a large share of the tree's files
  --json               one JSON document on stdout, command output on stderr
  --many FILE          one transaction per line of FILE (-: stdin)
  --best N             run COMMAND N times, and propose the best attempt
Their options: agent-dev tx --many --help. Options of a run are accepted, too.

exit status: 0 merged, 124 timed out, 125 not started, else the command's or 1
example:  agent-dev tx --validate 'make test' -- claude -p 'fix the login'
"""
HELP_SEVERAL = """\
usage: agent-dev tx [OPTIONS] --many FILE [--jobs N] [--on HOST,HOST]
       agent-dev tx [OPTIONS] --best N --score CMD [--] COMMAND [ARGS…]
       agent-dev tx [OPTIONS] --compare SESSION

Run several transactions at the same time, each in its own overlay. With --many,
they are merged one after the other, in the order of the lines.

  --many FILE          one transaction per line of FILE (-: stdin)
  --first              with --many: apply only the first that succeeds
  --best N             run COMMAND N times, and propose the best attempt
  --score CMD          score an attempt: the last line that is only a number
  --lowest             the lowest score is the best, as for run times
  --merge              merge the best attempt without a review
  --compare SESSION    show an earlier comparison again, by one of its sessions
  --jobs N             run N at a time (default: number of processors)
  --on HOST,HOST       run on these ssh hosts, or on an engine of config.yaml
  --review             with --many --on: apply nothing, keep all sessions
  --retries N          with --on: repeat tasks of lost hosts N times (2)
  --resume             with --on: continue an interrupted run
Other options: agent-dev tx --help

exit status: 0 all merged, or an attempt proposed; 125 not started, else 1
example:  agent-dev tx --best 3 --score 'make -s score' -- claude -p 'fix it'
"""


def run(argv: list[str], options: RunOptions, environ: dict[str, str]) -> int:
    """Run `agent-dev tx ARGUMENTS` and return the exit code. Raises AgentDevError if nothing ran."""
    try:
        own_options, spec = _parse_spec(argv, options, environ)
        if own_options["help"]:
            console.write_stdout(HELP_SEVERAL if own_options["help"] == "several" else HELP)
            return 0
        if own_options["many"]:
            from agent_dev.cli import tx_many  # rare

            return tx_many.run(own_options, spec)
        if own_options["best"] or own_options["compare"]:
            from agent_dev.cli.attempts import tx_best  # rare

            return tx_best.run(own_options, spec)
    except UsageError as error:
        if _has_json_flag(argv):
            console.write_stdout(result_as_json(_not_started(error)))
        raise RunUsageError(message=error.message, hint=error.hint) from None
    try:
        return _carry_out(spec, as_json=bool(own_options["json"]))
    except UsageError as error:
        raise RunUsageError(message=error.message, hint=error.hint) from None


def _parse_spec(argv: list[str], options: RunOptions, environ: dict[str, str]) -> "tuple[dict[str, Any], TransactionSpec]":
    """Return the options of this process and the transaction's spec. Raises UsageError."""
    fields, rest, (later, kind) = _parse(argv)
    merged = _merge_options(options, later)
    request = RunRequest(tuple(rest), merged.replace(merge=False), environ, kind, has_checkpoints=False)
    own_options = {name: fields.pop(name, None) for name in _OWN}
    own_options["opens_review"] = merged.merge
    spec = TransactionSpec(request=request, **fields)
    if not own_options["help"]:
        _check(own_options, spec)
    return own_options, spec


def _has_json_flag(argv: list[str]) -> bool:
    """Return whether `--json` is among the options, even if others are wrong."""
    rest = list(argv)
    while True:
        try:
            option = next_option(rest, _TAKES_VALUE)
        except InvalidOption:
            continue  # reported elsewhere
        if option is None or option[0] == "--json":
            return option is not None


def _not_started(error: AgentDevError) -> dict[str, object]:
    return {"state": "not started", "exit": NOT_STARTED, "reason": error.message}


def _carry_out(spec: TransactionSpec, *, as_json: bool) -> int:
    stdout = _redirect_stdout() if as_json else -1
    try:
        result = transact.run_transaction(spec, console.notify)
    except AgentDevError as error:
        error.code = NOT_STARTED
        if as_json:
            _restore_stdout(stdout)
            console.write_stdout(result_as_json(_not_started(error)))
        raise
    if as_json:
        _restore_stdout(stdout)
        console.write_stdout(result_as_json(result.as_json()))
    print_result(result)
    return result.code


def _check(own_options: "dict[str, Any]", spec: TransactionSpec) -> None:
    if spec.allowed:
        from agent_dev.risk import load as risk_load  # only with --allow

        risk_load.check_rule_names(spec.allowed, spec.request.environ)
    _check_several(own_options, spec)
    if not own_options["many"] and not own_options["compare"] and not spec.request.arguments:
        raise UsageError(message="tx needs a command", hint="agent-dev tx --help")
    options = spec.request.options
    for name in ("record", "detach", "detachable", "worktree"):
        if getattr(options, name):
            raise UsageError(message=f"tx: --{name} is only for a run", hint="agent-dev tx --help")
    if spec.request.options.name:
        from agent_dev.session import session_names  # rare

        session_names.require_unused_name(spec.request.options, spec.request.environ)


def _check_several(own_options: "dict[str, Any]", spec: TransactionSpec) -> None:
    """Check the options of `--many` and `--best`. Raises UsageError."""
    many, best = own_options["many"], own_options["best"]
    given = {name for name, value in own_options.items() if value is not None} | ({"score"} if spec.score else set())
    problem = ""
    if many and (spec.request.arguments or best):
        problem = f"--many FILE and {'--best' if best else 'a command'} cannot be combined"
    elif own_options["compare"] and (spec.request.arguments or many or best):
        problem = f"--compare and {'a command' if spec.request.arguments else '--many or --best'} cannot be combined"
    elif best and not spec.score:
        problem = "--best requires --score"
    for names, is_met, needed in (
        (_OF_MANY, many, "--many"),
        (_OF_BEST, best, "--best"),
        (_OF_BOTH, many or best, "--many or --best"),
        (("review", "retries", "resume"), own_options["on"], "--on"),
    ):
        lone = [name for name in names if name in given and not is_met]
        problem = problem or (f"--{lone[0]} requires {needed}" if lone else "")
    unused = [option for field, option in _OF_MERGE.items() if getattr(spec, field)]
    if best and unused and not own_options["merge"]:
        problem = problem or f"{unused[0]} requires --merge with --best"
    if problem:
        raise UsageError(message=f"tx: {problem}", hint="agent-dev tx --many --help")


def _redirect_stdout() -> int:
    """Redirect stdout to stderr while the command runs; return a descriptor of the real stdout."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    return stdout


def _restore_stdout(stdout: int) -> None:
    os.dup2(stdout, 1)
    os.close(stdout)


# Arguments


def _parse(argv: list[str]) -> "tuple[dict[str, Any], list[str], tuple[RunOptions, str]]":
    """Return the fields of TransactionSpec, the command, and the options and kind of its run."""
    fields: dict[str, Any] = {}
    general: list[tuple[str, str]] = []
    rest = list(argv)
    try:
        while option := next_option(rest, _TAKES_VALUE):
            name, value = option
            if name in _SWITCHES:
                fields[_SWITCHES[name]] = True
            elif name in cli_options.TAKES_VALUE and name not in _LISTS:  # --allow names a risk here, before `tx` a host
                general.append(option)
            else:
                _set(fields, name, value)
            if "help" in fields:
                is_several = fields["help"] == "several" or fields.keys() & {"many", "best"}
                return {"help": "several" if is_several else "one"}, [], (RunOptions(), COMMAND)
    except InvalidOption as error:
        problem = f"{error.option} needs a value" if error.is_known else f"unknown option {error.option}"
        raise UsageError(message=f"tx: {problem}", hint="agent-dev tx --help") from None
    is_command = rest[:1] == ["--"]
    return fields, rest[is_command:], (cli_options.from_options(general), COMMAND if is_command else AGENT_OR_COMMAND)


def _set(fields: "dict[str, Any]", name: str, value: str) -> None:
    if not value:
        raise UsageError(message=f"tx: the value of {name} is empty", hint="agent-dev tx --help")
    if name in ("--many", "--best") and value in ("-h", "--help"):
        fields["help"] = "several"
    elif name == "--timeout":
        fields["timeout"] = _parse_milliseconds(value)
    elif name in _COUNTS:
        fields[name[2:]] = _parse_count(name, value, *_COUNTS[name])
    elif name in _TEXTS:
        fields[name[2:]] = value
    else:
        fields[_LISTS[name]] = (*fields.get(_LISTS[name], ()), value)


def _parse_count(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise UsageError(message=f"tx: {name} {text} is not a number from {least} to {most}", hint=f"{name} 4")
    return int(text)


def _parse_milliseconds(text: str) -> int:
    found = int(parse_duration(text) * 1000)
    if not found:
        raise UsageError(message=f"tx: --timeout {text} is not a duration", hint="--timeout 90s")
    return found


def _merge_options(before: RunOptions, later: RunOptions) -> RunOptions:
    """Merge the options before `tx` with those after it."""
    found: dict[str, Any] = {}
    for name, value in later.as_dict().items():
        old = before.as_dict()[name]
        found[name] = (*old, *value) if isinstance(value, tuple) else (old if value == getattr(RunOptions, name) else value)
    return RunOptions(**found)
