"""CONTAINMENT D: reports about files that `mask:` cannot hide, and about a cloud's metadata service."""

from pathlib import Path

import pytest

from agent_dev.run import doctor
from agent_dev.sandbox import machine
from tests.containment.files.test_credentials import CANARY, configure, put
from tests.containment.rows import RESIDUAL, row
from tests.harness.program import AgentDev

HELD = "readable in git's objects"


@row(
    "read a masked file by git: `git show HEAD:.env`",
    "the commit contains it; the start reports each masked file that git tracks",
    RESIDUAL,
)
@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("names", [["sub/.env"], ["keys", "sub/.env"]])
def test_d14_a_masked_file_in_a_commit_is_readable_and_reported(agent_dev: AgentDev, version: str, names: list[str]) -> None:
    for name in ("sub/.env", "keys/a", "deep/x.env", "intended"):
        put(agent_dev.repo / name)
    agent_dev.git("config", "index.version", version)
    agent_dev.git("add", "sub", "keys", "deep")
    agent_dev.git("add", "--intent-to-add", "intended")  # requires index version 3
    agent_dev.git("commit", "-q", "-m", "secrets")
    agent_dev.git("update-index", "--index-version", version)
    put(agent_dev.repo / ".env", "not tracked")
    configure(agent_dev, "mask: [.env, keys/]\n" if len(names) > 1 else "mask: [.env]\n")
    done = agent_dev("--", "sh", "-c", "cat sub/.env .env; git show HEAD:sub/.env")
    assert done.stdout == CANARY
    [line] = [line for line in done.stderr.splitlines() if HELD in line]
    assert sorted(line.rpartition(": ")[2].split(", ")) == names
    assert HELD in agent_dev("show", "--all", "bash").stdout


def test_d14_a_masked_untracked_file_is_not_reported(agent_dev: AgentDev) -> None:
    put(agent_dev.repo / ".env")
    configure(agent_dev, "mask: [.env]\n")
    assert agent_dev("--", "true").stderr == ""


def test_d14_a_pattern_of_the_repository_without_matches_is_reported(agent_dev: AgentDev) -> None:
    put(agent_dev.repo / ".env")
    put(agent_dev.repo / ".agent-dev.yaml", "mask: [.env, secrets/typo.key]\n")
    assert agent_dev("trust", "--yes").returncode == 0
    [line] = [line for line in agent_dev("--", "true").stderr.splitlines() if "mask:" in line]
    assert "mask: nothing here matches secrets/typo.key (agent-dev show)" in line


def test_d14_all_patterns_without_matches_are_reported_in_one_line(agent_dev: AgentDev) -> None:
    put(agent_dev.repo / "real.pem")
    put(agent_dev.repo / "keys" / "below.crt")
    (agent_dev.repo / "link.pem").symlink_to("real.pem")
    configure(agent_dev, "mask: [link.pem, '*.key', keys/, '*.crt', '*.p12']\n")
    rows = [line for line in agent_dev("show", "--all", "bash").stdout.splitlines() if "matches nothing here" in line]
    assert [name for row in rows for name in ("link", "*.key", "keys/", "*.crt", "*.p12") if name in row] == ["*.key", "*.p12"]
    [line] = agent_dev("--", "true").stderr.splitlines()
    assert line == "agent-dev: mask: nothing here matches *.key, *.p12 (agent-dev show)"


@row("read or delete a file that `mask:` names in a run with `--direct`", "it is masked as over an overlay")
def test_d14_masks_hold_in_direct_mode(agent_dev: AgentDev) -> None:
    put(agent_dev.repo / ".env")
    put(agent_dev.repo / "keys" / "a")
    configure(agent_dev, "mask: [.env, keys/]\n")
    done = agent_dev("run", "--direct", "--", "sh", "-c", "cat .env keys/a; ls keys; echo >.env; rm -f .env; echo new >b")
    assert CANARY not in done.stdout
    assert ((agent_dev.repo / ".env").read_text(), (agent_dev.repo / "b").read_text()) == (CANARY, "new\n")


@row(
    "query a cloud's metadata service for the machine's credentials (169.254.169.254)",
    "reachable with the host's network; `doctor` and `show` report it if the firmware names a cloud",
    RESIDUAL,
)
def test_d35_a_cloud_metadata_service_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    found = machine.cloud_provider(str(tmp_path))
    assert found == "Amazon EC2"
    monkeypatch.setattr(machine, "cloud_provider", lambda: found)
    [reported] = doctor._cloud("host")
    assert ("169.254.169.254" in reported.result, "--net none" in reported.remedy, reported.has_failed) == (True, True, False)
    [reported] = doctor._cloud("none")
    assert "unreachable" in reported.result


def test_d35_elsewhere_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sys_vendor").write_text("LENOVO\n")
    assert machine.cloud_provider(str(tmp_path)) == ""
    monkeypatch.setattr(machine, "cloud_provider", lambda: "")
    assert doctor._cloud("host") == []
