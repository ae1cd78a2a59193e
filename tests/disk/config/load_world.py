"""A home directory with configuration files, and the settings loaded from it."""

from pathlib import Path

import pytest

from agent_dev.config import load
from agent_dev.config.load import SettingsRequest
from agent_dev.config.profile import Settings
from agent_dev.errors import USAGE, InvalidConfiguration

REPOSITORY = Path(__file__).parents[3]
SHIPPED = REPOSITORY / "profiles"


class User:
    """A home directory with configuration files, and the settings loaded from it."""

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
        return load.load_settings(SettingsRequest(agent=agent, home=str(self.home), environ=self.environ, **more))  # type: ignore[arg-type]

    def problems(self, agent: str = "mine", **more: object) -> list[str]:
        """Return the lines of the error message, with the configuration's directory replaced by `…`."""
        with pytest.raises(InvalidConfiguration) as raised:
            self.settings(agent, **more)
        assert raised.value.code == USAGE
        return raised.value.message.replace(str(self.config), "…").splitlines()
