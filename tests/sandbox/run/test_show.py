"""Commands that print without running an agent: `show`, the list of profiles, and a command line to paste."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.harness.program import AgentDev


def test_the_plan_of_a_run_is_shown_as_json_too(agent_dev: AgentDev) -> None:
    done = agent_dev("--net", "none", "show", "--json", "--", "sh", "-c", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    rows = {row["name"]: (row["value"], row["origin"]) for row in shown["rows"]}
    assert shown["version"] == 1
    assert rows["command"] == ("sh -c --json", None)
    assert rows["net"] == ("none", "--net")
    assert shown["bwrap"].startswith("env -i ")


def test_profiles_are_listed_as_json_too(agent_dev: AgentDev) -> None:
    listed = json.loads(agent_dev("profiles", "--json").stdout)
    assert {"bash", "claude", "codex", "default", "demo"} <= {one["name"] for one in listed["profiles"]}
    assert all(Path(one["path"]).is_file() and one["about"] for one in listed["profiles"])
    assert agent_dev("profiles", "--json", "bash").returncode == 2


def test_the_shown_command_line_builds_the_same_sandbox(agent_dev: AgentDev, tmp_path: Path) -> None:
    script = "pwd; id -un; git config user.email; cat sub/app.py"
    line = agent_dev("show", "--all", "--", "sh", "-c", script).stdout.splitlines()[-1]
    agent_dev.agent_home.mkdir()
    (tmp_path / "line").write_text(line)
    pasted = subprocess.run(
        ["bash", str(tmp_path / "line")], env=agent_dev.environment(), capture_output=True, text=True, check=False
    )
    assert pasted.stdout == agent_dev("--", "sh", "-c", script).stdout, pasted.stderr
    assert "ada@example.invalid" in pasted.stdout


def test_a_first_start_writes_the_cache_that_the_test_homes_have(agent_dev: AgentDev) -> None:
    """Each test home has a prepared cache, so that not every test parses YAML first; a first start writes the same cache."""
    kept = agent_dev.home.parent / "cache" / "agent-dev"
    names = ("profiles.json", "risks.json")
    before = [json.loads((kept / name).read_bytes()) for name in names]
    shutil.rmtree(kept)
    assert agent_dev("--no-merge", "--", "touch", "new").returncode == 0
    assert agent_dev.changes() == {"new": "added"}
    assert [json.loads((kept / name).read_bytes()) for name in names] == before


def test_show_accepts_its_flags_after_the_agent(agent_dev: AgentDev) -> None:
    assert agent_dev.do("show", "bash", "--all") == agent_dev.do("show", "--all", "bash")
    assert json.loads(agent_dev.do("show", "bash", "--json"))["version"] == 1
    assert "bash -c --all" in agent_dev.do("show", "bash", "-c", "--all")
    assert "sh --all" in agent_dev.do("show", "--", "sh", "--all")


def test_each_profile_is_shown_and_a_missing_command_named(agent_dev: AgentDev) -> None:
    names = [one["name"] for one in json.loads(agent_dev.do("profiles", "--json"))["profiles"]]
    for name in names:
        done = agent_dev("show", name)
        is_shown = done.stdout.splitlines()[:1] == [f"profile           {name}"]
        hint = "agent-dev: hint: to show the run of a program: agent-dev show -- COMMAND"
        assert is_shown != (name == "default"), done
        assert is_shown or done.stderr.splitlines()[-1] == hint
    done = agent_dev("show", "claude")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "agent-dev: hint: agent-dev install claude")


def test_a_profile_that_is_not_utf8_is_reported(agent_dev: AgentDev) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/profiles"
    folder.mkdir(parents=True)
    (folder / "bin.yaml").write_bytes(b"\377\n")
    done = agent_dev("profiles", "bin")
    assert (done.returncode, done.stderr) == (2, f"agent-dev: {folder}/bin.yaml:1: not UTF-8: byte 0xff\n")
