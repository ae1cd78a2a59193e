"""The man page agent-dev(1), with a section for each subcommand."""

from collections.abc import Iterator
from pathlib import Path

from agent_dev import __version__
from agent_dev.cli import help_text
from tests.harness.reference.parsers import Argument, Subcommand, run_arguments, subcommands

PAGE = Path(__file__).parents[3] / "docs/agent-dev.1"
_SYNOPSIS = ("agent-dev [OPTIONS] AGENT [ARGS…]", "agent-dev [OPTIONS] -- COMMAND [ARGS…]", "agent-dev SUBCOMMAND [ARGS…]")
_FILES = (
    ("~/.config/agent-dev/config.yaml", "settings"),
    ("~/.config/agent-dev/profiles/NAME.yaml", "profiles of your own"),
    (".agent-dev.yaml", "settings of a repository, used after agent-dev trust"),
    ("~/.local/state/agent-dev/", "sessions, merges and the trash"),
    ("~/aihome/", "the agent home"),
)


def make_page() -> str:
    """Return the page as roff (man(7))."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield '.\\" Written by python -m tests.harness.reference.'
    yield f'.TH AGENT\\-DEV 1 "" "agent\\-dev {_escape(__version__)}" "User Commands"'
    about = " ".join(help_text.ALL.partition("\n\n")[0].split()).removeprefix("agent-dev: ")
    yield ".SH NAME"
    yield f"agent\\-dev \\- {_escape(about)}"
    yield ".SH SYNOPSIS"
    yield from _usage(_SYNOPSIS)
    yield ".SH DESCRIPTION"
    yield "An agent works on a copy\\-on\\-write overlay of the repository. When it exits, its changes are reviewed and applied."
    yield "AGENT is a profile, or a program that `programs:` lists; COMMAND can be any command."
    yield ".SH OPTIONS"
    for one in run_arguments():
        yield from _argument(one)
    yield ".SH SUBCOMMANDS"
    for verb in subcommands():
        yield from _section(verb)
    yield ".SH FILES"
    for path, meaning in _FILES:
        yield from _item(f".I {_escape(path)}", meaning)
    yield ".SH SEE ALSO"
    yield ".BR bwrap (1),"
    yield ".BR git (1)"


def _section(verb: Subcommand) -> Iterator[str]:
    yield f".SS agent\\-dev {_escape(verb.name)}"
    yield from _usage([" ".join(line.split()) for line in verb.usage.splitlines()])
    yield ".PP"
    yield from map(_escape, verb.description.splitlines())
    for one in (*verb.positionals, *verb.options):
        yield from _argument(one)
    if verb.example:
        yield ".PP"
        yield f"Example: {_bold(verb.example)}"


def _usage(lines: list[str] | tuple[str, ...]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number:
            yield ".br"
        yield _escape(line)


def _argument(one: Argument) -> Iterator[str]:
    value = f"\\fI{_escape(one.metavar)}\\fR" if one.metavar else ""
    text = ", ".join(map(_bold, one.names))
    if not one.names:
        text = value
    elif one.count == "=":
        text += f"[={value}]"
    elif one.count == "?":
        text += f" [{value}]"
    elif value:
        text += f" {value}"
    yield from _item(text, one.about)


def _item(head: str, about: str) -> Iterator[str]:
    yield ".TP"
    yield head
    yield _escape(about)


def _bold(text: str) -> str:
    return f"\\fB{_escape(text)}\\fR"


def _escape(text: str) -> str:
    """Return text as roff: hyphens that can be copied, and no line that begins as a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "\\&...").replace("`", "\\(ga").replace("~", "\\(ti")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
