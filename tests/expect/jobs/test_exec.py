"""`exec` and `shell` at a terminal: job control, Ctrl-C, resizes and hang-ups reach the command, and the terminal is restored."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.expect.jobs.shells import open_shell
from tests.expect.jobs.test_job_control import poll_until, sleepers
from tests.harness.program import PROGRAM
from tests.harness.terminal import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Yield an interactive shell in a small repository with a running session."""
    with open_shell(tmp_path, SHELL="/bin/bash") as running:
        running.run(f"git init -q repo && cd repo && alias ad='{PROGRAM}' && mkfifo ../end")
        running.run("ad --no-merge -- sh -c 'touch begun; exec cat' <../end >/dev/null 2>&1 & exec 9>../end; disown")
        running.run("until ad exec -- test -e begun 2>/dev/null; do :; done; clear")
        yield running  # the session ends with the shell, which holds the other end of its input


def test_a_shell_has_job_control_and_the_terminal_is_restored(shell: Shell) -> None:
    before = shell.stty()
    shell.send("ad shell\r")
    shell.wait_for("@sandbox:")
    shell.send("tty; script -qc 'echo in-$((1+1))' /dev/null; ps -o tty= -p $$ >&0\r")
    shell.wait_for("in-2")
    shell.wait_for("\npts/")  # ps also finds its terminal
    assert "\n/dev/pts/" in shell.text()
    shell.send("sleep 7761\r")
    poll_until(lambda: sleepers("7761"), 10.0)
    shell.send("\x1a")
    shell.wait_for("Stopped")
    shell.send("fg\r")
    poll_until(lambda: sleepers("7761", "S"), 10.0)
    shell.send("\x03")
    poll_until(lambda: not sleepers("7761"), 10.0)
    shell.send("stty raw -echo; exit 6\r")
    shell.wait_prompt()
    assert shell.status == 6
    assert shell.stty() == before


def test_ctrl_z_stops_a_command_and_fg_continues_it(shell: Shell) -> None:
    shell.send("ad exec -- sh -c 'echo here-$((1+1)); read line; echo got-$line; exit 4'\r")
    shell.wait_for("here-2")
    shell.send("\x1a")
    assert "Stopped" in shell.wait_prompt()
    shell.start("fg")
    shell.send("again\r")
    shell.wait_for("got-again")
    shell.wait_prompt()
    assert shell.status == 4


def test_ctrl_c_ends_a_command_and_not_the_session(shell: Shell) -> None:
    shell.send("ad exec -- sh -c 'trap \"echo saved; exit 9\" INT; echo here-$((1+1)); while :; do sleep 0.05; done'\r")
    shell.wait_for("here-2")
    shell.send("\x03")
    assert "saved" in shell.wait_prompt()
    assert shell.status == 9
    assert "still" in shell.run("ad exec -- echo still")


def test_a_resize_reaches_a_command(shell: Shell) -> None:
    reported = 'trap "stty size; echo told-$((2+2))" WINCH; echo here-$((1+1)); while :; do read -t 0.05; done'
    shell.send(f"ad exec -- bash -c '{reported}'\r")
    shell.wait_for("here-2")
    shell.resize(33, 101)
    shell.wait_for("33 101")
    shell.wait_for("told-4")
    shell.send("\x03")
    shell.wait_prompt()


def test_all_output_arrives_before_the_prompt(shell: Shell) -> None:
    for _ in range(5):
        assert "2000" in shell.run("ad exec -- seq 1 2000").split()
        assert shell.status == 0


def test_a_lost_terminal_ends_a_command(shell: Shell) -> None:
    shell.send("ad exec -- sh -c 'echo here-$((1+1)); exec sleep 7762'\r")
    shell.wait_for("here-2")
    shell.hang_up()
    poll_until(lambda: not sleepers("7762"), 20.0)


def test_a_shell_of_an_ended_session_has_job_control(shell: Shell) -> None:
    shell.run("exec 9>&-; until ad sessions | grep -q waiting; do :; done; clear")
    before = shell.stty()
    shell.send("ad shell\r")
    shell.wait_for("changes made here are not kept")
    shell.wait_for("@sandbox:")
    shell.send("tty\r")
    shell.wait_for("\n/dev/console")
    shell.send("sleep 7763\r")
    poll_until(lambda: sleepers("7763"), 10.0)
    shell.send("\x1a")
    shell.wait_for("Stopped")
    shell.send("fg\r")
    poll_until(lambda: sleepers("7763", "S"), 10.0)
    shell.send("\x03")
    poll_until(lambda: not sleepers("7763"), 10.0)
    shell.send("touch other; stty raw -echo; exit 6\r")
    shell.wait_prompt()
    assert shell.status == 6
    assert shell.stty() == before
    assert "other" not in shell.run("ad status")
