"""A container in which no process has PID 2, the PID of bubblewrap's child in the setup process's PID namespace."""

import os

import pytest

from tests.harness.program import AgentDev

USED_UP = 'sh -c "exit 0"; [ ! -e /proc/2 ] || exit 99; "$@"'  # a process with PID 2 has existed and exited
OURS = () if os.getuid() == 0 else ("--user", "--map-current-user")


def container(script: str) -> tuple[str, ...]:
    return ("unshare", *OURS, "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh")


@pytest.mark.parametrize("net", ["host", "none"])
def test_an_agent_runs_where_no_process_has_pid_2(agent_dev: AgentDev, net: str) -> None:
    done = agent_dev("--no-merge", "--net", net, "--", "sh", "-c", "echo inside; exit 7", before=container(USED_UP))
    assert (done.returncode, done.stdout) == (7, "inside\n"), done.stderr


def test_an_agent_sees_only_its_own_processes_without_pid_2(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "cat /proc/[0-9]*/comm", before=container(USED_UP))
    assert set(done.stdout.split()) == {"bwrap", "sh"}, done.stderr


@pytest.mark.only_root
def test_the_message_names_a_masked_proc(agent_dev: AgentDev) -> None:
    done = agent_dev(
        "--", "true", before=container(f"mount -t tmpfs -o ro none /proc/acpi || mount -t tmpfs none /proc/tty; {USED_UP}")
    )
    assert done.returncode == 125
    assert "systempaths=unconfined" in done.stderr
    assert "Traceback" not in done.stderr
