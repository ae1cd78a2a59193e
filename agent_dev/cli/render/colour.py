"""Colours of text output: on a terminal, unless NO_COLOR is set, or as `--color` says."""

import sys
from collections.abc import Mapping
from enum import StrEnum

from agent_dev.value import Value

AUTO, ALWAYS, NEVER = "auto", "always", "never"
HELP = "auto (on a terminal), always or never"
_END = "\x1b[m"


class OutputTone(StrEnum):
    """The meaning of a coloured text, as the start of its escape sequence."""

    STRONG = "\x1b[1m"
    REMOVED = "\x1b[31m"
    ADDED = "\x1b[32m"
    CHANGED = "\x1b[33m"
    RISK = "\x1b[35m"
    HEADING = "\x1b[36m"
    DIM = "\x1b[2m"


class Palette(Value):
    """Paints text, or leaves it as it is."""

    is_coloured: bool = False

    def paint(self, text: str, tone: OutputTone | None) -> str:
        """Return a text in a tone; it must not contain escape sequences."""
        return f"{tone}{text}{_END}" if self.is_coloured and tone is not None and text else text


PLAIN = Palette()


def choose_palette(environ: Mapping[str, str], color: str = AUTO) -> Palette:
    """Return the palette for stdout."""
    is_dumb = environ.get("TERM", "dumb") in ("", "dumb")
    is_wanted = sys.stdout.isatty() and not is_dumb and not environ.get("NO_COLOR")
    return Palette(color == ALWAYS or (color == AUTO and is_wanted))
