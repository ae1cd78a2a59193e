"""A submodule moved by the agent's commits is reported with its old and new commit and the log between them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.git.git_kinds import KINDS
from tests.harness.program import AgentDev

IN = "git -C lib commit -q --allow-empty -m"
MOVE = f"{IN} one; {IN} two; git commit -qam moved"


def pointers(agent_dev: AgentDev, cwd: Path) -> list[dict[str, Any]]:
    done = agent_dev("commits", "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["submodules"]
    return found


def subjects(pointer: dict[str, Any]) -> list[str]:
    return [row["subject"] for row in pointer["log"]]


@pytest.mark.parametrize("kind", ["with a submodule", "a linked work tree with a submodule"])
def test_a_moved_submodule_pointer_is_reported_with_its_log(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    cwd = KINDS[kind](agent_dev, tmp_path).cwd
    old = agent_dev.git("rev-parse", "HEAD:lib", cwd=cwd).strip()
    new = agent_dev("--", "sh", "-c", f"{MOVE}; git rev-parse HEAD:lib", cwd=cwd).stdout.strip()
    (moved,) = pointers(agent_dev, cwd)
    assert (moved["path"], moved["before"], moved["after"], subjects(moved)) == ("lib", old, new, ["two", "one"])
    printed = agent_dev("commits", cwd=cwd).stdout
    assert f"submodule lib: {old[:10]} → {new[:10]}\n" in printed
    assert [line.split(" ", 1)[1] for line in printed.splitlines() if line.startswith("    ") for line in [line.strip()]] == [
        "two",
        "one",
    ]


def test_a_rewound_submodule_pointer_is_reported(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    agent_dev("--", "sh", "-c", "git -C lib reset -q --hard HEAD~1; git commit -qam back", cwd=cwd)
    (moved,) = pointers(agent_dev, cwd)
    assert moved["log"] == []
    assert "back to an older commit" in agent_dev("commits", cwd=cwd).stdout


def test_added_and_removed_submodules_are_reported(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    new = "git init -q /tmp/n; git -C /tmp/n commit -q --allow-empty -m first"
    new += "; git -c protocol.file.allow=always submodule -q add /tmp/n deep/new; git commit -qm new"
    new += "; git rm -q lib; git commit -qm gone"
    agent_dev("--", "sh", "-c", new, cwd=cwd)
    gone, added = pointers(agent_dev, cwd)
    assert (gone["path"], gone["after"], gone["log"]) == ("lib", None, [])
    assert (added["path"], added["before"], subjects(added)) == ("deep/new", None, ["first"])


PLANTS = {
    "its objects removed": "rm -rf .git/modules/lib/objects; mkdir .git/modules/lib/objects",
    "its git dir a link": "mv .git/modules/lib /tmp/lib; ln -s /etc .git/modules/lib",
    "all of them a link": "mv .git/modules /tmp/modules; ln -s / .git/modules",
    "a FIFO for a pack": "mkdir -p .git/modules/lib/objects/pack; mkfifo .git/modules/lib/objects/pack/pack-1.idx",
    "an id that is nothing": f"git update-index --cacheinfo 160000,{'1' * 40},lib; git commit -qm nothing",
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_an_unreadable_submodule_is_reported_without_its_log(agent_dev: AgentDev, tmp_path: Path, plant: str) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    done = agent_dev("--", "sh", "-c", f"{MOVE}; {plant}", cwd=cwd)
    assert done.returncode == 0, done.stderr
    found = pointers(agent_dev, cwd)
    assert {one["path"] for one in found} == {"lib"}
    assert agent_dev("commits", cwd=cwd).returncode == 0


def test_a_moved_submodule_pointer_is_a_risk(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    old = agent_dev.git("rev-parse", "HEAD:lib", cwd=cwd).strip()
    new = agent_dev("--", "sh", "-c", f"{MOVE}; git rev-parse HEAD:lib", cwd=cwd).stdout.strip()
    (made,) = agent_dev.status(cwd=cwd)["commits"]
    (risk,) = made["risks"]

    assert (risk["rule"], risk["path"], risk["before"], risk["after"]) == ("submodule-moved", "lib", old, new)
    assert subjects(risk) == ["two", "one"]
    assert f"! submodule lib: {old[:10]} → {new[:10]}" in agent_dev("status", cwd=cwd).stdout
    assert f"! submodule lib: {old[:10]} → {new[:10]}" in agent_dev("commits", cwd=cwd).stdout


@pytest.mark.parametrize("name", [".gitattributes", ".gitmodules", ".lfsconfig", "vendor/.gitattributes"])
def test_git_settings_are_a_risk_in_files_and_in_commits_of_any_branch(agent_dev: AgentDev, name: str) -> None:
    write = f"mkdir -p vendor; echo '[x]' >{name}; echo plain >plain; git add -A; git commit -qm settings"
    agent_dev("--", "sh", "-c", f"git checkout -qb other; {write}; git checkout -q main; mkdir -p vendor; echo '[x]' >{name}")
    changed = {one["path"]: [risk["rule"] for risk in one["risks"]] for one in agent_dev.status()["changes"]}
    (made,) = json.loads(agent_dev("commits", "--json").stdout)["commits"]
    risks = {file["path"]: file["risks"] for file in made["files"]}

    assert changed[name] == ["git-settings"]
    assert risks == {name: ["git-settings"], "plain": []}
    assert f"{name} ! git-settings\n" in agent_dev("commits").stdout
