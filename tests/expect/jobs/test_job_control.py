"""The launcher as a job of an interactive bash: it stops, continues and ends like a program that the shell started itself."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.expect.jobs.shells import open_shell
from tests.harness.program import PROGRAM
from tests.harness.terminal import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Yield an interactive shell in a small repository, with a home of its own."""
    with open_shell(tmp_path) as running:
        running.run("git init -q repo && cd repo && git config user.email a@b.c && git config user.name me")
        running.run(f"echo one >file && git add -A && git commit -qm one; alias ad='{PROGRAM} --no-merge --'")
        yield running


def launched(shell: Shell, command: str, ready: str) -> None:
    """Start agent-dev in the foreground, and wait until the agent prints `ready`."""
    shell.send(f"{command}\r")
    shell.wait_for(ready)


def test_an_agent_in_the_foreground_can_read_the_terminal(shell: Shell) -> None:
    launched(shell, "ad sh -c 'echo agent-$((1+1)); read line; echo got-$line'", "agent-2")
    shell.send("hello\r")
    shell.wait_for("got-hello")
    shell.wait_prompt()


def test_ctrl_c_reaches_the_agent_and_not_the_launcher(shell: Shell) -> None:
    launched(shell, "ad sh -c 'trap \"echo saved; exit 9\" INT; echo agent-$((1+1)); while :; do sleep 0.05; done'", "agent-2")
    shell.send("\x03")
    assert "saved" in shell.wait_prompt()
    assert shell.status == 9


def test_ctrl_z_stops_the_job_and_fg_continues_it(shell: Shell) -> None:
    launched(shell, "ad sh -c 'echo agent-$((1+1)); read line; echo got-$line; exit 4'", "agent-2")
    shell.send("\x1a")
    assert "Stopped" in shell.wait_prompt()
    assert shell.foreground() == shell.pid
    shell.start("fg")
    shell.send("again\r")
    shell.wait_for("got-again")
    shell.wait_prompt()
    assert shell.status == 4


COUNT_SIGNALS = """if True:
    import signal
    count = 0
    def add(*_):
        global count
        count += 1
    signal.signal(signal.SIGCONT, add)
    while True:
        print(f"signals-{count}", flush=True)
        input()
"""


def test_fg_continues_the_agent_by_a_single_signal(shell: Shell, tmp_path: Path) -> None:
    # At a second signal Textual starts its threads again, and then may not exit. A second one is not always seen: hence 20.
    (tmp_path / "repo/count.py").write_text(COUNT_SIGNALS)
    launched(shell, "ad python3 -I count.py", "signals-0")
    for count in range(1, 21):
        shell.send("\x1a")
        assert "Stopped" in shell.wait_prompt()
        shell.start("fg")
        start = len(shell.raw)
        shell.send("\r")
        shell.wait_raw(b"\n", start=shell.wait_raw(b"signals-", start=start))
        assert shell.raw[start:].split(b"signals-")[-1].split() == [b"%d" % count]
    shell.send("\x03")
    shell.wait_prompt()


def test_an_agent_that_stops_itself_does_not_hang_the_terminal(shell: Shell) -> None:
    launched(shell, "ad bash -c 'echo agent-$((1+1)); kill -STOP $$; echo went-on; read x; echo got-$x'", "agent-2")
    assert "Stopped" in shell.wait_prompt()
    shell.start("fg")
    shell.wait_for("went-on")
    shell.send("y\r")
    shell.wait_for("got-y")


def test_an_interactive_shell_inside_has_job_control(shell: Shell) -> None:
    launched(shell, "ad bash --norc", "bash-")
    shell.send("sleep 7656\r")
    poll_until(lambda: sleepers("7656"), 10.0)
    shell.send("\x1a")
    shell.wait_for("Stopped")
    shell.send("echo inner-$((3+3)); fg\r")
    shell.wait_for("inner-6")
    poll_until(lambda: sleepers("7656", "S"), 10.0)
    shell.send("\x03")
    shell.send("exit 5\r")
    shell.wait_prompt()
    assert shell.status == 5


def test_after_an_interactive_shell_the_terminal_settings_are_restored(shell: Shell) -> None:
    before = shell.stty()
    launched(shell, "ad bash --norc", "bash-")
    shell.send("stty raw -echo; kill -9 $$\r")
    shell.wait_prompt()
    assert shell.stty() == before


def test_a_signal_to_all_processes_inside_reaches_none_outside(shell: Shell) -> None:
    assert "first=137" in shell.run("{ ad sh -c 'kill -9 0'; echo first=$?; } | cat")
    assert shell.status == 0


def test_a_job_in_the_background_does_not_take_the_terminal(shell: Shell) -> None:
    own = shell.foreground()
    shell.run("ad sh -c 'sleep 0.4; echo done-$((5+5))' &")
    assert shell.foreground() == own
    shell.wait_for("done-10")
    assert shell.foreground() == own


def test_a_resize_reaches_the_agent(shell: Shell) -> None:
    # bash ignores Ctrl-C while it waits for a child that exits normally: so no child may run when it is typed.
    reported = 'trap "stty size; echo told-$((2+2))" WINCH; echo agent-$((1+1)); while :; do read -t 0.05; done'
    launched(shell, f"ad bash -c '{reported}'", "agent-2")
    shell.resize(33, 101)
    shell.wait_for("33 101")
    shell.wait_for("told-4")
    shell.send("\x03")
    shell.wait_prompt()


def test_a_lost_terminal_ends_the_agent_and_keeps_its_changes(shell: Shell, tmp_path: Path) -> None:
    launched(shell, "ad bash -c 'echo work >new; echo agent-$((1+1)); exec sleep 7654'", "agent-2")
    shell.hang_up()
    state = tmp_path / "home/.local/state/agent-dev/sessions"
    deadline = 20.0
    poll_until(lambda: not sleepers("7654"), deadline)
    poll_until(lambda: any((one / "roots/0/upper/new").exists() for one in state.iterdir()), deadline)


def sleepers(argument: str, states: str = "ST") -> list[int]:
    """Return the processes `sleep ARGUMENT` in one of these states (S: sleeping, T: stopped)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                state = Path(f"/proc/{name}/stat").read_text().rpartition(") ")[2][:1]
            except OSError:
                continue
            if words[:2] == [b"sleep", argument.encode()] and state in states:
                found.append(int(name))
    return found


def poll_until(holds: Callable[[], object], deadline: float) -> None:
    """Wait until a condition holds, for at most `deadline` seconds."""
    end = time.monotonic() + deadline
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.02)


def test_a_sigkilled_launcher_takes_the_agent_with_it(shell: Shell) -> None:
    launched(shell, "ad bash -c 'echo agent-$((1+1)); exec sleep 7655'", "agent-2")
    [launcher] = launchers(shell)
    os.kill(launcher, signal.SIGKILL)
    poll_until(lambda: not sleepers("7655"), 10.0)
    shell.wait_prompt()


def launchers(shell: Shell) -> list[int]:
    """Return the launchers that the shell started: its child processes."""
    children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
    return [int(pid) for pid in children]


LEFT_ON = {
    "the keys of the cursor": (r"\033[?1h", b"\x1b[?1l"),
    "the keypad": (r"\033=", b"\x1b>"),
    "lines that do not wrap": (r"\033[?7l", b"\x1b[?7h"),
    "a scrolling region": (r"\033[5;10r\033[20H", b"\x1b[r"),
    "the lines of boxes": (r"\033(0", b"\x1b(B"),
    "the other letters": (r"\016", b"\x0f"),
    "a hidden cursor": (r"\033[?25l", b"\x1b[?25h"),
    "the mouse": (r"\033[?1002h\033[?1006h", b"\x1b[?1002l"),
    "bracketed paste": (r"\033[?2004h", b"\x1b[?2004l"),
}


@pytest.mark.parametrize(("on", "off"), LEFT_ON.values(), ids=LEFT_ON.keys())
def test_terminal_modes_left_on_by_a_killed_agent_are_switched_off(shell: Shell, on: str, off: bytes) -> None:
    start = len(shell.raw)
    shell.run(f"ad sh -c 'printf \"{on}left-$((1+1))\"; kill -9 $$'")
    after = shell.raw.index(b"left-2", start)
    assert off in shell.raw[after:]
    assert shell.status == 137


def test_after_a_killed_agent_the_cursor_position_is_restored(shell: Shell) -> None:
    shell.run(r"""ad sh -c 'printf "one\ntwo\n\033[2;9r\033[15H"; kill -9 $$'""")
    assert shell.text().splitlines()[14] == shell.PROMPT.rstrip()
    assert shell.screen.margins is None


def test_a_killed_agent_on_the_main_screen_leaves_the_cursor_in_place(shell: Shell) -> None:
    shell.run(r"printf '\033[?1049h\033[?1049l'")  # an editor that exited normally before
    shell.run("seq 9")
    shell.run("ad sh -c 'echo last; kill -9 $$'")
    assert shell.text().rstrip().endswith(f"last\n{shell.PROMPT.rstrip()}")


def test_after_a_killed_agent_the_alternate_screen_is_left(shell: Shell) -> None:
    shell.run(r"""echo before; ad sh -c 'printf "\033[?1049h\033[2;9rinside"; kill -9 $$'""")
    assert b"inside" in shell.raw
    assert not shell.screen.is_alternate()
    assert "before" in shell.text()
    assert shell.text().rstrip().endswith(f"\n{shell.PROMPT.rstrip()}")
