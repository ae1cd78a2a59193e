"""Install agents from npm, once for all tests."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path


def installed(package: str, version: str, finish: Callable[[Path], None]) -> Path:
    """Return the prefix with a version of a package; the first call installs it by npm, and calls `finish` with the prefix."""
    default = Path.home() / ".cache/agent-dev-tests"
    cache = Path(os.environ.get("AGENT_DEV_TEST_CACHE") or default)
    wanted = cache / f"{package.rpartition('/')[2]}-{version}"
    if not wanted.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as work:
            prefix = Path(work) / "prefix"
            _install(f"{package}@{version}", prefix)
            finish(prefix)
            _publish(prefix, wanted)
    return wanted


def _install(package: str, prefix: Path) -> None:
    for program in ("npm", "node"):
        if shutil.which(program) is None:
            raise RuntimeError(f"{program} is not installed")
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    run(["npm", "install", "--global", "--prefix", prefix, "--ignore-scripts", *quiet, package])


def _publish(finished: Path, wanted: Path) -> None:
    """Rename the finished installation, unless another test has already done so."""
    try:
        finished.rename(wanted)
    except OSError:
        if not wanted.exists():
            raise


def run(argv: Sequence[str | Path]) -> None:
    """Run a command; raise with its output if it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))} exited with status {done.returncode}:\n{done.stdout}{done.stderr}")
