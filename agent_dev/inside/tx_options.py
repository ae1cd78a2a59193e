"""Inside the sandbox: what the words of `tx` ask for.

The second part of the script of which `door_inside.py` is the last: nothing of agent-dev is there.
"""

import os

_TIMES = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LIMITS: "dict[str, dict[str, float] | dict[str, int]]" = {
    "time": _TIMES,
    "memory": _SIZES,
    "file-size": _SIZES,
    "open-files": {"": 1},
}
_VALUES = {
    "--validate": "a command",
    "--take": "a path",
    "--timeout": "a time such as 90s or 5m",
    "--many": "a file",
    "--jobs": "a number",
    "--limit": "NAME=VALUE: time, memory, file-size, open-files; others hold for the whole session",
}
_NEEDLESS = {"--include-ignored": False, "--include-risky": False, "--yes-delete-many": False, "--allow": True}
_ONE_TREE = (
    "inside a session all commands change the one tree that it shows, so they run one after the other",
    "leave --jobs out; outside, agent-dev tx --many gives each a view of its own",
)
_LONGEST_TIME = 1e9  # seconds: a timer takes little more
_MOST = 1e15
_LONGEST_LIST = 1 << 24  # characters


class Misused(Exception):
    """Words that are not understood, and why; then what to do, where that is not to read the help."""


class Wish:
    """What the words of a transaction ask for."""

    def __init__(self) -> None:
        self.validations: list[str] = []
        self.take: list[str] = []
        self.limits: dict[str, int] = {}
        self.timeout = self.limit = 0.0  # seconds; 0: none
        self.many = ""
        self.is_json = self.is_first = self.has_jobs = False

    def read(self, words: "list[str]") -> "list[str]":
        """Take the options up; return the command. Raises Misused for words that are not understood."""
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "--":
            word = rest.pop(0)
            name, has_value, value = word.partition("=")
            if word in ("--json", "--first"):
                self.is_json, self.is_first = self.is_json or word == "--json", self.is_first or word == "--first"
                continue
            if name not in _VALUES and name not in _NEEDLESS:
                raise Misused(f"{word!a} is no option of it")
            if _NEEDLESS.get(name, True) and not has_value and rest:
                value = rest.pop(0)
            if name in _VALUES and not (value and self._set(name, value)):
                raise Misused(f"{name} wants {_VALUES[name]}")
        rest = rest[1:] if rest[:1] == ["--"] else rest
        if (self.is_first or self.has_jobs) and not self.many:
            raise Misused("--jobs and --first go with --many")
        if bool(rest) == bool(self.many):
            raise Misused("--many FILE has the commands; what is this one?" if rest else "which command?")
        return rest

    def _set(self, name: str, value: str) -> bool:
        if name == "--timeout":
            self.timeout = amount(value, _TIMES)
            return self.timeout > 0
        if name == "--limit":
            return self._limit(*value.partition("=")[::2])
        if name == "--jobs":
            return self._jobs(value)
        if name == "--many":
            self.many = value
        elif name == "--take":
            self.take.append(quoted(os.path.abspath(value)))  # now: the command may take the place away
        else:
            self.validations.append(value)
        return True

    def _jobs(self, value: str) -> bool:
        self.has_jobs = value.isascii() and value.isdigit() and bool(value.strip("0"))
        if self.has_jobs and value.lstrip("0") != "1":
            raise Misused(f"--jobs {value}: {_ONE_TREE[0]}", _ONE_TREE[1])
        return self.has_jobs

    def _limit(self, name: str, value: str) -> bool:
        found = amount(value, _LIMITS.get(name, {}))
        if name == "time":
            self.limit = found
        elif found:
            self.limits[name] = int(found)
        return found > 0

    def lines(self) -> "list[str]":
        """Return the commands of the file. Raises Misused."""
        try:
            is_stdin = self.many == "-"  # left open: what is opened next would be stdin, until a command has none
            with open(0 if is_stdin else self.many, encoding="utf-8", closefd=not is_stdin) as file:
                text = file.read(_LONGEST_LIST + 1)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise Misused(f"--many {self.many}: {why}") from None
        if len(text) > _LONGEST_LIST:
            raise Misused(f"--many {self.many}: it is too long")
        lines = [line for line in map(str.strip, text.split("\n")) if line and not line.startswith("#")]
        if not lines or any("\0" in line for line in lines):
            raise Misused(f"--many {self.many}: no command in it")
        return lines


def amount(text: str, units: "dict[str, float] | dict[str, int]") -> float:
    """Return a time such as `90`, `90s`, `5m` in seconds, a size such as `4G` in bytes; 0 for what is none."""
    number = text.rstrip("".join(units))
    try:
        found = float(number) * units[text[len(number) :] or ("" if "" in units else "s")]
    except (KeyError, ValueError):
        return 0
    return found if 0.001 <= found <= (_LONGEST_TIME if units is _TIMES else _MOST) else 0


def quoted(path: str) -> str:
    """Return a path of which each byte but for visible ASCII stands as %XX."""
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in os.fsencode(path))
