"""How long git may take: as long as it works, but not forever; with a program of ours in place of git."""

import time
from pathlib import Path

import pytest

from agent_dev.errors import CommandFailed
from agent_dev.git import bare
from agent_dev.git.bare import BareRepository

WORKING = "end = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint('done')"
IDLE = "time.sleep(100)"
WRITING = "for _ in range(8): time.sleep(0.25); print('line', flush=True)"


def repository(tmp_path: Path, body: str) -> BareRepository:
    program = tmp_path / "git"
    program.write_text(f"#!/usr/bin/python3\nimport time\n{body}\n")
    program.chmod(0o755)
    return BareRepository(str(tmp_path), str(program))


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "TIMEOUT_SECONDS", 0.7)


@pytest.mark.parametrize(("body", "output"), [(WORKING, b"done\n"), (WRITING, b"line\n" * 8)], ids=["working", "writing"])
def test_git_may_take_longer_than_the_timeout_while_it_works(tmp_path: Path, body: str, output: bytes) -> None:
    assert repository(tmp_path, body).check_output("pack-objects") == output


def test_an_idle_git_times_out(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="git pack-objects failed: timed out, since it did nothing for 1 s"):
        repository(tmp_path, IDLE).run("pack-objects")


@pytest.mark.parametrize("body", [WORKING, WRITING], ids=["working", "writing"])
def test_no_git_works_forever(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "LONGEST_SECONDS", 1.0)
    started = time.monotonic()

    with pytest.raises(CommandFailed, match="timed out after 1 s"):
        repository(tmp_path, body).run("pack-objects")

    assert time.monotonic() - started < 60


def test_an_import_may_take_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "LONGEST_SECONDS", 1.0)

    assert repository(tmp_path, WORKING).check_output("index-pack", seconds=60) == b"done\n"


def test_output_has_a_limit(tmp_path: Path) -> None:
    limited = repository(tmp_path, WRITING).start("cat-file", max_size=20)

    with limited as finish, pytest.raises(CommandFailed, match="its output is"):
        finish()
