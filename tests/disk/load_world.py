"""A home with configuration files, and what is loaded from it."""

from pathlib import Path

import pytest

from agent_dev.config import load
from agent_dev.config.load import Request
from agent_dev.config.profile import Settings
from agent_dev.errors import USAGE, BadConfiguration

REPOSITORY = Path(__file__).parents[2]
SHIPPED = REPOSITORY / "profiles"


class User:
    """A home with configuration files, and what is loaded from it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / ".config/agent-dev"
        self.cache = home / ".cache/agent-dev/profiles.json"
        self.environ = {"HOME": str(home)}

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def settings(self, agent: str = "mine", **more: object) -> Settings:
        return load.settings(Request(agent=agent, home=str(self.home), environ=self.environ, **more))  # type: ignore[arg-type]

    def problems(self, agent: str = "mine", **more: object) -> list[str]:
        """Return the lines of what is refused, with the configuration's folder as …"""
        with pytest.raises(BadConfiguration) as raised:
            self.settings(agent, **more)
        assert raised.value.code == USAGE
        return raised.value.message.replace(str(self.config), "…").splitlines()
