"""`agent-dev backup`: single and scheduled backups, their output and the refused options."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import AgentDev, tree


def backups_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if not path.name.startswith("."))


def test_backup_once_prints_its_path_and_then_reports_no_changes(agent_dev: AgentDev, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    done = agent_dev("backup", "once", ".", "--to", place, "--exclude", "*.py")
    [name] = backups_in(place)
    assert (done.returncode, done.stdout.split()[0]) == (0, str(place / name))
    there = tree(place / name)
    assert there["README.md"] == tree(agent_dev.repo)["README.md"]
    assert "sub/app.py" not in there
    again = agent_dev("backup", "once", ".", "--to", place, "--exclude", "*.py", "--json")
    assert json.loads(again.stdout) == {"version": 1, "backup": None, "problems": [], "removed": []}


def test_scheduled_backup_runs_until_stopped_and_keeps_the_given_number(agent_dev: AgentDev, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    words = ("backup", "every", agent_dev.repo, "--to", place, "--interval", "0.001", "--keep", "3", "--json", "--skip-first")
    with agent_dev.start(*words) as process:
        assert process.stdout is not None
        rows: list[dict[str, Any]] = []
        for number in range(5):
            (agent_dev.repo / "README.md").write_text(f"{number}\n")
            while len(rows) <= number:
                row = json.loads(process.stdout.readline())
                rows += [row] if row["backup"] else []
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert [len(row["removed"]) for row in rows] == [0, 0, 0, 1, 1]
    assert len(backups_in(place)) == 3
    assert (place / rows[-1]["backup"] / "README.md").read_text() == "4\n"


def test_an_incomplete_backup_is_reported_by_the_exit_code(agent_dev: AgentDev, tmp_path: Path) -> None:
    (agent_dev.repo / "sub" / "app.py").chmod(0o000)
    words = ("backup", "once", agent_dev.repo, "--to", tmp_path / "backups", "--json")
    problems = [] if os.geteuid() == 0 else ["sub/app.py: Permission denied"]  # root can read every file
    has_changed = True
    while has_changed:  # also if nothing has changed since: the newest backup still lacks the file
        done = agent_dev(*words)
        reported = json.loads(done.stdout)
        assert (done.returncode, reported["problems"]) == (bool(problems), problems)
        has_changed = bool(reported["backup"])
    assert ("problem: sub/app.py" in agent_dev(*words[:-1]).stderr) == bool(problems)


def test_errors_about_a_backup_name_full_paths(agent_dev: AgentDev) -> None:
    repo, home = agent_dev.repo, agent_dev.home
    for words, printed in (
        ((".", "--to", "./inside"), f"backup: --to {repo}/inside is inside {repo}"),
        (("sub", "--to", "."), f"backup: {repo}/sub is inside --to {repo}"),
        ((".", "--to", f"{home}/src/../src/shop"), f"backup: cannot back up {repo} into itself"),
        ((".", "--to", "/proc/x"), f"cannot back up {repo}: cannot write to /proc/x: No such file or directory"),
        ((".", "--to", "../x", "--interval", "0"), "backup: --interval 0 is not a positive number of minutes"),
        ((".", "--to", "../x", "--keep", "-1"), "backup: --keep -1 is negative; 0 keeps all"),
    ):
        done = agent_dev("backup", "once", *words)
        assert done.stderr.splitlines()[0] == f"agent-dev: {printed}"
        assert "incomplete" not in done.stderr
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
def test_invalid_backup_options_are_refused_before_anything_is_written(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    before = tree(agent_dev.repo.parent)
    done = agent_dev("backup", *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2
    assert tree(agent_dev.repo.parent) == before
