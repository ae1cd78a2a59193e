"""`agent-dev clean`, `agent-dev config`, and the findings of `doctor` about rules and settings."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import AgentDev, tree, wait_until


def trash(agent_dev: AgentDev) -> list[str]:
    return sorted(path.name for path in (agent_dev.state / "trash").iterdir())


def cleaned(agent_dev: AgentDev, *words: str) -> dict[str, Any]:
    done = agent_dev("clean", "--json", *words)
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    return value


@pytest.fixture
def full(agent_dev: AgentDev) -> AgentDev:
    """Return a program with a discarded session, a home that was reset, and a waiting session."""
    agent_dev("--", "sh", "-c", "touch a; mkdir -m 0 shut; echo x >~/x")
    agent_dev("discard")
    agent_dev("home", "--reset")
    agent_dev("--", "touch", "waits")
    agent_dev("home", "--diff")  # waits until the index of the home is written
    return agent_dev


def test_recent_entries_are_kept(full: AgentDev) -> None:
    before = trash(full)
    assert len(before) == 2
    assert cleaned(full)["removed"] == []
    assert trash(full) == before


def test_all_of_the_trash_is_removed_and_nothing_else(full: AgentDev) -> None:
    before = {path: entry for path, entry in tree(full.state).items() if not path.startswith(("trash", "gone", "."))}
    assert len(cleaned(full, "--all")["removed"]) == 2
    assert trash(full) == []
    assert {path: entry for path, entry in tree(full.state).items() if not path.startswith(("trash", "gone", "."))} == before
    assert full.changes() == {"waits": "added"}


def test_age_and_size_select_the_entries_to_remove(full: AgentDev) -> None:
    assert len(cleaned(full, "--older-than", "0", "--dry-run")["removed"]) == 2
    assert len(cleaned(full, "--keep-mib", "0", "--dry-run")["removed"]) == 2
    assert len(trash(full)) == 2
    assert len(cleaned(full, "--older-than", "0")["removed"]) == 2
    assert trash(full) == []


def test_a_symlink_in_the_trash_is_not_followed(full: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").write_text("kept")
    (full.state / "trash/link").symlink_to(tmp_path / "outside")
    (full.state / "trash/home-x").mkdir()
    (full.state / "trash/home-x/link").symlink_to(tmp_path / "outside")
    cleaned(full, "--all")
    assert (tmp_path / "outside/kept").read_text() == "kept"


def test_without_a_trash_there_is_nothing_to_do(agent_dev: AgentDev) -> None:
    agent_dev.home.joinpath("unused").mkdir()
    lines = agent_dev("clean", env={"XDG_CACHE_HOME": str(agent_dev.home / "unused")}).stdout.splitlines()
    assert lines[:4] == [
        "trash:            0 removed, 0 B; 0 kept, 0 B",
        "merges:           0 removed, 0 B; 0 kept, 0 B",
        "merged sessions:  0 reduced or removed, 0 B; 0 kept, 0 B",
        "checkpoints:      0 removed, 0 B; 0 kept, 0 B",
    ]
    assert [line.partition(":")[0] for line in lines] == ["trash", "merges", "merged sessions", "checkpoints", "caches"]


@pytest.mark.parametrize("words", [("--older-than", "x"), ("--older-than", "-1"), ("--keep-mib", "9999999999")])
def test_invalid_numbers_are_refused(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    assert agent_dev("clean", *words).returncode == 2


def values(agent_dev: AgentDev, *words: str) -> dict[tuple[str, Any], str]:
    """Return (key, value) → origin, from a command's JSON."""
    done = agent_dev(*words, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["values"]
    return {(row["key"], str(row["value"])): row["origin"] for row in rows}


def test_each_value_is_shown_with_its_source(agent_dev: AgentDev) -> None:
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("keep_merges_days: 7\nset:\n  COLOUR: blue\nmask: [.env]\nlimits: {memory: 2G}\nssh: {hosts: [here]}\n")
    (agent_dev.repo / ".agent-dev.yaml").write_text("net: none\n")
    agent_dev("trust", "--yes")
    found = values(agent_dev, "--home", "/srv/agent", "config", "claude")
    assert found["keep_merges_days", "7"] == f"{config}:1"
    assert found["set", "COLOUR=blue"] == f"{config}:3"
    assert found["mask", ".env"] == f"{config}:4"
    assert found["limits", "memory=2G"] == f"{config}:5"
    assert found["ssh", "['hosts', ['here']]"] == f"{config}:6"
    assert found["net", "none"] == f"{agent_dev.repo}/.agent-dev.yaml:1"
    assert found["home", "/srv/agent"] == "--home"
    assert found["keep_merges_mib", "4096"] == "built-in"
    assert found["set", "IS_SANDBOX=1"].endswith("profiles/claude.yaml:7")


def test_a_setting_that_the_screen_would_refuse_is_reported(agent_dev: AgentDev) -> None:
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("keys: {nosuchaction: x}\n")
    done = agent_dev("config")
    assert (done.returncode, done.stdout) == (2, "")
    problem = f"{config}:1: keys.nosuchaction: unknown id"
    assert f"{problem}\n" in done.stderr
    assert found(agent_dev)["screen"] == (problem, True)


def test_the_text_output_lists_the_same_entries(agent_dev: AgentDev) -> None:
    printed = agent_dev("config", "--all").stdout
    assert "net              host   (built-in)\n" in printed
    assert "merge            true   (built-in)\n" in printed


def test_the_text_output_leaves_defaults_out(agent_dev: AgentDev) -> None:
    every = len(agent_dev.do("config", "--all").splitlines())
    assert agent_dev.do("config") == f"{every} other values as shipped (--all shows them)\n"
    lines = agent_dev.do("--net", "none", "config").splitlines()
    assert lines == ["net              none   (--net)", f"{every - 1} other values as shipped (--all shows them)"]


def found(agent_dev: AgentDev) -> dict[str, tuple[str, bool]]:
    """Return check → (result, failed), from `doctor --json`."""
    rows = json.loads(agent_dev("doctor", "--json").stdout)["findings"]
    return {row["check"]: (row["result"], row["failed"]) for row in rows}


def test_doctor_reports_an_invalid_rule_and_ignored_settings(agent_dev: AgentDev) -> None:
    rules = agent_dev.home.parent / "config/agent-dev/risks.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text("mine:\n  why: Because.\n  paths: [a]\n  pats: [x]\n")
    (agent_dev.repo / ".agent-dev.yaml").write_text("net: none\n")
    printed = found(agent_dev)
    assert printed["risk rules"][1]
    assert f"{rules}:4: mine.pats: unknown key" in printed["risk rules"][0]
    assert "not trusted" in printed["settings of this repository"][0]


def test_doctor_does_not_tick_missing_items(agent_dev: AgentDev) -> None:
    reported = agent_dev("doctor").stdout
    assert "\n- terminal: none: " in reported
    assert "\n✓ profile bash: " in reported
    missing = next(row for row in reported.splitlines() if row.startswith("- profiles aider, claude, "))
    assert missing.endswith(", vibe: command not found")
    assert "\n    hint: agent-dev install NAME\n" in reported


def test_doctor_reports_a_fact_common_to_all_profiles_once(agent_dev: AgentDev) -> None:
    rows = [row for row in agent_dev("doctor", cwd=agent_dev.home).stdout.splitlines() if "profile" in row]
    assert len(rows) == 1, rows
    assert rows[0].startswith("- profiles aider, bash, claude, ")
    assert ": refused: the directory " in rows[0]


def test_the_trash_is_kept_below_its_size_without_a_command(full: AgentDev) -> None:
    config = Path(full.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("keep_trash_mib: 0\n")
    assert len(trash(full)) == 2
    assert full("discard").returncode == 0
    wait_until(lambda: not trash(full), "the trash is empty")


def test_doctor_shows_the_disk_use_of_each_kind_of_state(full: AgentDev) -> None:
    done = full("doctor", "--json")
    (found,) = (row["result"] for row in json.loads(done.stdout)["findings"] if row["check"] == "disk use")
    assert re.search(r"^open sessions [0-9.]+ [KM]iB \(1\), ", found)
    assert re.search(r", logs [0-9.]+ KiB \([12]\), ", found)
    assert re.search(r", caches [0-9.]+ KiB \(\d+\), other [0-9.]+ KiB \(\d+\)$", found)
    assert re.search(r"trash [0-9.]+ [KM]iB \(2\)", found)


@pytest.mark.parametrize("other", [("--json",), ("--on", "build1")])
def test_a_report_is_text_about_this_machine_only(agent_dev: AgentDev, other: tuple[str, ...]) -> None:
    done = agent_dev("doctor", "--report", *other)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--report and {other[0]} cannot be combined" in done.stderr


def test_the_report_of_doctor_has_no_path_of_the_user(full: AgentDev) -> None:
    done = full("doctor", "--report")
    assert "agent-dev 0." in done.stdout
    assert "repository: " in done.stdout
    assert str(full.home.parent) not in done.stdout
