"""Prompts on stdout, answers from stdin."""

import sys

from agent_dev.cli import typeahead
from agent_dev.sanitize import visible


class StandardLines:
    """The input and output of a plain dialogue."""

    def write_line(self, line: str) -> None:
        """Print a line."""
        sys.stdout.write(f"{line}\n")

    def read_answer(self, question: str) -> str | None:
        """Print a prompt and return the answer; None at the end of input."""
        sys.stdout.write(visible(question))
        sys.stdout.flush()
        return sys.stdin.readline() or None

    def discard_typeahead(self) -> None:
        """Drop input that was typed before the prompt."""
        typeahead.drop_typeahead()
