"""The working directory of benchmarks: a home, a repository and agent-dev installed from its wheel, all removed afterwards."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from benchmarks.process import PYTHON, ProgramFailed, output

PROJECT = Path(__file__).resolve().parent.parent
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Bwrap:
    """A bubblewrap: its path and version, and whether it replaces the one in PATH."""

    path: str
    version: tuple[int, ...]
    is_replacement: bool

    @property
    def has_overlay(self) -> bool:
        """Return whether this bubblewrap can mount overlays (since 0.11)."""
        return self.version >= (0, 11)

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class WorkingDirectory:
    """The working directory, the environment and program for runs, and the bubblewraps (the distribution's first)."""

    folder: Path
    env: dict[str, str]
    program: str
    python: str
    bwraps: tuple[Bwrap, ...]
    load: float  # the load average before the start

    @property
    def with_overlay(self) -> Bwrap | None:
        """Return the bubblewrap to compare overlays with."""
        return next((bwrap for bwrap in self.bwraps if bwrap.has_overlay), None)

    def env_with(self, bwrap: Bwrap) -> dict[str, str]:
        """Return the environment that makes agent-dev use that bubblewrap."""
        return self.env | ({"AGENT_DEV_BWRAP": bwrap.path} if bwrap.is_replacement else {})


@contextmanager
def working_directory() -> Iterator[WorkingDirectory]:
    """Create the working directory; remove it in any case."""
    # Not the default directory: /tmp may be in memory, and disks are to be measured.
    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="agent-dev-bench-", dir="/var/tmp"))
    try:
        env = _environment(folder)
        program, python = _install(folder)
        yield WorkingDirectory(folder, env, program, python, _bwraps(), load)
    finally:
        remove(folder)


def repository(folder: Path, env: dict[str, str], files: dict[str, bytes]) -> Path:
    """Create a repository of these files with one commit and packed objects, all an hour old."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        then = path.stat().st_mtime - _HOUR  # older than the index, so that git need not read them again
        os.utime(path, (then, then))
    git = ("git", "-C", str(folder), "-c", "gc.auto=0")  # the collection that a commit starts would be in the way of ours
    output((*git, "init", "-q", "-b", "main"), env)
    output((*git, "add", "-A"), env)
    output((*git, "-c", "user.name=Bench", "-c", "user.email=bench@example.invalid", "commit", "-q", "-m", "Start"), env)
    output((*git, "gc", "-q"), env)
    output((*git, "status", "--short"), env)
    return folder


def remove(folder: Path) -> None:
    """Remove a tree, including directories of mode 000, which overlayfs leaves in its work directory.

    A child of an earlier agent-dev may still be removing a session in it.
    """
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = f"{parent}/{name}"
            if not os.path.islink(path):
                with suppress(FileNotFoundError):
                    os.chmod(path, 0o700)
    while folder.exists():
        with suppress(FileNotFoundError):
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
    """Build and install the wheel as a user would; return the paths of agent-dev and its Python; with `--quick`, this one's."""
    if measure.is_quick():
        return str(Path(sys.executable).with_name("agent-dev")), sys.executable
    venv, wheels = folder / "venv", folder / "wheels"
    python = str(venv / "bin/python")
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    env = os.environ | {"PIP_CONSTRAINT": str(PROJECT / "constraints.txt")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    output((PYTHON, "-m", "venv", str(venv)), env)
    output((*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(PROJECT)), env)
    (wheel,) = wheels.glob("*.whl")
    output((*pip, "install", str(wheel)), env)
    output((*pip, "uninstall", "--yes", "setuptools"), env)  # included in older venvs and run at each start; not with pipx
    output((python, "-m", "compileall", "-q", str(venv / "lib")), env)
    return str(venv / "bin/agent-dev"), python


def _bwraps() -> tuple[Bwrap, ...]:
    """Return the distribution's bubblewrap, and that of AGENT_DEV_BENCH_BWRAP or .ci/new-bwrap if there is one."""
    found = [_bwrap("/usr/bin/bwrap", is_selected=False)] if os.path.exists("/usr/bin/bwrap") else []
    newer = os.environ.get("AGENT_DEV_BENCH_BWRAP") or str(PROJECT / ".tools/bwrap/bwrap")
    if os.path.exists(newer):
        found.append(_bwrap(newer, is_selected=True))
    if not found:
        raise ProgramFailed("bubblewrap is not installed")
    return tuple(found)


def _bwrap(path: str, *, is_selected: bool) -> Bwrap:
    output_text = subprocess.run((path, "--version"), capture_output=True, text=True, check=True).stdout
    return Bwrap(path, tuple(map(int, re.findall(r"\d+", output_text))), is_selected)
