"""What can be limited of a run: names, units, and the words for them."""

_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS = {  # name → its units; none: a number
    "tmp": _BYTES,
    "memory": _BYTES,
    "processes": {},
    "file-size": _BYTES,
    "open-files": {},
    "time": _SECONDS,
    "free-disk": _BYTES,
}
NAMES = tuple(_UNITS)
_LEAST = {"tmp": 1 << 20, "memory": 16 << 20, "processes": 4, "file-size": 1, "open-files": 16, "time": 1, "free-disk": 0}


def parse(name: str, text: str) -> int:
    """Return a limit's value in bytes, seconds or pieces. Raises ValueError, with what is wrong as its message."""
    units = _UNITS[name]
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
    if not (number.isascii() and number.isdigit()) or len(number) > 15:
        example = {"tmp": "512M", "memory": "4G", "file-size": "1G", "time": "90m", "free-disk": "2G"}.get(name, "200")
        raise ValueError(f"{text} is no {'number' if not units else 'number with a unit'} such as {example}")
    value = int(number) * units.get(unit, 1)
    if value < _LEAST[name]:
        raise ValueError(f"{text} is too little: at least {shown(name, _LEAST[name])}")
    return value


def shown(name: str, value: int) -> str:
    """Return a value with the largest unit that divides it."""
    units = sorted(_UNITS[name].items(), key=lambda unit: -unit[1])
    fits = next(((letter, size) for letter, size in units if value and value % size == 0), ("", 1))
    return f"{value // fits[1]}{fits[0]}"
