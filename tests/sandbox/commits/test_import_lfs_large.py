"""Large LFS files are imported with little memory, or reported: 200 MB in a full run."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import scale
from tests.harness.program import AgentDev
from tests.sandbox.commits import test_import_lfs_sources
from tests.sandbox.commits.test_import_lfs_sources import MAKE, is_as_git_checks_it_out, is_content, run

lfs = test_import_lfs_sources.lfs
pytestmark = pytest.mark.slow

MEBIBYTE = 1 << 20
SIZE = max(24, scale.repeat(200)) * MEBIBYTE  # above 20 MiB, from which on content is never held in memory
MOST = 64 * MEBIBYTE  # a merge of a small file takes less than half of it
# Run a command; write the peak resident size of it and its descendants in bytes to a file.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as file: print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=file)
sys.exit(code)
"""
PLACES = {
    "in the agent's store": "true",
    "in the agent's working tree": "rm -rf .git/lfs",
    "in the agent's store, changed since": "echo later >a.bin",
    "in the user's store": "git checkout -q HEAD~1 -- a.bin; git commit -qm back; rm -rf .git/lfs; echo later >a.bin",
}


def run_import(lfs: AgentDev, folder: Path) -> tuple[int, str, int]:
    """Import the commits; return exit status, output, and the peak resident size in bytes."""
    peak = folder / "peak"
    measured: dict[str, Any] = {"before": (sys.executable, "-c", MEASURE, str(peak)), "timeout": 300}
    done = lfs("merge", "--include-risky", "--commits", **measured)
    return done.returncode, done.stdout + done.stderr, int(peak.read_text())


@pytest.mark.parametrize("place", PLACES)
def test_a_large_lfs_file_is_checked_out_in_little_memory(lfs: AgentDev, tmp_path: Path, place: str) -> None:
    if "user" in place:
        with (lfs.repo / "a.bin").open("wb") as file:
            file.truncate(SIZE)
        lfs.git("commit", "-qam", "large")
        (lfs.repo / "a.bin").write_bytes(b"small\n")
        lfs.git("commit", "-qam", "small")
    run(lfs, ("" if "user" in place else f"{MAKE.format(SIZE, 'large')}; ") + PLACES[place])
    code, output, peak = run_import(lfs, tmp_path)

    assert code == 0, output
    assert (lfs.repo / "a.bin").stat().st_size == SIZE
    assert is_content(lfs)
    assert is_as_git_checks_it_out(lfs)
    assert peak < MOST, peak
    assert lfs("undo").returncode == 0
    assert (lfs.repo / "a.bin").stat().st_size == (6 if "user" in place else 3000)


@pytest.mark.parametrize(
    "forge", ["rm -rf .git/lfs", "for f in $(find .git/lfs/objects -size +2M); do chmod u+w $f; echo x >>$f; done"]
)
def test_a_large_missing_lfs_file_is_reported_in_little_memory(lfs: AgentDev, tmp_path: Path, forge: str) -> None:
    run(lfs, f"{MAKE.format(SIZE, 'large')}; echo later >>a.bin; {forge}")
    code, output, peak = run_import(lfs, tmp_path)

    assert code == 1, output
    assert "a.bin" in output
    assert "git lfs pull" in output
    assert (lfs.repo / "a.bin").read_text().startswith("version https://git-lfs.github.com/spec/v1\n")
    assert peak < MOST, peak
