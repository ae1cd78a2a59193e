"""The table of shell completion: the subcommands, and what each of their options and arguments can be."""

import json
from pathlib import Path
from typing import Any

from agent_dev.config import limits
from agent_dev.config.profile import SHARES
from tests.harness.reference.parsers import Argument, Subcommand, run_arguments, subcommands

TABLE = Path(__file__).parents[3] / "agent_dev/cli/completion/table.json"
_SOURCES = {  # what a metavar stands for; others are typed by the user
    "SESSION": ("session",),
    "[SESSION] [PATH…]": ("session", "files"),
    "MERGE": ("merge",),
    "AGENT": ("agent",),
    "AGENT [ARGS…]": ("agent",),
    "COMMAND": ("agent", "commands"),
    "PATH": ("files",),
    "PATH[:HUNK,…]": ("files",),
    "PATH=SIDE": ("files",),
    "FILE": ("files",),
    "TARGET": ("files",),
    "DIR": ("directories",),
}
_OWN = {  # of one subcommand, where the metavar alone does not say it
    ("stop", "SESSION"): ("running",),
    ("approve", "SESSION"): ("running",),
    ("undiscard", "SESSION"): ("discarded",),
    ("profiles", "NAME"): ("profile",),
    ("config", "AGENT"): ("profile",),
    ("install", "AGENT"): ("package",),
    ("init", "AGENT"): ("package",),
    ("", "PATH"): ("directories",),
}
_WORDS = {
    ("", "--share"): SHARES,
    ("", "--limit"): tuple(f"{name}=" for name in limits.NAMES),
    ("policy", "--set"): ("guard", "strict", "off"),
    ("init", "--policy"): ("guard", "strict", "off"),
    ("init", "--home"): ("common", "agent", "project"),
    ("init", "--limit"): tuple(f"{name}=" for name in limits.NAMES),
    ("run", "--direct"): ("btrfs", "snapper", "reflink", "copy"),
    ("sessions", ""): ("rename",),
}


_FORMS: dict[int | str | None, str] = {0: "", "?": "optional", "=": "attached"}  # how an option takes its value


def make_table() -> str:
    """Return the table as JSON, one option per line."""
    verbs = {one.name: _grammar(one) for one in subcommands()}
    verbs["tx"]["options"] += [_option("", one) for one in run_arguments() if one.names[0] not in ("--version", "-h", "--plain")]
    options = [_option("", one) for one in run_arguments()]
    rows = ",\n".join(f"{_json(name)}: {_verb_json(verb)}" for name, verb in verbs.items())
    return f'{{"options": {_list_json(options)},\n"verbs": {{\n{rows}}}}}\n'


def _verb_json(verb: dict[str, Any]) -> str:
    first = _json({name: value for name, value in verb.items() if name != "options"})
    return f'{first[:-1]}, "options": {_list_json(verb["options"])}}}'


def _list_json(options: list[dict[str, Any]]) -> str:
    return "[\n  " + ",\n  ".join(map(_json, options)) + "]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _grammar(one: Subcommand) -> dict[str, Any]:
    positionals = one.positionals
    arguments = [_value(one.name, each) for each in positionals]
    if not arguments and (words := _WORDS.get((one.name, ""))):
        arguments = [{"words": list(words), "sources": []}]
    last = positionals[-1].count if positionals else None
    return {
        "about": one.about,
        "options": [_option(one.name, each) for each in one.options],
        "arguments": arguments,
        "is_repeated": last == "*",  # the last argument
        "ends_options": last == "...",  # what follows the first argument belongs to the agent
        "has_command": "-- COMMAND" in one.usage or "[--] COMMAND" in one.usage,
    }


def _option(verb: str, one: Argument) -> dict[str, Any]:
    form = _FORMS.get(one.count, "required")
    return {"names": list(one.names), "about": one.about, "value": _value(verb, one) if form else None, "value_is": form}


def _value(verb: str, one: Argument) -> dict[str, list[str]]:
    metavar = one.metavar
    words = _WORDS.get((verb, one.names[0])) if one.names else None
    sources = _OWN.get((verb, metavar)) or _SOURCES.get(metavar, ())
    return {"words": list(words or one.choices), "sources": list(sources)}
