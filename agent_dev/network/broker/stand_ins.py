"""Stand-in keys: random keys in the format of real ones, generated for each session."""

import os

from agent_dev.config.credentials import key_prefix, parse_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_MIN_LENGTH = 20  # random letters: 119 bits


def make_stand_ins(values: "Iterable[tuple[str, Any]]") -> tuple[tuple[str, str], ...]:
    """Return a stand-in key for each variable of credentials; hosts with the same variable share it."""
    names = dict.fromkeys(one.variable for one in parse_credentials(values))
    return tuple((name, _make(*key_prefix(name))) for name in names)


def _make(prefix: str, length: int) -> str:
    count = max(length - len(prefix), _MIN_LENGTH)
    usable = (byte for byte in os.urandom(8 * count) if byte < 4 * len(_LETTERS))  # each letter is as likely as any other
    return prefix + "".join(_LETTERS[next(usable) % len(_LETTERS)] for _ in range(count))
