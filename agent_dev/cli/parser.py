"""The argparse parser of all subcommands."""

import argparse
import os
from collections.abc import Callable

from agent_dev.cli.console import silence
from agent_dev.cli.render import colour
from agent_dev.config.options import RunOptions
from agent_dev.errors import UsageError
from agent_dev.session.sessions import CommandContext, ListedSession

_FALLBACK, _MARGIN = 80, 2  # columns, as in argparse
Verb = Callable[[list[str], CommandContext, RunOptions], int]


class _Help(argparse.HelpFormatter):
    """Help that keeps the lines of its texts and wraps them at words to the terminal's width."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=_columns() - _MARGIN)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap  # argparse imports it here, too

        rows = [row for part in text.splitlines() for row in textwrap.wrap(part, width, break_on_hyphens=False) or [""]]
        return "".join(f"{indent}{row}\n" for row in rows).rstrip("\n")


def _columns() -> int:
    """Return the columns of the terminal. argparse would import shutil for it, with the modules of four kinds of archives."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(1).columns or _FALLBACK
    except OSError:
        return _FALLBACK


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError: one line, exit code 2.

    It refuses empty values, which an unset variable of a script leaves: most commands mean something else without the value.
    """

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        """Return the values that were given for an action."""
        if "" in arg_strings and action.nargs != argparse.REMAINDER:
            self.error(f"the value of {action.option_strings[-1]} is empty" if action.option_strings else "an argument is empty")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> "None":  # type: ignore[override]
        """Raise UsageError instead of printing and exiting."""
        raise UsageError(message=f"{self.prog.removeprefix('agent-dev ')}: {message}", hint=f"{self.prog} --help")


class _Silence(argparse.Action):
    """Omit notices, progress and confirmations; there is no value to store."""

    def __call__(self, *_: object) -> None:
        silence()


def make_parser(verb: str, description: str, example: str) -> Parser:
    """Return the parser of a subcommand with its description and an example."""
    parser = Parser(
        prog=f"agent-dev {verb}",
        description=description,
        epilog=f"example:  {example}",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("-q", "--quiet", action=_Silence, nargs=0, help="print only results, warnings and errors")
    return parser


def add_session_argument(parser: Parser, default: str = "the newest here") -> None:
    """Add the argument that names a session. `default`: the session that is meant without it."""
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help=f"an id or --name; default: {default}")


def add_color_argument(parser: Parser, about: str = colour.HELP) -> None:
    """Add `--color`."""
    parser.add_argument("--color", choices=(colour.AUTO, colour.ALWAYS, colour.NEVER), default=colour.AUTO, help=about)


def make_session_parser(verb: str, description: str, example: str = "", *, default: str = "the newest here") -> Parser:
    """Return a parser with a session as argument; without an `example` the subcommand alone is one."""
    parser = make_parser(verb, description, example or f"agent-dev {verb}")
    add_session_argument(parser, default)
    return parser


def relative_to_root(path: str, context: CommandContext, one: ListedSession) -> str:
    """Return a typed path relative to the session's root; outside the root it is resolved from the root."""
    root = str(one.record["roots"][0]).rstrip("/")
    is_inside = context.cwd == root or context.cwd.startswith(root + "/")
    full = os.path.normpath(os.path.join(context.cwd if is_inside else root, path))
    if full != root and not full.startswith(root + "/"):
        raise UsageError(message=f"{path} is outside {root}", hint="name a path of the repository")
    return os.path.relpath(full, root) if full != root else ""
