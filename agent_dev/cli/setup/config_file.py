"""Read and write config.yaml for `agent-dev init`. An existing file changes only if the user wants that; the old one is kept."""

import os
from typing import Any

from agent_dev.config import load, strict_yaml
from agent_dev.config.new_config import DEFAULTS, KEYS, NewSettings, changed_text, config_text
from agent_dev.config.options import RunOptions
from agent_dev.errors import AgentDevError, InvalidConfiguration
from agent_dev.linux import streams, users
from agent_dev.paths import expand
from agent_dev.quick_dataclass import dataclass

_MODE = 0o644  # of a new file, less the umask


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The user's config.yaml: its text, None if it does not exist, its fields, and those that `init` asks for."""

    path: str
    text: str | None
    fields: dict[str, object]
    answers: NewSettings

    @property
    def new_path(self) -> str:
        """The path of a new file next to it."""
        return f"{self.path}.new"

    def changed(self, answers: NewSettings) -> str | None:
        """Return its text with other answers; None if that cannot be done without a loss."""
        text = changed_text(self.text or "", self.answers, answers)
        parsed = strict_yaml.parse_data(self.path, "config", text.encode())
        others = {name: value for name, value in self.fields.items() if name not in KEYS}
        kept = {name: value for name, value in parsed.fields.items() if name not in KEYS}
        return text if not parsed.problems and kept == others and answers_of(parsed.fields) == answers else None


def read_config(options: RunOptions, environ: dict[str, str]) -> ConfigFile:
    """Return the config.yaml that applies. Raises InvalidConfiguration."""
    home = users.home_directory(environ)
    explicit = options.config or environ.get("AGENT_DEV_CONFIG", "")
    named = expand(explicit, home) if explicit else f"{load.config_folder(home, environ)}/config.yaml"
    path = os.path.realpath(named)  # a link stays, and its target changes
    if os.path.exists(path) and not os.path.isfile(path):
        raise InvalidConfiguration(message=f"{path}: cannot be read: it is not a regular file")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return ConfigFile(path, None, {}, DEFAULTS)
    parsed = strict_yaml.parse_data(path, "config", data)
    if parsed.problems:
        raise InvalidConfiguration(message="\n".join(parsed.problems))
    return ConfigFile(path, data.decode(), parsed.fields, answers_of(parsed.fields))


def answers_of(fields: dict[str, object]) -> NewSettings:
    """Return the fields of config.yaml that `init` asks for."""
    found: dict[str, Any] = {name: value for name, value in fields.items() if name in KEYS}
    return NewSettings(**found)


def new_text(answers: NewSettings) -> str:
    """Return a new config.yaml. Raises InvalidConfiguration if agent-dev would not accept it."""
    text = config_text(answers)
    parsed = strict_yaml.parse_data("config.yaml", "config", text.encode("utf-8", "surrogateescape"))
    if parsed.problems or answers_of(parsed.fields) != answers:
        reasons = [one.partition(": ")[2] for one in parsed.problems] or ["a value contains a control character"]
        raise InvalidConfiguration(message="\n".join(reasons))
    return text


def write_new(path: str, text: str) -> None:
    """Write a file that must not exist. Raises AgentDevError or OSError."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    try:
        _create(path, text, _MODE)
    except FileExistsError:
        raise AgentDevError(message=f"{path} exists already; nothing was written", hint="rename or remove it first") from None


def replace(file: ConfigFile, text: str) -> str:
    """Replace the file, and return the path at which the old one is kept. Raises AgentDevError if it has changed."""
    status = os.stat(file.path)
    with open(file.path, "rb") as current:
        if current.read() != (file.text or "").encode():
            raise AgentDevError(message=f"{file.path} has changed since; nothing was written", hint="agent-dev init")
    new, kept = f"{file.path}.tmp.{os.getpid()}", _free_name(f"{file.path}.old")
    os.link(file.path, kept)
    try:
        _create(new, text, status.st_mode & 0o7777)
        os.rename(new, file.path)
    except OSError:
        os.unlink(kept)
        raise
    return kept


def _free_name(path: str) -> str:
    number = 1
    while os.path.lexists(found := path if number == 1 else f"{path}.{number}"):
        number += 1
    return found


def _create(path: str, text: str, mode: int) -> None:
    """Write a new file, complete or not at all."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        streams.write_all(fd, text.encode())
        os.fsync(fd)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
