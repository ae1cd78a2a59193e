"""The word `tx`: its arguments, and what it says. Not with the other words: argparse would cost as much as the sandbox."""

import os

from agent_dev.cli import main as cli
from agent_dev.errors import NOT_STARTED, AgentDevError, UsageError, UsageOfRun
from agent_dev.run.prepare import Options, Request
from agent_dev.sanitize import visible
from agent_dev.transaction import transact
from agent_dev.transaction.transact import Result, Terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LISTS = {"--validate": "validations", "--take": "take", "--allow": "allowed"}
_VALUES = ("--timeout", "--many", "--jobs")
_SWITCHES = {
    "--include-ignored": "with_ignored",
    "--include-risky": "with_risky",
    "--yes-delete-many": "with_many_deletions",
    "--json": "json",
    "--first": "first",
}
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

HELP = """\
usage: agent-dev tx [OPTIONS] [--] COMMAND [ARGS…]
       agent-dev tx [OPTIONS] --many FILE [--jobs N] [--first]

Run a command in a fresh overlay. When it ends with 0 and every validation
passes, what it changed is merged without a question; else nothing in the real
tree has changed, and the session is kept to be looked at.

  --validate CMD       a shell command that must pass afterwards, in the same
                       overlay; may be repeated
  --timeout T          for all of it: 90, 90s, 5m, 1h
  --take PATH          merge only PATH and all below it; may be repeated
  --include-ignored    merge what git ignores too
  --allow RULE         merge changes that meet this rule of risks.yaml; may be
                       repeated (or tx_allow: in config.yaml)
  --include-risky      merge every risky change
  --yes-delete-many    delete a large share of the tree's files
  --json               one JSON document on stdout, the command's own output
                       on stderr
  --many FILE          a transaction for each line of FILE (-: stdin), as a
                       shell reads it; merged in that order
  --jobs N             so many at a time (as many as there are processors)
  --first              merge only the first to pass, and end the others
and the options of a run (agent-dev --help)

exit code: 0 merged; the command's own; 124 timeout; 1 validation, limit,
policy, conflict, risk or many deletions; 125 not started
with --many: 0 when all were merged, with --first when one was; else 1

example:  agent-dev tx --validate 'make test' -- claude -p 'fix the login'
"""


def run(words: list[str], options: Options, environ: dict[str, str]) -> int:
    """Carry out `agent-dev tx WORDS` and return the exit code. Raises AgentDevError when nothing ran."""
    try:
        listed, terms = _understood(words, options, environ)
        if listed["help"]:
            cli.out(HELP)
            return 0
        if listed["many"]:
            from agent_dev.cli import tx_many as batch  # many at once: another way of running

            return batch.run(listed, terms)
    except UsageError as error:
        if _asks_for_json(words):
            cli.out(document(_not_started(error)))
        raise UsageOfRun(message=error.message, hint=error.hint) from None
    try:
        return _carry_out(terms, as_json=bool(listed["json"]))
    except UsageError as error:
        raise UsageOfRun(message=error.message, hint=error.hint) from None


def _understood(words: list[str], options: Options, environ: dict[str, str]) -> "tuple[dict[str, Any], Terms]":
    """Return how it is carried out and told, and the terms. Raises UsageError."""
    fields, rest, (more, is_command) = _parse(words)
    request = Request(tuple(rest), _both(options, more).but(merge=False), environ, is_command, has_checkpoints=False)
    listed = {name: fields.pop(name, None) for name in ("help", "json", "many", "jobs", "first")}
    terms = Terms(request=request, **fields)
    if not listed["help"]:
        _check(listed, terms)
    return listed, terms


def _asks_for_json(words: list[str]) -> bool:
    """Whether `--json` is among the options, whatever is wrong with them."""
    is_value = False
    for word in words:
        if not is_value and (word == "--" or not word.startswith("-")):
            break
        if word == "--json" and not is_value:
            return True
        is_value = not is_value and (word in _LISTS or word in _VALUES or cli.takes_value(word))
    return False


def _not_started(error: AgentDevError) -> dict[str, object]:
    return {"state": "not started", "exit": NOT_STARTED, "reason": error.message}


def _carry_out(terms: Terms, *, as_json: bool) -> int:
    kept = _talk_only() if as_json else -1
    try:
        result = transact.transact(terms, cli.say)
    except AgentDevError as error:
        error.code = NOT_STARTED
        if as_json:
            _give_back(kept)
            cli.out(document(_not_started(error)))
        raise
    if as_json:
        _give_back(kept)
        cli.out(document(result.row()))
    tell(result)
    return result.code


def _check(listed: "dict[str, Any]", terms: Terms) -> None:
    if terms.allowed:
        _check_rules(terms.allowed, terms.request.environ)
    if listed["many"] and terms.request.words:
        raise UsageError(message="tx: --many FILE has the commands; what is this one?", hint="agent-dev tx --help")
    if not listed["many"] and (listed["jobs"] or listed["first"]):
        raise UsageError(message="tx: --jobs and --first go with --many", hint="agent-dev tx --help")
    if not listed["many"] and not terms.request.words:
        raise UsageError(message="tx: which command?", hint="agent-dev tx --help")
    if terms.request.options.name:
        from agent_dev.session import naming  # most have none

        naming.check(terms.request.options, terms.request.environ)


def _check_rules(names: tuple[str, ...], environ: dict[str, str]) -> None:
    from agent_dev.config import load
    from agent_dev.config import validators as checks  # only with --allow

    known = [rule.name for rule in load.risk_rules(environ)]
    for name in names:
        if name not in known:
            message = f"--allow {name}: no rule of risks.yaml{checks.nearest(name, known)}"
            raise UsageError(message=message, hint="agent-dev status names those that a change meets, docs/risks.md all")


def _talk_only() -> int:
    """Send what a command writes to stdout to stderr; return what stdout was."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _give_back(kept: int) -> None:
    os.dup2(kept, 1)
    os.close(kept)


def document(row: dict[str, object]) -> str:
    """Return what --json prints."""
    from json import dumps  # only for --json

    return dumps({"version": 1, **row}, indent=1) + "\n"


def tell(result: Result) -> None:
    """Say in a line how it ended, and what can be typed next."""
    for path in result.unchanged if result.cause != "take" else ():  # which says it itself
        cli.say(f"--take {visible(path)}: nothing changed there")
    if result.cause:
        cli.say(f"nothing was merged: {visible(result.reason)}")
        if result.session:
            cli.say(f"session {result.name} is kept: agent-dev diff {result.name}, agent-dev discard {result.name}")
        return
    _tell_merged(result)
    if result.session:
        commits = f"{result.commits} commit{'s' * (result.commits != 1)}" if result.commits else ""
        files = "what was left" if result.left or not commits else ""
        cli.say(f"session {result.name} waits with {' and '.join(filter(None, (commits, files)))}")


def _tell_merged(result: Result) -> None:
    if result.merge:
        cli.say(f"merge {result.merge}: {len(result.taken)} taken, {len(result.left) or 'nothing'} left (agent-dev undo)")
    elif result.left:
        cli.say(f"nothing to merge but {len(result.left)} that were left (--include-ignored, --take PATH)")
    elif not result.session:
        cli.say("it changed nothing, so nothing is merged")


# Words


def _parse(words: list[str]) -> "tuple[dict[str, Any], list[str], tuple[Options, bool]]":
    """Return the fields of Terms, the command, and the options of a run with whether `--` stood before the command."""
    fields: dict[str, Any] = {}
    general: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if word in ("-h", "--help"):
            return {"help": True}, [], (Options(), False)
        if word in _SWITCHES:
            fields[_SWITCHES[word]] = True
        elif name in _LISTS or name in _VALUES:
            _set(fields, name, value if has_value else _next(name, rest))
        else:
            general.append(word)
            if cli.takes_value(word) and rest:
                general.append(rest.pop(0))
    is_command = rest[:1] == ["--"]
    options, unknown, _ = cli.parse(general)
    if unknown:
        raise UsageError(message=f"tx: {unknown[0]} is no option of it", hint="agent-dev tx --help")
    return fields, rest[is_command:], (options, is_command)


def _next(name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(message=f"tx: {name} needs a value", hint="agent-dev tx --help")
    return rest.pop(0)


def _set(fields: "dict[str, Any]", name: str, value: str) -> None:
    if not value:
        raise UsageError(message=f"tx: {name} needs a value, and got an empty one", hint="agent-dev tx --help")
    if name == "--timeout":
        fields["timeout"] = _milliseconds(value)
    elif name == "--jobs":
        fields["jobs"] = _count(value)
    elif name == "--many":
        fields["many"] = value
    else:
        fields[_LISTS[name]] = (*fields.get(_LISTS[name], ()), value)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 64):
        raise UsageError(message=f"tx: --jobs {text}: a number from 1 to 64", hint="--jobs 4")
    return int(text)


def _milliseconds(text: str) -> int:
    number = text.rstrip("smh")
    unit = text[len(number) :] or "s"
    try:
        found = int(float(number) * _UNITS[unit])
    except (ValueError, OverflowError, KeyError):
        found = 0
    if not 1 <= found <= 1 << 40:
        raise UsageError(message=f"tx: --timeout {text}: how long?", hint="90, 90s, 5m or 1h")
    return found


def _both(before: Options, more: Options) -> Options:
    """Return options given before `tx` with those given after it."""
    found: dict[str, Any] = {}
    for name, value in more.as_dict().items():
        old = before.as_dict()[name]
        found[name] = (*old, *value) if isinstance(value, tuple) else (old if value == getattr(Options, name) else value)
    return Options(**found)
