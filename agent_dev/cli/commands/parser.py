"""The parser that every word has: argparse that fails as the rest of the program does."""

import argparse
import os
from collections.abc import Callable

from agent_dev.errors import UsageError
from agent_dev.run.prepare import Options
from agent_dev.session.sessions import Here, Listed

Verb = Callable[[list[str], Here, Options], int]


class _Help(argparse.HelpFormatter):
    """Help whose texts keep their lines and are wrapped at words, to the terminal's width."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap  # as argparse itself has it

        rows = [row for part in text.splitlines() for row in textwrap.wrap(part, width, break_on_hyphens=False) or [""]]
        return "".join(f"{indent}{row}\n" for row in rows).rstrip("\n")


class Parser(argparse.ArgumentParser):
    """argparse that fails as the rest of the program does: one line, exit code 2."""

    def error(self, message: str) -> "None":  # type: ignore[override]
        """Raise what argparse would print and exit with."""
        raise UsageError(message=f"{self.prog.removeprefix('agent-dev ')}: {message}", hint=f"{self.prog} --help")


def parser_of(verb: str, about: str, example: str) -> Parser:
    """Return a parser with a word's help: what it is about, and an example."""
    return Parser(
        prog=f"agent-dev {verb}",
        description=about,
        epilog=f"example:  {example}",
        formatter_class=_Help,
        allow_abbrev=False,
    )


def add_session(parser: Parser) -> None:
    """Add the argument that names a session."""
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help="an id or a --name; else the newest here")


def session_parser(verb: str, about: str) -> Parser:
    """Return a parser whose argument is a session."""
    parser = parser_of(verb, about, f"agent-dev {verb}")
    add_session(parser)
    return parser


def below(path: str, where: Here, one: Listed) -> str:
    """Return a path as typed as one below a session's root; of a session of elsewhere it is typed from there."""
    root = str(one.record["roots"][0]).rstrip("/")
    is_here = where.cwd == root or where.cwd.startswith(root + "/")
    full = os.path.normpath(os.path.join(where.cwd if is_here else root, path))
    if full != root and not full.startswith(root + "/"):
        raise UsageError(message=f"{path} does not lie in {root}", hint="name a path of the repository")
    return os.path.relpath(full, root) if full != root else ""
