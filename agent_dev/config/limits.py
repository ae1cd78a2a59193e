"""The limits of a run: names, units, parsing and formatting."""

from agent_dev.inside.units import DURATIONS, SIZES, parse_count, parse_duration, parse_size

_SIZE, _COUNT, _DURATION = "size", "count", "duration"
_KINDS = {
    "tmp": _SIZE,
    "memory": _SIZE,
    "processes": _COUNT,
    "file-size": _SIZE,
    "open-files": _COUNT,
    "time": _DURATION,
    "free-disk": _SIZE,
}
NAMES = tuple(_KINDS)
_UNITS: dict[str, list[tuple[str, int]]] = {  # largest unit first
    _SIZE: [(unit, size) for unit, size in reversed(SIZES.items()) if unit],
    _COUNT: [],
    _DURATION: [(unit, int(seconds)) for unit, seconds in reversed(DURATIONS.items()) if seconds >= 1],
}
_MINIMUMS = {"tmp": 1 << 20, "memory": 16 << 20, "processes": 4, "file-size": 1, "open-files": 16, "time": 1, "free-disk": 0}


def parse_limit(name: str, text: str) -> int:
    """Return a limit's value in bytes, seconds or as a count. Raises ValueError with a message for the user."""
    kind = _KINDS[name]
    value = parse_size(text) if kind == _SIZE else parse_count(text) if kind == _COUNT else int(parse_duration(text))
    if not value and text != "0":
        example = {"tmp": "512M", "memory": "4G", "file-size": "1G", "time": "90m", "free-disk": "2G"}.get(name, "200")
        raise ValueError(f"{text} is not a {'number' if kind == _COUNT else 'number with a unit'} such as {example}")
    if value < _MINIMUMS[name]:
        raise ValueError(f"{text} is too small: at least {format_limit(name, _MINIMUMS[name])}")
    return value


def format_limit(name: str, value: int) -> str:
    """Return a value with the largest unit that divides it."""
    units = _UNITS[_KINDS[name]]
    unit = next(((letter, size) for letter, size in units if value and value % size == 0), ("", 1))
    return f"{value // unit[1]}{unit[0]}"
