"""`tx --many` inside a session: a transaction for each line of a list, one after the other."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.door import LOOK, NAMES, sh
from tests.harness.program import PROGRAM, AgentDev

LIST = "echo a >a; echo said\n\n# a comment\necho b >b; exit 3\n  echo c >c\n"


def test_each_line_of_a_list_is_a_transaction_of_its_own(inside: AgentDev) -> None:
    said, told = sh(
        inside, f"printf '{LIST}' >/tmp/list; tx --many /tmp/list; echo $?; {LOOK}; tx --many - </tmp/list >&2; echo $?"
    )
    assert said == "said\n1\nREADME.md: # Shop\na: a\nc: c\nsub:\n1\n"
    assert "2 of 3: echo b >b; exit 3\nagent-dev: rolled back to checkpoint 2, since /bin/sh ended with 3\n" in told


def test_a_list_has_the_document_that_it_has_outside_and_goes_on_until_the_first_has_passed(inside: AgentDev) -> None:
    (inside.home / "list").write_text(LIST.replace("echo said", "exit 4").replace("exit 3", "true"))
    outside = json.loads(inside("tx", "--many", inside.home / "list", "--jobs", "1", "--first", "--json").stdout)
    script = f"cat >/tmp/list; tx --many /tmp/list --jobs 1 --first --json; {LOOK} >&2"
    done = inside("--no-merge", "--", "sh", "-c", script, input=(inside.home / "list").read_text())
    told = json.loads(done.stdout)

    def shape(document: dict[str, Any]) -> list[Any]:
        jobs = [(set(job), *(job[key] for key in ("line", "state", "exit", "cause"))) for job in document["jobs"]]
        return [set(document), document["state"], document["exit"], jobs]

    assert shape(told) == shape(outside)
    assert [job["cause"] for job in told["jobs"]] == ["command", None, "not needed"]
    assert "\nb: b\nsub:\n" in done.stderr


@pytest.mark.parametrize("many", ["2", "02", "99999999999999999999"])
def test_several_at_once_are_refused_since_they_would_share_a_tree(inside: AgentDev, many: str) -> None:
    said, told = sh(inside, f"echo 'echo x >new' >/tmp/list; tx --many /tmp/list --jobs {many}; echo $?; {LOOK}")
    assert said == f"125\n{NAMES}"
    first, hint, *rest = told.splitlines()
    assert first.endswith(
        f"--jobs {many}: inside a session all commands change the one tree that it shows, so they run one after the other"
    )
    assert hint == "agent-dev: → leave --jobs out; outside, agent-dev tx --many gives each a view of its own"
    assert not any("jobs" in line for line in rest)


def test_one_at_once_is_what_a_list_is_anyway(inside: AgentDev) -> None:
    said, _ = sh(inside, f"echo 'echo x >new' >/tmp/list; tx --many /tmp/list --jobs 01; echo $?; {LOOK}")
    assert said == "0\nREADME.md: # Shop\nnew: x\nsub:\n"


def test_the_commands_of_a_list_from_stdin_have_a_stdin_at_its_end(inside: AgentDev) -> None:
    said, told = sh(inside, f"printf 'cat >new; test -e /proc/self/fd/0\n' | tx --many -; echo $?; {LOOK}")
    assert said == "0\nREADME.md: # Shop\nnew:\nsub:\n", told


def test_a_list_that_is_asked_to_end_begins_nothing_more(inside: AgentDev) -> None:
    script = f"printf 'echo a >a; kill -TERM $PPID; exec sleep 300\necho b >b\n' >/tmp/list; tx --many /tmp/list; echo $?; {LOOK}"
    assert sh(inside, script)[0] == f"1\n{NAMES}"


if os.getuid():  # root inside is nobody who could make a sandbox there

    def test_an_agent_dev_that_is_shown_inside_gives_each_a_view_of_its_own(inside: AgentDev) -> None:
        places = dict.fromkeys(("--ro", str(path)) for path in (Path(__file__).parents[2], PROGRAM.parents[1]))
        lines = "echo a >a\necho b >b; exit 3\necho c >c\n"
        script = f"printf '{lines}' >list; {PROGRAM} tx --many list --jobs 3; echo $?; rm list; {LOOK}"
        done = inside("--no-merge", *(word for one in places for word in one), "--", "sh", "-c", script)
        assert done.stdout == "1\nREADME.md: # Shop\na: a\nc: c\nsub:\n", done.stderr
