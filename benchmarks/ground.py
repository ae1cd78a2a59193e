"""Where benchmarks run: a throw-away folder with a home, a repository and agent-dev installed from its wheel."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import ProgramFailed, output

PROJECT = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Bwrap:
    """A bubblewrap: its path and version, and whether it was chosen instead of the one on PATH."""

    path: str
    version: tuple[int, ...]
    is_chosen: bool

    @property
    def has_overlay(self) -> bool:
        """Whether it can mount overlays (0.11 is the first that can)."""
        return self.version >= (0, 11)

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class Ground:
    """The folder, the environment for what is started there, the program, the bubblewraps (the distribution's first)."""

    folder: Path
    env: dict[str, str]
    program: str
    python: str
    bwraps: tuple[Bwrap, ...]
    load: float  # what the machine did before

    @property
    def with_overlay(self) -> Bwrap | None:
        """The bubblewrap to compare overlays with."""
        return next((bwrap for bwrap in self.bwraps if bwrap.has_overlay), None)

    def env_with(self, bwrap: Bwrap) -> dict[str, str]:
        """Return the environment that makes agent-dev use that bubblewrap."""
        return self.env | ({"AGENT_DEV_BWRAP": bwrap.path} if bwrap.is_chosen else {})


@contextmanager
def laid_out() -> Iterator[Ground]:
    """Make the ground and remove it at the end, whatever came in between."""
    # Not the default place: /tmp may be in memory, and what is measured are disks as people have them.
    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="agent-dev-bench-", dir="/var/tmp"))
    try:
        env = _environment(folder)
        program, python = _install(folder)
        yield Ground(folder, env, program, python, _bwraps(), load)
    finally:
        remove(folder)


def repository(folder: Path, env: dict[str, str], files: dict[str, bytes]) -> Path:
    """Make a repository of these files with one commit, its objects packed, all an hour old."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        then = path.stat().st_mtime - _HOUR  # older than the index: nothing that git would have to read again
        os.utime(path, (then, then))
    git = ("git", "-C", str(folder))
    output((*git, "init", "-q", "-b", "main"), env)
    output((*git, "add", "-A"), env)
    output((*git, "-c", "user.name=Bench", "-c", "user.email=bench@example.invalid", "commit", "-q", "-m", "Start"), env)
    output((*git, "gc", "-q"), env)
    output((*git, "status", "--short"), env)
    return folder


def remove(folder: Path) -> None:
    """Remove a tree, also one with directories of mode 000, as overlayfs leaves them behind in its work directory."""
    for above, names, _ in os.walk(folder):
        for name in names:
            path = f"{above}/{name}"
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder)


def _environment(folder: Path) -> dict[str, str]:
    home = folder / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def _install(folder: Path) -> tuple[str, str]:
    """Build the wheel and install it as a user would; return the paths of agent-dev and its Python."""
    venv, wheels = folder / "venv", folder / "wheels"
    python = str(venv / "bin/python")
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    env = os.environ | {"PIP_CONSTRAINT": str(PROJECT / "constraints.txt")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    output((PYTHON, "-m", "venv", str(venv)), env)
    output((*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(PROJECT)), env)
    (wheel,) = wheels.glob("*.whl")
    output((*pip, "install", str(wheel)), env)
    output((*pip, "uninstall", "--yes", "setuptools"), env)  # older venvs bring it, and it runs at each start; pipx's do not
    output((python, "-m", "compileall", "-q", str(venv / "lib")), env)
    return str(venv / "bin/agent-dev"), python


def _bwraps() -> tuple[Bwrap, ...]:
    """Return the distribution's bubblewrap, and the one of AGENT_DEV_BENCH_BWRAP or of .ci/new-bwrap if there is one."""
    found = [_bwrap("/usr/bin/bwrap", is_chosen=False)] if os.path.exists("/usr/bin/bwrap") else []
    newer = os.environ.get("AGENT_DEV_BENCH_BWRAP") or str(PROJECT / ".tools/bwrap/bwrap")
    if os.path.exists(newer):
        found.append(_bwrap(newer, is_chosen=True))
    if not found:
        raise ProgramFailed("bubblewrap is not installed")
    return tuple(found)


def _bwrap(path: str, *, is_chosen: bool) -> Bwrap:
    said = subprocess.run((path, "--version"), capture_output=True, text=True, check=True).stdout
    return Bwrap(path, tuple(map(int, re.findall(r"\d+", said))), is_chosen)
