"""Sessions that are detached from a terminal and attached again, at real terminals."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, PYTHON, AgentDev, children, processes, wait_until
from tests.harness.terminal import Shell, Terminal

DETACH = b"\x1cd"

# Draws its size and a count of the keys on the alternate screen, and again on each key and each new size.
FULL_SCREEN = """if True:
    import os, signal, sys, termios, tty
    tty.setraw(0)
    count = 0
    def draw(*_):
        columns, rows = os.get_terminal_size()
        text = f"size {rows}x{columns}, keys {count}."
        os.write(1, b"\\x1b[H\\x1b[2J" + text.encode() + b"\\x1b[%d;%dHend" % (rows, columns - 2))
    signal.signal(signal.SIGWINCH, draw)
    os.write(1, b"\\x1b[?1049h\\x1b[?25l\\x1b[?1000h")
    draw()
    while (key := os.read(0, 1)) != b"q":
        count += 1
        draw()
    os.write(1, b"\\x1b[?1000l\\x1b[?25h\\x1b[?1049l")
    sys.exit(4)
"""


@pytest.fixture
def shell(agent_dev: AgentDev) -> Iterator[Shell]:
    """Yield a shell in the repository: `ad` runs an agent in a session that can be detached, `plain` any command."""
    with Shell(env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as running:
        running.run(f"alias plain='{PROGRAM}' ad='{PROGRAM} --no-merge --detachable --name one --'; stty iutf8")
        yield running
        agent_dev("stop", "one")


def other_terminal(agent_dev: AgentDev, *words: str, rows: int = 24, cols: int = 80) -> Terminal:
    """Run a command at another terminal of the user."""
    return Terminal([PROGRAM, *words], rows=rows, cols=cols, env=agent_dev.terminal_environment(), cwd=agent_dev.repo)


def detached(agent_dev: AgentDev) -> bool:
    """Return whether the only session is running and detached."""
    [row] = agent_dev.sessions()
    return bool(row["state"] == "running" and row["detached"])


def detach(shell: Shell) -> str:
    """Press the detach key; return the output until the prompt."""
    shell.send(DETACH)
    return shell.wait_prompt()


def test_the_key_detaches_and_the_agent_continues(shell: Shell, agent_dev: AgentDev) -> None:
    before = shell.stty()
    shell.send("ad sh -c 'echo in-$((1+1)); while [ ! -e ~/go ]; do sleep 0.05; done; echo on >~/went; read x; exit 5'\r")
    shell.wait_for("in-2")
    assert "detached; agent-dev attach one" in detach(shell)
    assert shell.status == 0
    assert shell.stty() == before
    assert detached(agent_dev)
    (agent_dev.agent_home / "go").touch()
    wait_until((agent_dev.agent_home / "went").exists, "the agent went on")
    shell.send("plain attach\r")
    shell.wait_for("in-2")
    shell.send("\r")
    shell.wait_prompt()
    assert shell.status == 5
    assert agent_dev.sessions() == []


def test_attach_shows_the_output_of_a_detached_agent(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); while [ ! -e ~/go ]; do sleep 0.05; done; seq 10000 30000; touch ~/went; read x'\r")
    shell.wait_for("in-2")
    detach(shell)
    start = len(shell.raw)
    (agent_dev.agent_home / "go").touch()
    wait_until((agent_dev.agent_home / "went").exists, "the agent went on")
    assert b"20000" not in shell.raw[start:]
    with other_terminal(agent_dev, "attach", rows=30, cols=70) as terminal:
        text = terminal.wait_for("30000")
        assert "29975\n" in text
        assert b"\r\n20000\r\n" in terminal.raw
        assert b"\r\n10001\r\n" not in terminal.raw  # the history is bounded
        terminal.send("\r")
        assert terminal.wait_exit() == 0


def test_a_full_screen_program_is_attached_at_another_size(shell: Shell, agent_dev: AgentDev) -> None:
    before = shell.stty()
    (agent_dev.repo / "draw.py").write_text(FULL_SCREEN)
    shell.send(f"ad {PYTHON} -I draw.py\r")
    shell.wait_for("size 24x80, keys 0.")
    shell.send("abc")
    shell.wait_for("keys 3.")
    detach(shell)
    assert not shell.screen.is_alternate()
    assert shell.stty() == before
    assert b"\x1b[?1000l" in shell.raw
    with other_terminal(agent_dev, "attach", "one", rows=33, cols=101) as terminal:
        text = terminal.wait_for("size 33x101, keys 3.")
        assert text.rstrip().endswith("end")
        assert terminal.screen.is_alternate()
        terminal.send("d")
        terminal.wait_for("keys 4.")
        terminal.resize(20, 60)
        terminal.wait_for("size 20x60, keys 4.")
        terminal.send(DETACH)
        assert terminal.wait_exit() == 0
    shell.send("plain attach\r")
    shell.wait_for("size 24x80, keys 4.")
    shell.send("q")
    shell.wait_prompt()
    assert shell.status == 4
    assert not shell.screen.is_alternate()
    assert shell.stty() == before


def test_a_closed_terminal_detaches(shell: Shell, agent_dev: AgentDev) -> None:
    with other_terminal(
        agent_dev, "--no-merge", "--detachable", "--name", "one", "--", "sh", "-c", "echo in; read x; exit 6"
    ) as window:
        window.wait_for("in")
        window.hang_up()
        wait_until(lambda: detached(agent_dev), "it is detached")
    shell.send("plain attach\r")
    shell.wait_for("in")
    shell.send("\r")
    shell.wait_prompt()
    assert shell.status == 6


def clients(shell: Shell) -> list[int]:
    """Return the processes that the shell started."""
    return [pid for pid in children(shell.pid) if os.getpgid(pid) == shell.foreground()]


def test_sighup_to_the_client_detaches(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); read x'\r")
    shell.wait_for("in-2")
    [client] = clients(shell)
    os.kill(client, signal.SIGHUP)
    assert "detached; agent-dev attach one" in shell.wait_prompt()
    assert shell.status == 0
    assert detached(agent_dev)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_other_signals_to_the_client_reach_the_agent(shell: Shell, agent_dev: AgentDev, number: signal.Signals) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); exec sleep 600'\r")
    shell.wait_for("in-2")
    [client] = clients(shell)
    os.kill(client, number)
    shell.wait_prompt()
    assert shell.status == 128 + number
    assert agent_dev.sessions() == []


def test_a_killed_client_detaches_and_its_terminal_is_restored(shell: Shell, agent_dev: AgentDev) -> None:
    before = shell.stty()
    (agent_dev.repo / "draw.py").write_text(FULL_SCREEN)
    shell.send(f"ad {PYTHON} -I draw.py\r")
    shell.wait_for("keys 0.")
    [client] = clients(shell)
    os.kill(client, signal.SIGKILL)
    shell.wait_prompt()
    shell.run("true")
    assert shell.stty() == before
    assert not shell.screen.is_alternate()
    wait_until(lambda: detached(agent_dev), "it is detached")
    shell.send("plain attach\r")
    shell.wait_for("size 24x80, keys 0.")
    shell.send("q")
    shell.wait_prompt()
    assert shell.status == 4


def test_ctrl_z_stops_the_client_and_fg_continues_it(shell: Shell) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); read line; echo got-$line; exit 4'\r")
    shell.wait_for("in-2")
    shell.send("\x1a")
    assert "Stopped" in shell.wait_prompt()
    shell.start("fg")
    shell.send("again\r")
    shell.wait_for("got-again")
    shell.wait_prompt()
    assert shell.status == 4


def test_an_agent_stopped_when_its_client_died_continues_at_attach(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); read line; echo got-$line'\r")
    shell.wait_for("in-2")
    shell.send("\x1a")
    assert "Stopped" in shell.wait_prompt()
    shell.run("kill -9 %1")
    wait_until(lambda: detached(agent_dev), "it is detached")
    shell.send("plain attach\r")
    shell.wait_for("in-2")
    shell.send("late\r")
    shell.wait_for("got-late")
    shell.wait_prompt()


def test_a_second_terminal_is_refused_unless_it_takes_over(shell: Shell, agent_dev: AgentDev) -> None:
    before = shell.stty()
    shell.send("ad sh -c 'echo in-$((1+1)); read x; exit 7'\r")
    shell.wait_for("in-2")
    assert not detached(agent_dev)
    with other_terminal(agent_dev, "attach") as second:
        assert second.wait_exit() == 1
        assert "attached to another terminal" in second.text()
        assert "agent-dev attach --take-over one" in second.text()
    with other_terminal(agent_dev, "attach", "--take-over") as second:
        second.wait_for("in-2")
        assert "session one is attached to another terminal now" in shell.wait_prompt()
        assert (shell.status, shell.stty()) == (0, before)
        second.send("\r")
        assert second.wait_exit() == 7


def test_a_stopped_terminal_is_taken_over_from(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); read x; exit 7'\r")
    shell.wait_for("in-2")
    shell.send("\x1a")
    assert "Stopped" in shell.wait_prompt()
    with other_terminal(agent_dev, "attach", "--take-over") as second:
        second.wait_for("in-2")
        wait_until(lambda: "Killed" in shell.run("jobs"), "the stopped client is killed")
        second.send("\r")
        assert second.wait_exit() == 7


SIZES = """if True:
    import os, signal
    last = os.get_terminal_size()
    def draw(*_):
        global last
        if (size := os.get_terminal_size()) != last:
            last = size
            os.write(1, b"size %dx%d.\\n" % (size.lines, size.columns))
    signal.signal(signal.SIGWINCH, draw)
    signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"continued"))
    os.write(1, b"begun\\n")
    while True: signal.pause()
"""


def test_attach_makes_a_program_redraw_at_an_equal_size(shell: Shell, agent_dev: AgentDev) -> None:
    (agent_dev.repo / "sizes.py").write_text(SIZES)
    shell.send(f"ad {PYTHON} -I sizes.py\r")
    shell.wait_for("begun")
    detach(shell)
    with other_terminal(agent_dev, "attach") as terminal:
        seen = terminal.wait_raw(b"size 23x80.")
        terminal.wait_raw(b"size 24x80.", start=seen)
        assert b"continued" not in terminal.raw  # many programs then draw anew, below what they have drawn


def test_what_an_agent_drew_below_the_cursor_is_cleared_at_detach(shell: Shell) -> None:
    shell.send("ad sh -c 'printf \"above\\n> \\n\\n\\n\\nbelow-$((1+1))\\033[4A\\033[3G\"; read x'\r")
    shell.wait_for("below-2")
    detach(shell)
    assert "below-2" not in shell.text()
    assert "above" in shell.text()


def test_a_session_can_be_started_detached_without_a_terminal(shell: Shell, agent_dev: AgentDev) -> None:
    done = agent_dev("--no-merge", "--name", "one", "run", "--detach", "--", "sh", "-c", "echo in-$((1+1)); read x; exit 3")
    assert done.returncode == 0
    assert "session one is running, detached; agent-dev attach one" in done.stderr
    shell.send("plain attach\r")
    shell.wait_for("in-2")
    shell.send("\r")
    shell.wait_prompt()
    assert shell.status == 3


def test_stop_ends_a_detached_session(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send("ad sh -c 'echo made >new; echo in-$((1+1)); exec sleep 7763'\r")
    shell.wait_for("in-2")
    detach(shell)
    assert "running, detached" in shell.run("plain sessions")
    assert "session one stopped; its changes are kept" in shell.run("plain stop one")
    assert processes("sleep\x007763") == []


CHANGES = "echo in-$((1+1)); while [ ! -e ~/go ]; do sleep 0.05; done; echo made >new; exit 9"


def test_a_session_that_ends_while_detached_waits_for_its_review(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send(f"{PROGRAM} --detachable --name one -- sh -c '{CHANGES}'\r")
    shell.wait_for("in-2")
    detach(shell)
    (agent_dev.agent_home / "go").touch()
    wait_until(lambda: agent_dev.sessions()[0]["state"] == "waiting", "it ended")
    start = len(shell.raw)
    shell.send("plain attach\r")
    shell.wait_for("c apply")
    assert b"session one ended while it was detached, exit code 9" in shell.raw[start:]
    shell.wait_quiet()
    shell.send("q")
    shell.wait_prompt()
    assert shell.status == 9


def test_the_review_opens_when_the_agent_ends_at_the_client(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send(f"{PROGRAM} --detachable --name one -- sh -c '{CHANGES}'\r")
    shell.wait_for("in-2")
    detach(shell)
    shell.send("clear; plain attach\r")
    shell.wait_for(lambda text: "in-2" in text and "attach" not in text)
    (agent_dev.agent_home / "go").touch()
    shell.wait_for("c apply")
    shell.wait_quiet()
    shell.send("q")
    shell.wait_prompt()
    assert shell.status == 9
    assert agent_dev("attach", "one").returncode == 2  # no terminal


def test_config_yaml_makes_sessions_detachable_with_an_own_key(shell: Shell, agent_dev: AgentDev, tmp_path: Path) -> None:
    config = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("detachable: true\ndetach_key: ctrl-a ctrl-d\n")
    shell.send("plain --no-merge --name one -- sh -c 'echo in-$((1+1)); read x'\r")
    shell.wait_for("in-2")
    shell.send(b"\x01\x04")
    assert "detached; agent-dev attach one" in shell.wait_prompt()
    assert "piped" in shell.run("plain --no-merge -- echo piped | cat")
    assert agent_dev("--no-merge", "--", "true").returncode == 0


def test_errors_before_the_start_are_reported_as_usual(shell: Shell, agent_dev: AgentDev) -> None:
    assert "not found" in shell.run("ad no-such-program")
    assert shell.status == 127
    assert agent_dev.sessions() == []


def test_a_killed_launcher_is_reported(shell: Shell, agent_dev: AgentDev) -> None:
    before = shell.stty()
    shell.send("ad sh -c 'echo in-$((1+1)); exec sleep 600'\r")
    shell.wait_for("in-2")
    [client] = clients(shell)
    [launcher] = [pid for pid in children(client) if os.getsid(pid) == pid]
    os.kill(launcher, signal.SIGKILL)
    assert "its launcher was killed" in shell.wait_prompt()
    assert (shell.status, shell.stty()) == (137, before)


def test_sighup_to_the_launcher_ends_nothing_and_is_not_ignored_inside(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send("ad sh -c 'grep SigIgn /proc/self/status; echo in-$((1+1)); read x; echo got-$x'\r")
    shell.wait_for("in-2")
    ignored = re.search(r"SigIgn:\t([0-9a-f]+)", shell.raw.decode(errors="replace"))
    assert ignored
    assert int(ignored[1], 16) & (1 << signal.SIGHUP - 1) == 0
    [client] = clients(shell)
    [launcher] = [pid for pid in children(client) if os.getsid(pid) == pid]
    os.kill(launcher, signal.SIGHUP)
    assert agent_dev("exec", "one", "--", "true").returncode == 0  # longer than the launcher needs to notice it
    shell.send("more\r")
    shell.wait_for("got-more")
    shell.wait_prompt()
    assert shell.status == 0


def test_a_resumed_session_can_be_detached_again(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send("ad sh -c 'echo x >>made; echo in-$(wc -l <made); read x; exit 3'\r")
    shell.wait_for("in-1")
    shell.send("\r")
    shell.wait_prompt()
    shell.send("plain --no-merge resume one\r")
    shell.wait_for("in-2")
    assert "detached; agent-dev attach one" in detach(shell)
    assert detached(agent_dev)
    shell.send("plain --no-merge attach\r")
    shell.wait_for(lambda text: "in-2" in text and "detached" not in text)
    shell.send("\r")
    shell.wait_prompt()
    assert shell.status == 3
    assert agent_dev.changes("one") == {"made": "added"}


def test_the_end_of_a_run_is_announced_only_to_an_absent_user(shell: Shell, agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "notify").write_text(f'#!/bin/sh\necho "$2" >>{tmp_path}/notified\n')
    (tmp_path / "notify").chmod(0o755)
    config = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"notify_end_seconds: 1\nnotify_command: [{tmp_path}/notify]\n")
    for number in (1, 2):
        shell.send(
            f"ad sh -c 'echo in-$((1+{number})); sleep 1.1; while [ ! -e ~/go{number} ]; do sleep 0.05; done; exit {number}'\r"
        )
        shell.wait_for(f"in-{1 + number}")
        if number == 1:
            shell.send("typed")
        else:
            detach(shell)
        (agent_dev.agent_home / f"go{number}").touch()
        if number == 1:
            shell.wait_prompt()
            shell.run("true")
    notified = tmp_path / "notified"
    wait_until(notified.exists, "the notification")
    assert "exit code 2," in wait_until(notified.read_text, "its text")
    assert "exit code 1," not in notified.read_text()


def test_the_title_is_replayed_and_restored(shell: Shell, agent_dev: AgentDev) -> None:
    shell.send("ad sh -c 'printf \"\\033]2;agent\\033\\134\"; echo in-$((1+1)); read x'\r")
    shell.wait_for("in-2")
    detach(shell)
    with other_terminal(agent_dev, "attach") as terminal:
        terminal.wait_for("in-2")
        terminal.send(DETACH)
        assert terminal.wait_exit() == 0
        saved, title, restored = map(terminal.raw.find, (b"\x1b[22;0t", b"\x1b]2;agent\x1b\\", b"\x1b[23;0t"))
        assert -1 < saved < title < restored


def test_a_question_rings_the_bell_of_the_attached_terminal(shell: Shell, agent_dev: AgentDev) -> None:
    config = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    config.mkdir(parents=True)
    (config / "policy.yaml").write_text("guard: {rules: [{name: a, programs: [touch], words: [asked], decision: ask}]}\n")
    shell.send("ad sh -c 'echo in-$((1+1)); while [ ! -e ~/go ]; do sleep 0.05; done; touch asked'\r")
    shell.wait_for("in-2")
    detach(shell)
    with other_terminal(agent_dev, "attach") as terminal:
        terminal.wait_for("in-2")
        terminal.wait_quiet(0.2)
        start = len(terminal.raw)
        (agent_dev.agent_home / "go").touch()
        terminal.wait_raw(b"waits for the user's approval", start=start)
        terminal.wait_raw(b"\a", start=start)
