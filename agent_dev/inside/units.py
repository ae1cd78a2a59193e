"""Durations and sizes as people write them: one grammar for configuration, options and the commands inside the sandbox.

The first part of the script that runs inside (`control/socket_file.py`): nothing of agent-dev is available there.
"""

DURATIONS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MAX_SECONDS = 1e9  # near the limit of a timer
_MAX_BYTES = 10**15


def parse_duration(text: str) -> float:
    """Return a duration such as `90`, `1.5s` or `5m` in seconds; 0 if it is invalid or out of range."""
    seconds = _parse(text, DURATIONS, "s")
    return seconds if 0.001 <= seconds <= _MAX_SECONDS else 0


def parse_size(text: str) -> int:
    """Return a size such as `4096`, `1.5M` or `4G` in bytes; 0 if it is invalid or out of range."""
    size = int(_parse(text, SIZES, ""))
    return size if size <= _MAX_BYTES else 0


def parse_count(text: str) -> int:
    """Return a plain number; 0 if it is invalid or out of range."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else 0


def _parse(text: str, units: "dict[str, float] | dict[str, int]", default: str) -> float:
    number = text.rstrip("".join(units))
    unit = text[len(number) :] or default
    digits = number.replace(".", "", 1)
    if unit not in units or not (digits.isascii() and digits.isdigit() and len(digits) <= 15):
        return 0
    return float(number) * units[unit]
