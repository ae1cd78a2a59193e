"""The word `backup`: once, again and again, and what it says."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import AgentDev, tree


def backups_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if not path.name.startswith("."))


def test_a_backup_once_says_where_it_is_and_then_that_nothing_changed(agent_dev: AgentDev, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    done = agent_dev("backup", "once", ".", "--to", place, "--exclude", "*.py")
    [name] = backups_in(place)
    assert (done.returncode, done.stdout.split()[0]) == (0, str(place / name))
    there = tree(place / name)
    assert there["README.md"] == tree(agent_dev.repo)["README.md"]
    assert "sub/app.py" not in there
    again = agent_dev("backup", "once", ".", "--to", place, "--exclude", "*.py", "--json")
    assert json.loads(again.stdout) == {"version": 1, "backup": None, "gone": []}


def test_it_goes_on_until_it_is_ended_and_keeps_so_many(agent_dev: AgentDev, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    words = ("backup", "every", agent_dev.repo, "--to", place, "--interval", "0.001", "--keep", "3", "--json", "--skip-first")
    with agent_dev.started(*words) as process:
        assert process.stdout is not None
        rows: list[dict[str, Any]] = []
        for number in range(5):
            (agent_dev.repo / "README.md").write_text(f"{number}\n")
            while len(rows) <= number:
                row = json.loads(process.stdout.readline())
                rows += [row] if row["backup"] else []
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert [len(row["gone"]) for row in rows] == [0, 0, 0, 1, 1]
    assert len(backups_in(place)) == 3
    assert (place / rows[-1]["backup"] / "README.md").read_text() == "4\n"


def test_a_backup_that_is_incomplete_is_told_by_the_exit_code(agent_dev: AgentDev, tmp_path: Path) -> None:
    (agent_dev.repo / "sub" / "app.py").chmod(0o000)
    done = agent_dev("backup", "once", agent_dev.repo, "--to", tmp_path / "backups", "--json")
    told = json.loads(done.stdout)
    if told["problems"]:  # root may read everything
        assert (done.returncode, told["problems"]) == (1, ["sub/app.py: Permission denied"])
    else:
        assert done.returncode == 0


def test_why_a_backup_cannot_be_is_said_in_full_paths(agent_dev: AgentDev) -> None:
    repo, home = agent_dev.repo, agent_dev.home
    for words, said in (
        ((".", "--to", "./inside"), f"backup: {repo}/inside lies in {repo}, which is backed up"),
        (("sub", "--to", "."), f"backup: {repo}/sub lies in {repo}, where the backups are to lie"),
        ((".", "--to", f"{home}/src/../src/shop"), f"backup: {repo} cannot be backed up into itself"),
        ((".", "--to", "/proc/x"), f"no backup of {repo}: /proc/x cannot be written: No such file or directory"),
        ((".", "--to", "../x", "--interval", "0"), "backup: --interval 0: minutes, more than 0"),
        ((".", "--to", "../x", "--keep", "-1"), "backup: --keep -1: how many, or 0 for all"),
    ):
        done = agent_dev("backup", "once", *words)
        assert done.stderr.splitlines()[0] == f"agent-dev: {said}"
        assert "does not count" not in done.stderr
        assert done.returncode == (1 if "/proc/x" in words else 2)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("once", "."),
        ("often", ".", "--to", "../x"),
        ("once", "missing", "--to", "../x"),
        ("once", ".", "--to", "README.md"),
        ("once", ".", "--to", "inside"),
        ("once", "sub", "--to", "."),
        ("every", ".", "--to", "../x", "--interval", "0"),
        ("every", ".", "--to", "../x", "--interval", "nan"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    before = tree(agent_dev.repo.parent)
    done = agent_dev("backup", *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2
    assert tree(agent_dev.repo.parent) == before
