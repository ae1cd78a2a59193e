"""Parse the options before the agent's name."""

from agent_dev.config.options import RunOptions, parse_limit_option
from agent_dev.config.profile import NETS
from agent_dev.errors import UsageError
from agent_dev.inside.option_parser import InvalidOption, next_option
from agent_dev.session import session_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_FIELDS = {
    "-C": "directory",
    "--home": "home",
    "--net": "net",
    "--allow": "allow",
    "--deny": "deny",
    "--publish": "publish",
    "--name": "name",
    "-p": "prompt",
    "--prompt": "prompt",
    "--profile": "profile_file",
    "--config": "config",
    "--record": "record",
    "--worktree": "worktree",
    "--ro": "ro",
    "--rw": "rw",
    "--overlay": "overlay",
    "--env": "env",
    "--share": "share",
    "--limit": "limit",
}
_LISTS = ("ro", "rw", "overlay", "env", "share", "limit", "allow", "deny", "publish")  # repeatable
_SWITCHES = {
    "--no-merge": ("merge", False),
    "--containers": ("containers", True),
    "--detachable": ("detachable", True),
    "--detach": ("detach", True),
    "--debug": ("debug", True),
    "-q": ("quiet", True),
    "--quiet": ("quiet", True),
}
_HINT = "agent-dev help --all"
_HELP = ("-h", "--help", "--version")
PLAIN = "--plain"  # only of `agent-dev` without arguments
_OF_EACH_COMMAND = ("directory", "config", "debug", "quiet", "plain")
TAKES_VALUE = dict.fromkeys(_FIELDS, True) | dict.fromkeys(_SWITCHES, False)


def parse(argv: list[str]) -> tuple[RunOptions, list[str], bool]:
    """Return the options, the arguments after them, and whether `--` separates the two. Raises UsageError."""
    rest = list(argv)
    found: list[tuple[str, str]] = []
    is_plain = False
    try:
        while option := next_option(rest, TAKES_VALUE | dict.fromkeys((*_HELP, PLAIN), False)):
            if option[0] in _HELP:
                return from_options(found), [option[0]], False
            is_plain = is_plain or option[0] == PLAIN
            found += [option] if option[0] != PLAIN else []
    except InvalidOption as error:
        if error.is_known:
            raise UsageError(message=f"{error.option} needs a value", hint=_HINT) from None
        is_of_run = error.option.partition("=")[0] == "--direct"
        hint = f"agent-dev run {error.option} AGENT" if is_of_run else f"{_HINT}; the agent's options follow its name"
        raise UsageError(message=f"unknown option {error.option}", hint=hint) from None
    is_separated = rest[:1] == ["--"]
    if is_plain and rest:
        raise UsageError(message=f"--plain takes no argument: {rest[0]}", hint="agent-dev --plain, or agent-dev merge --plain")
    options = from_options(found)
    return options.replace(plain=True) if is_plain else options, rest[is_separated:], is_separated


def from_options(options: "Iterable[tuple[str, str]]") -> RunOptions:
    """Return parsed options, pairs of name and value, as fields. Raises UsageError for an invalid value."""
    fields: dict[str, Any] = {}
    for name, value in options:
        if name in _SWITCHES:
            fields.update([_SWITCHES[name]])
            continue
        _check(name, value)
        field = _FIELDS[name]
        fields[field] = (*fields.get(field, ()), value) if field in _LISTS else value
    return RunOptions(**fields)


def given_run_options(options: RunOptions) -> tuple[str, ...]:
    """Return the names of the given options that only a run has."""
    names = {field: name for name, field in (*_FIELDS.items(), *((name, field) for name, (field, _) in _SWITCHES.items()))}
    given = (field for field, value in options.as_dict().items() if value != getattr(RunOptions, field))
    return tuple(names[field] for field in given if field not in _OF_EACH_COMMAND)


def _check(name: str, value: str) -> None:
    if not value and name != "-C":  # as in git, -C "" is the current directory
        raise UsageError(message=f"the value of {name} is empty", hint=_HINT)
    if name == "--limit":
        parse_limit_option(value)  # a usage error, not a failure of the run
    if name in ("--env", "--share", "--allow", "--deny", "--publish"):
        _check_against_schema(name, value.partition("=")[0] if name == "--env" else value)
    if name == "--net" and value not in NETS:
        from agent_dev.config import validators  # rare

        similar = validators.closest_match(value, NETS) or "none"
        raise UsageError(message=f"--net {value}: expected {', '.join(NETS[:-1])} or {NETS[-1]}", hint=f"--net {similar}")
    if name in ("--name", "--worktree"):
        check_session_name(value, f"{name} ", f"{name} fix-login")


def check_session_name(name: str, prefix: str = "", hint: str = "") -> None:
    """Check the name of a session. Raises UsageError."""
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise UsageError(message=f"{prefix}{name!r}: only letters, digits, `.`, `-` and `_`", hint=hint)
    if name.startswith("-") or ".." in name:  # it would be read as an option, or as `diff A..B`
        raise UsageError(message=f"{prefix}{name!r}: not `-` first, and no two `.` in a row", hint=hint)
    if session_ids.is_id(name):  # commands would find the session with that id instead
        raise UsageError(message=f"{prefix}{name!r}: it has the form of a session's id", hint=hint)


def _check_against_schema(name: str, value: str) -> None:
    from agent_dev.config import schema  # rare; the run imports it then anyway

    problems = schema.check_values(name.removeprefix("--"), name, [value])
    if problems:
        raise UsageError(message=problems[0], hint=_HINT)
