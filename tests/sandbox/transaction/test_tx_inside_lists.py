"""`tx --many` inside a session: one transaction per line of a list, in turn."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.control_socket import NAMES, PRINT_FILES, run_script
from tests.harness.program import PROGRAM, AgentDev

LIST = "echo a >a; echo said\n\n# a comment\necho b >b; exit 3\n  echo c >c\n"


def test_each_line_of_a_list_is_a_separate_transaction(inside: AgentDev) -> None:
    printed, reported = run_script(
        inside, f"printf '{LIST}' >/tmp/list; tx --many /tmp/list; echo $?; {PRINT_FILES}; tx --many - </tmp/list >&2; echo $?"
    )
    assert printed == "said\n1\nREADME.md: # Shop\na: a\nc: c\nsub:\n1\n"
    assert "2 of 3: echo b >b; exit 3\nagent-dev: rolled back to checkpoint 2: /bin/sh exited with status 3\n" in reported


def test_a_list_prints_the_same_json_as_outside_up_to_the_first_success(inside: AgentDev) -> None:
    (inside.home / "list").write_text(LIST.replace("echo said", "exit 4").replace("exit 3", "true"))
    outside = json.loads(inside("tx", "--many", inside.home / "list", "--jobs", "1", "--first", "--json").stdout)
    script = f"cat >/tmp/list; tx --many /tmp/list --jobs 1 --first --json; {PRINT_FILES} >&2"
    done = inside("--no-merge", "--", "sh", "-c", script, input=(inside.home / "list").read_text())
    reported = json.loads(done.stdout)

    def shape(document: dict[str, Any]) -> list[Any]:
        jobs = [(set(job), *(job[key] for key in ("line", "state", "exit", "cause"))) for job in document["jobs"]]
        return [set(document), document["state"], document["exit"], jobs]

    assert shape(reported) == shape(outside)
    assert [job["cause"] for job in reported["jobs"]] == ["command", None, "not needed"]
    assert "\nb: b\nsub:\n" in done.stderr


@pytest.mark.parametrize("many", ["2", "02", "99999999999999999999"])
def test_parallel_jobs_in_a_shared_tree_are_refused(inside: AgentDev, many: str) -> None:
    printed, reported = run_script(
        inside, f"echo 'echo x >new' >/tmp/list; tx --many /tmp/list --jobs {many}; echo $?; {PRINT_FILES}"
    )
    assert printed == f"125\n{NAMES}"
    first, hint, *rest = reported.splitlines()
    assert first.endswith(f"--jobs {many}: inside a session all commands change the same tree, so they run one after another")
    assert hint == "agent-dev: hint: remove --jobs; outside, agent-dev tx --many gives each command its own view"
    assert not any("jobs" in line for line in rest)


def test_one_parallel_job_is_accepted_for_a_list(inside: AgentDev) -> None:
    printed, _ = run_script(inside, f"echo 'echo x >new' >/tmp/list; tx --many /tmp/list --jobs 01; echo $?; {PRINT_FILES}")
    assert printed == "0\nREADME.md: # Shop\nnew: x\nsub:\n"


def test_commands_of_a_list_from_stdin_get_an_empty_stdin(inside: AgentDev) -> None:
    printed, reported = run_script(inside, f"printf 'cat >new; test -e /proc/self/fd/0\n' | tx --many -; echo $?; {PRINT_FILES}")
    assert printed == "0\nREADME.md: # Shop\nnew:\nsub:\n", reported


def test_an_interrupted_list_starts_no_further_command(inside: AgentDev) -> None:
    commands = "echo a >a; kill -TERM $PPID; exec sleep 300\necho b >b\n"
    script = f"printf '{commands}' >/tmp/list; tx --many /tmp/list; echo $?; {PRINT_FILES}"
    assert run_script(inside, script)[0] == f"1\n{NAMES}"


if os.getuid():  # as root, the user inside cannot create a sandbox

    def test_a_mounted_agent_dev_gives_each_command_its_own_view(inside: AgentDev) -> None:
        places = dict.fromkeys(("--ro", str(path)) for path in (Path(__file__).parents[3], PROGRAM.parents[1]))
        lines = "echo a >a\necho b >b; exit 3\necho c >c\n"
        script = f"printf '{lines}' >list; {PROGRAM} tx --many list --jobs 3; echo $?; rm list; {PRINT_FILES}"
        done = inside("--no-merge", *(word for one in places for word in one), "--", "sh", "-c", script)
        assert done.stdout == "1\nREADME.md: # Shop\na: a\nc: c\nsub:\n", done.stderr
