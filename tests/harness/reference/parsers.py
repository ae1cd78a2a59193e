"""The subcommands with their options and arguments, as their own parsers and help texts describe them."""

import argparse
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from agent_dev.cli import help_text, main, tx, work
from agent_dev.cli import options as run_options
from agent_dev.cli.commands.dispatch import find_verb
from agent_dev.cli.completion import command as completion_command
from agent_dev.cli.parser import Parser
from agent_dev.config.options import RunOptions
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext

NESTED = ("sessions rename",)  # subcommands of subcommands
_ROW = re.compile(r" {2}(\S.*?)(?: {2,}(\S.*))?")  # a row of a help text: names, and what they do


@dataclass(frozen=True)
class Argument:
    """An option (it has names) or a positional argument.

    `count` is argparse's `nargs`; 0: an option without a value, "=": an optional value after `=` only.
    """

    names: tuple[str, ...]
    metavar: str
    about: str
    choices: tuple[str, ...] = ()
    count: int | str | None = None


@dataclass(frozen=True)
class Subcommand:
    """A subcommand. `about` is one line, `usage` begins with `agent-dev`."""

    name: str
    about: str
    description: str
    usage: str
    arguments: tuple[Argument, ...]
    example: str

    @property
    def options(self) -> tuple[Argument, ...]:
        """Return the arguments that have names."""
        return tuple(one for one in self.arguments if one.names)

    @property
    def positionals(self) -> tuple[Argument, ...]:
        """Return the arguments without names."""
        return tuple(one for one in self.arguments if not one.names)


class _Found(Exception):
    """The parser whose help was requested."""

    def __init__(self, parser: Parser) -> None:
        super().__init__()
        self.parser = parser


def find_parsers() -> dict[str, Parser]:
    """Return the parser of each subcommand that uses argparse: the one whose help `SUBCOMMAND --help` prints."""

    def stop(parser: Parser, *_: object) -> None:
        raise _Found(parser)

    found = {}
    verbs = [*(word for words in main.VERB_GROUPS.values() for word in words), *NESTED, "completion"]
    with mock.patch.object(Parser, "print_help", stop):
        for verb in verbs:
            try:
                _print_help(verb.split())
            except _Found as caught:
                found[verb] = caught.parser
    assert list(found) == verbs
    return found


def _print_help(words: list[str]) -> None:
    if words == ["completion"]:
        completion_command.run(["--help"])
        return
    area = next(area for area, names in main.VERB_GROUPS.items() if words[0] in names)
    with tempfile.TemporaryDirectory() as folder:
        context = CommandContext(store.Store(folder), folder, folder, {"HOME": folder})
        find_verb(area, words[0])([*words[1:], "--help"], context, RunOptions())


def subcommands() -> tuple[Subcommand, ...]:
    """Return all subcommands in the order of `help --all`."""
    listed = {row[0]: row for row in _rows(help_text.ALL)}
    found = [_from_parser(verb, parser, listed) for verb, parser in find_parsers().items()]
    found.append(_from_text("tx", tx.HELP, listed, tx.HELP_SEVERAL))
    found += [_from_text("work", work.HELP, listed), _from_text("run", help_text.RUN, listed)]
    order = [_verb_of(row) for row in listed]
    found.sort(key=lambda one: order.index(one.name))
    return (*found, _help([one.name for one in found if one.name not in NESTED]))


def run_arguments() -> tuple[Argument, ...]:
    """Return the options before an agent's name."""
    rows = {word.rstrip(","): row for row in _rows(help_text.ALL) for word in row[0].split() if word.startswith("-")}
    found = [_from_row(*row) for row in dict.fromkeys(rows[name] for name in (*run_options.TAKES_VALUE, run_options.PLAIN))]
    return (*found, Argument(("--version",), "", "print the version", count=0), _HELP)


_TEXT_ARGUMENTS = {
    "run": (("AGENT", "an agent, with its arguments"),),
    "tx": (("COMMAND", "a command or an agent, with its arguments"),),
    "work": (),
}
_HELP = Argument(("-h", "--help"), "", "show this help message and exit", count=0)


def _rows(text: str) -> Iterator[tuple[str, str]]:
    """Yield the rows of a help text: names with their metavar, and what they do; rows that continue one are joined."""
    left = right = ""
    for line in text.splitlines():
        if left and line.startswith(" " * 10):
            right += " " + line.strip()
            continue
        if left:
            yield left, right.strip()
        match = _ROW.fullmatch(line) if not line.startswith("   ") else None
        left, right = (match[1], match[2] or "") if match else ("", "")
    if left:
        yield left, right.strip()


def _verb_of(left: str) -> str:
    """Return the subcommand of a row of `help --all`."""
    words = left.removeprefix("[OPTIONS] ").split()
    return "sessions rename" if words[:2] == ["sessions", "rename"] else words[0].rstrip(",")


def _abouts(listed: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Return what each subcommand does, in one line: the first of its rows."""
    found: dict[str, str] = {}
    for left, right in listed.values():
        found.setdefault(_verb_of(left), right)
    return found


def _from_parser(verb: str, parser: Parser, listed: dict[str, tuple[str, str]]) -> Subcommand:
    arguments = tuple(_from_action(action) for action in parser._actions if action.help != argparse.SUPPRESS)
    names = " ".join(_placeholder(one) for one in arguments if not one.names)
    usage = parser.usage or f"{parser.prog} [OPTIONS] {names}".rstrip()
    about, description, example = _abouts(listed)[verb], str(parser.description), str(parser.epilog)
    return Subcommand(verb, about, description, usage, arguments, example.removeprefix("example:").strip())


def _placeholder(one: Argument) -> str:
    if one.count in ("?", "*"):
        return f"[{one.metavar.strip('[]')}{'…' if one.count == '*' else ''}]" if "[" not in one.metavar else one.metavar
    return one.metavar


def _from_action(action: argparse.Action) -> Argument:
    metavar = str(action.metavar or "|".join(map(str, action.choices or ())) or "")
    choices = tuple(map(str, action.choices or ()))
    return Argument(tuple(action.option_strings), metavar, str(action.help), choices, action.nargs)


def _from_row(left: str, about: str) -> Argument:
    """Return the option of a row of a help text, such as `--net host|none` or `--direct[=PROVIDER]`."""
    *aliases, left = left.split(", ")
    name, _, metavar = left.partition(" ")
    name, is_attached, value = name.partition("[=")
    count = "=" if is_attached else None if metavar else 0
    metavar = value.rstrip("]") if is_attached else metavar
    choices = tuple(metavar.split("|")) if metavar.islower() and "|" in metavar else ()
    return Argument((*aliases, name), metavar, about, choices, count)


def _from_text(verb: str, text: str, listed: dict[str, tuple[str, str]], more: str = "") -> Subcommand:
    """Return a subcommand that parses without argparse, as its help text describes it; `more`: a text with further options."""
    usage, description, *others = text.split("\n\n")
    lines = [line.removeprefix("usage: ").strip() for line in usage.splitlines()]
    rows = dict((*_rows(text), *_rows(more)))
    options = tuple(_from_row(*row) for row in rows.items() if row[0].startswith("-"))
    example = text.partition("example:")[2].strip()
    positionals = tuple(Argument((), *row, count=argparse.REMAINDER) for row in _TEXT_ARGUMENTS[verb])
    notes = [part.partition("example:")[0] for part in others if not part.startswith("  -")]
    joined = "\n".join(" ".join(part.split()) for part in (description, *notes) if part.strip())
    return Subcommand(verb, _abouts(listed)[verb], joined, "\n".join(lines), (*options, _HELP, *positionals), example)


def _help(verbs: list[str]) -> Subcommand:
    arguments = (
        Argument(("--all",), "", "list all subcommands and options", count=0),
        Argument((), "SUBCOMMAND", "the subcommand to describe", tuple(verbs), "?"),
    )
    about = "describe agent-dev or a subcommand"
    usage = "agent-dev help [--all | SUBCOMMAND]"
    return Subcommand("help", about, "Describe agent-dev or one of its subcommands.", usage, arguments, "agent-dev help merge")
