"""A user's machine with something worth taking on every side, and one hostile program in the sandbox that tries it all."""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.conftest import lay_out_home, lay_out_repository
from tests.harness.program import PYTHON, AgentDev

PROBE = Path(__file__).with_name("probe.py")


class World:
    """A home and a repository of the test's own, and the program there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = lay_out_home(folder)
        self.repo = lay_out_repository(self.home)
        self.program = AgentDev(self.home, self.repo)
        self.probe = folder / "probe.py"
        shutil.copy(PROBE, self.probe)  # a checkout may lie where only root can look

    def words(self, target: dict[str, Any], *options: str | Path) -> list[str | Path]:
        """Return the words that run the probe inside on a target: `{"section": …, more of what it must know}`."""
        return [*options, "--ro", self.probe, "--env", f"PROBE={json.dumps(target)}", "--", PYTHON, "-I", self.probe]

    def tried(self, target: dict[str, Any], *options: str | Path, env: dict[str, str] | None = None) -> dict[str, Any]:
        """Run the probe inside; return what each attempt came to."""
        done = self.program(*self.words(target, *options), env=env, timeout=120)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found
