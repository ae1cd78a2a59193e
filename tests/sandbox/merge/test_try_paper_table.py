"""The table of the paper, with at least 200 commands started per row; every command must have the outcome of its row.

Safe commands are executed, unsafe ones blocked, uncertain ones checkpointed; failing ones are rolled back, passing ones kept.
Each program is a copy of `true`: the policy checks only the arguments, and a wrong decision does no harm.
"""

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from tests.harness import commands, program
from tests.harness.program import PYTHON, AgentDev

pytestmark = pytest.mark.slow

EACH = int(os.environ.get("AGENT_DEV_TEST_TABLE", "200"))
PATIENCE = 900  # seconds
HOME = "/home/ada"  # the home in the lines of the table
START_ALL = """
import json, os
told = {}
for name, lines in json.load(open("table.json")).items():
    told[name] = []
    for number, words in enumerate(lines):
        with open("moves", "w") as file:
            file.write(f"{name} {number}")
        try:
            pid = os.posix_spawn("stubs/" + words[0].rpartition("/")[2], words, os.environ)
        except PermissionError:
            told[name].append("blocked")
        else:
            told[name].append(f"ended with {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")
print(json.dumps(told))
"""
# Changes that a command makes before it exits; `{n}` makes the paths of each command unique.
ACTIONS = (
    "echo {n} >new-{n}",
    "mkdir -p made-{n}/deep; echo {n} >made-{n}/deep/x",
    "echo {n} >>lines",
    "sed -i 's/^line {n}$/changed {n}/' lines",
    "rm old-{n}",
    "mv old-{n} moved-{n}",
    "chmod 640 old-{n}",
    "ln -s old-{n} link-{n}; rm lines; echo {n} >lines",
    "rm -r folder-{n}; mkdir folder-{n}; echo {n} >folder-{n}/other",
    "rm -r folder-{n}; echo {n} >folder-{n}",
    "mkfifo pipe-{n}; truncate -s 3 old-{n}",
    "cp -a folder-{n} twin-{n}; rm old-{n}; mkdir old-{n}",
)
CODES = ("exit 1", "exit 2", "exit 77", "exit 126", "exit 255", "kill -9 $$", "kill -TERM $$", "no-such-program", "false")


def table(agent_dev: AgentDev) -> dict[str, list[list[str]]]:
    """Return the lines of each class, with the home and the relative path to /home of this machine."""
    ways = {HOME: str(agent_dev.home), "../../..": os.path.relpath("/home", agent_dev.repo)}
    classes = ("safe", "unsafe", "uncertain")
    return {name: [[ways.get(word, word) for word in line] for line in commands.lines_of(name)] for name in classes}


def test_each_command_of_the_table_is_started_denied_or_checkpointed(agent_dev: AgentDev) -> None:
    lines = table(agent_dev)
    (agent_dev.repo / "table.json").write_text(json.dumps(lines))
    (agent_dev.repo / "stubs").mkdir()
    for name in {words[0].rpartition("/")[2] for each in lines.values() for words in each}:
        shutil.copy("/bin/true", agent_dev.repo / "stubs" / name)
    done = agent_dev("--no-merge", "--", PYTHON, "-I", "-c", START_ALL, timeout=PATIENCE)
    reported = json.loads(done.stdout.splitlines()[-1])  # after the output of `true --version`

    assert min(map(len, lines.values())) >= 200
    assert reported["safe"] == ["ended with 0"] * len(lines["safe"])
    assert reported["unsafe"] == ["blocked"] * len(lines["unsafe"])
    assert reported["uncertain"] == ["ended with 0"] * len(lines["uncertain"])
    rows: list[dict[str, Any]] = json.loads(agent_dev("log", "--commands", "--json").stdout)["commands"]
    taken = [row["checkpoint"] for row in rows if row.get("decision") == "checkpoint"]
    assert len(set(taken)) == len(lines["uncertain"])  # each has a new checkpoint of the state just before it


def test_failing_commands_are_rolled_back_and_passing_ones_are_kept(inside: AgentDev) -> None:
    count = 2 * EACH
    for number in range(count):
        (inside.repo / f"old-{number}").write_text(f"old {number}\n")
        (inside.repo / f"folder-{number}").mkdir()
        (inside.repo / f"folder-{number}/in").write_text(f"in {number}\n")
    (inside.repo / "lines").write_text("".join(f"line {number}\n" for number in range(count)))
    actions = [ACTIONS[number // 2 % len(ACTIONS)].format(n=number) for number in range(count)]
    failing = {number: f"{actions[number]}; {CODES[number // 2 % len(CODES)]}" for number in range(1, count, 2)}
    wanted = inside.home / "wanted"
    shutil.copytree(inside.repo, wanted, symlinks=True)
    for number in range(0, count, 2):
        subprocess.run(["sh", "-c", actions[number]], cwd=wanted, check=True)

    many = "\n".join(failing.get(number, actions[number]) for number in range(count))
    done = inside("--no-merge", "--", "tx", "--many", "-", "--json", input=many, timeout=PATIENCE)
    jobs = json.loads(done.stdout)["jobs"]
    assert [number for number, job in enumerate(jobs) if (job["state"] == "merged") != (number % 2 == 0)] == []
    assert inside("merge", "--all", "--include-risky", "--yes-delete-many").returncode == 0
    ours, theirs = (
        {path: entry for path, entry in program.tree(place).items() if not path.startswith(".git")}
        for place in (inside.repo, wanted)
    )
    assert ours == theirs
