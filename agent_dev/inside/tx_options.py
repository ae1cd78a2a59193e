"""The options of `tx` inside the sandbox.

A part of one script, before `tx.py`; nothing of agent-dev is available inside.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # defined above in the combined script
    from agent_dev.inside.option_parser import InvalidOption, next_option  # noqa: TC004
    from agent_dev.inside.units import parse_count, parse_duration, parse_size  # noqa: TC004

_VALUES = {
    "--validate": "a command",
    "--take": "a path",
    "--timeout": "a time such as 90s or 5m",
    "--many": "a file",
    "--jobs": "a number",
    "--limit": "NAME=VALUE with NAME time, memory, file-size or open-files",
}
_TAKES_VALUE = dict.fromkeys(_VALUES, True) | {
    "--json": False,
    "--first": False,
    # without effect inside
    "--include-ignored": False,
    "--include-risky": False,
    "--yes-delete-many": False,
    "--allow": True,
}
_JOBS_REFUSED = (
    "inside a session all commands change the same tree, so they run one after another",
    "remove --jobs; outside, agent-dev tx --many gives each command its own view",
)
_MAX_LIST = 1 << 24  # characters


class TxUsageError(Exception):
    """Invalid arguments: the reason, and a hint other than the help if there is one."""


class TxOptions:
    """The options of a transaction."""

    def __init__(self) -> None:
        self.validations: list[str] = []
        self.paths: list[str] = []
        self.limits: dict[str, int] = {}
        self.timeout = self.time_limit = 0.0  # seconds; 0: none
        self.list_file = ""
        self.is_json = self.is_first = self.has_jobs = False

    def parse(self, arguments: "list[str]") -> "list[str]":
        """Parse the options; return the command. Raises TxUsageError for invalid arguments."""
        remaining = list(arguments)
        try:
            while option := next_option(remaining, _TAKES_VALUE):
                self._set_option(*option)
        except InvalidOption as error:
            reason = f"{error.option} needs {_VALUES.get(error.option, 'a value')}"
            raise TxUsageError(reason if error.is_known else f"unknown option {error.option!a}") from None
        remaining = remaining[1:] if remaining[:1] == ["--"] else remaining
        if (self.is_first or self.has_jobs) and not self.list_file:
            raise TxUsageError("--jobs and --first require --many")
        if bool(remaining) == bool(self.list_file):
            raise TxUsageError("--many FILE takes no command" if remaining else "no command given")
        return remaining

    def _set_option(self, name: str, value: str) -> None:
        self.is_json |= name == "--json"
        self.is_first |= name == "--first"
        if name in _VALUES and not (value and self._set_value(name, value)):
            raise InvalidOption(name, is_known=True)

    def _set_value(self, name: str, value: str) -> bool:
        """Set an option with a value; return whether the value is valid."""
        if name == "--timeout":
            self.timeout = parse_duration(value)
            return self.timeout > 0
        if name == "--limit":
            return self._set_limit(*value.partition("=")[::2])
        if name == "--jobs":
            return self._set_jobs(value)
        if name == "--many":
            self.list_file = value
        elif name == "--take":
            self.paths.append(percent_encode(os.path.abspath(value)))  # resolved now: the command may remove the directory
        else:
            self.validations.append(value)
        return True

    def _set_jobs(self, value: str) -> bool:
        self.has_jobs = value.isascii() and value.isdigit() and bool(value.strip("0"))
        if self.has_jobs and value.lstrip("0") != "1":
            raise TxUsageError(f"--jobs {value}: {_JOBS_REFUSED[0]}", _JOBS_REFUSED[1])
        return self.has_jobs

    def _set_limit(self, name: str, value: str) -> bool:
        if name == "time":
            self.time_limit = parse_duration(value)
            return self.time_limit > 0
        parse = {"memory": parse_size, "file-size": parse_size, "open-files": parse_count}.get(name)
        limit = parse(value) if parse is not None else 0
        if limit:
            self.limits[name] = limit
        return limit > 0

    def read_commands(self) -> "list[str]":
        """Return the commands in the file. Raises TxUsageError."""
        try:
            is_stdin = self.list_file == "-"  # kept open: the next opened file would become stdin
            with open(0 if is_stdin else self.list_file, encoding="utf-8", closefd=not is_stdin) as file:
                text = file.read(_MAX_LIST + 1)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise TxUsageError(f"--many {self.list_file}: {reason}") from None
        if len(text) > _MAX_LIST:
            raise TxUsageError(f"--many {self.list_file}: file too large")
        lines = [line for line in map(str.strip, text.split("\n")) if line and not line.startswith("#")]
        if not lines or any("\0" in line for line in lines):
            raise TxUsageError(f"--many {self.list_file}: no command in the file")
        return lines


def percent_encode(path: str) -> str:
    """Percent-encode every byte of a path except visible ASCII."""
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in os.fsencode(path))
