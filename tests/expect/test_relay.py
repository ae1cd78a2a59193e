"""The relay between the user's terminal and the sandbox's pty: bytes, sizes, keys, signals, and real programs."""

import hashlib
import os
import random
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, PYTHON, AgentDev, children, processes_inside, wait_until
from tests.harness.scale import printed_seed
from tests.harness.terminal import Shell, Terminal


@pytest.fixture
def shell(agent_dev: AgentDev) -> Iterator[Shell]:
    """Yield a shell in the repository, with the alias `ad` for a run that merges nothing."""
    with Shell(env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as running:
        running.run(f"alias ad='{PROGRAM} --no-merge --'; stty iutf8")
        yield running


def agent(agent_dev: AgentDev, *command: str) -> Terminal:
    """Run an agent as the only program of a terminal."""
    return Terminal([PROGRAM, "--no-merge", "--", *command], env=agent_dev.terminal_environment(), cwd=agent_dev.repo)


def needs(program: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test if a program is not installed."""
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


def noise(size: int) -> bytes:
    """Return random bytes mixed with parts of image and keyboard protocols; the seed is printed."""
    seed = printed_seed()
    pieces = [
        b"\x1b_Gf=24,s=1,v=1;AAAA\x1b\\",
        b"\x1bPq#0;2;0;0;0#0~~@@vv\x1b\\",
        b"\x1b[>31u",
        b"\x1b[97;5:3u",
        b"\x03\x1a\x1c\0\xff",
        b"\x1b[\xc2\xb3m",
    ]
    selected = random.Random(seed)  # noqa: S311  (no secret)
    made = b""
    while len(made) < size:
        made += selected.randbytes(selected.randrange(300)) + selected.choice(pieces)
    return made


def test_every_byte_written_by_an_agent_passes_unchanged(agent_dev: AgentDev) -> None:
    data = noise(200_000)
    (agent_dev.repo / "noise").write_bytes(data)
    with agent(agent_dev, "sh", "-c", "stty raw -echo; printf '<begin>'; cat noise; printf '<end>'") as terminal:
        start = terminal.wait_raw(b"<begin>")
        terminal.wait_raw(b"<end>", start=start)
        written = terminal.raw[start:].partition(b"<end>")[0]
    assert written.replace(b"\x1b[22;0t", b"", 1) == data  # the relay saves the title before an agent's first sequence


def test_every_typed_byte_passes_unchanged(agent_dev: AgentDev) -> None:
    data = noise(50_000)
    code = f"stty raw -echo; echo ready; head -c {len(data)} >typed; sha256sum typed; stty sane"
    with agent(agent_dev, "sh", "-c", code) as terminal:
        terminal.wait_for("ready")
        terminal.send(data)
        terminal.wait_for(hashlib.sha256(data).hexdigest())


SIZES = """if True:
    import os, signal
    def tell(*_): os.write(1, b"size %d %d.\\n" % tuple(os.get_terminal_size()))
    signal.signal(signal.SIGWINCH, tell)
    os.write(1, b"ready\\n")
    while True: signal.pause()
"""


def test_a_hundred_resizes_are_forwarded(agent_dev: AgentDev) -> None:
    with agent(agent_dev, PYTHON, "-I", "-c", SIZES) as terminal:
        terminal.wait_for("ready")
        for number in range(100):
            terminal.resize(20 + number % 7, 60 + number)
            terminal.wait_raw(b"size %d %d.\r\n" % (60 + number, 20 + number % 7))


@needs("vim")
def test_a_full_screen_editor_writes_a_file(shell: Shell, agent_dev: AgentDev) -> None:
    shell.start("ad vim -Nu NONE -n new.txt; ls")
    shell.wait_for("new.txt")
    shell.send("ihello from vi\x1b:wq\r")
    shell.wait_prompt()
    assert not shell.screen.is_alternate()
    assert any(agent_dev.state.glob("sessions/*/roots/*/upper/new.txt"))


@needs("vim")
def test_a_stopped_editor_continues(shell: Shell) -> None:
    before = shell.stty()
    shell.send("ad vim -Nu NONE -n new.txt\r")
    shell.wait_for("[New]")
    shell.send("iwritten before\x1b\x1a")
    assert "Stopped" in shell.wait_prompt()
    assert not shell.screen.is_alternate()
    assert shell.stty() == before
    shell.resize(30, 90)
    shell.send("fg\r")
    shell.wait_for("written before")
    shell.send(":q!\r")
    shell.wait_prompt()
    assert shell.stty().replace("rows 30; columns 90", "rows 24; columns 80") == before


@needs("less")
@pytest.mark.parametrize("pipeline", ["ad seq 1000 | less", "seq 1000 | ad less"], ids=["pager outside", "pager inside"])
def test_a_pager_shows_output_across_the_sandbox(shell: Shell, pipeline: str) -> None:
    before = shell.stty()
    shell.send(f"{pipeline}\r")
    shell.wait_for("\n:")
    shell.send("G")
    shell.wait_for("1000")
    shell.send("q")
    shell.wait_prompt()
    assert shell.stty() == before


def test_an_agent_in_a_pipeline_prompts_at_the_terminal(shell: Shell) -> None:
    shell.send("ad bash -c 'read -p \"name? \" name; echo got-$name' | cat\r")
    shell.wait_for("name?")
    shell.send("me\r")
    shell.wait_for("got-me")
    shell.wait_prompt()


def test_ctrl_c_ends_a_pipeline(shell: Shell) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); exec sleep 600' | cat\r")
    shell.wait_for("in-2")
    shell.send("\x03")
    shell.wait_prompt()
    assert shell.run("echo ${PIPESTATUS[0]} again").endswith("again\n")


def test_ctrl_z_stops_a_pipeline_and_fg_continues_it(shell: Shell) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); read line; echo got-$line' | cat\r")
    shell.wait_for("in-2")
    shell.send("\x1a")
    assert "Stopped" in shell.wait_prompt()
    shell.start("fg")
    shell.send("more\r")
    shell.wait_for("got-more")
    shell.wait_prompt()


def test_a_background_job_that_reads_is_stopped_until_it_is_in_the_foreground(shell: Shell) -> None:
    own = shell.foreground()
    shell.run("ad sh -c 'read line; echo got-$line' &")
    wait_until(lambda: "Stopped" in shell.run("jobs"), "the job is shown as stopped")
    assert shell.foreground() == own
    shell.send("fg\r")
    wait_until(lambda: shell.foreground() != own, "the job is in front")
    shell.send("late\r")
    shell.wait_for("got-late")
    shell.wait_prompt()


def test_a_background_job_that_writes_is_stopped_if_tostop_is_set(shell: Shell) -> None:
    shell.run("stty tostop")
    shell.run("ad echo told-$((3+3)) &")
    wait_until(lambda: "Stopped" in shell.run("jobs"), "the job is shown as stopped")
    assert "told-6" not in shell.text().split("jobs")[-1]
    shell.send("stty -tostop; fg\r")
    shell.wait_for("told-6")
    shell.wait_prompt()


def test_sigtstp_to_the_launcher_stops_the_agent_too(shell: Shell) -> None:
    before = shell.stty()
    shell.send("ad bash -c 'echo in-$((1+1)); stty raw; read -n 1 key; stty sane; echo got-$key'\r")
    shell.wait_for("in-2")
    [launcher] = children(shell.pid)
    os.kill(launcher, signal.SIGTSTP)
    assert "Stopped" in shell.wait_prompt()
    assert shell.stty() == before
    shell.start("fg")
    shell.send("k")
    shell.wait_for("got-k")
    shell.wait_prompt()
    assert shell.stty() == before


def test_output_pending_at_a_stop_is_not_lost(shell: Shell) -> None:
    start = len(shell.raw)
    shell.send("ad seq -f '<%.0f>' 77000\r")
    # Nothing reads the terminal in the meantime: its buffer fills, then the relay's, and then seq blocks.
    wait_until(lambda: shell.unread_bytes() >= 4000 and all(map(is_asleep, processes_inside("77000"))), "the terminal is full")
    [launcher] = children(shell.pid)
    os.kill(launcher, signal.SIGTSTP)
    assert "Stopped" in shell.wait_prompt()
    shell.send("fg\r")
    shell.wait_raw(b"<77000>", start=start)
    shell.wait_prompt()
    came = {int(number) for number in re.findall(rb"<(\d+)>", shell.raw[start:])}
    assert len(came) >= 77000 - 1  # the stop may interrupt one number


def is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] == "S"


def test_a_killed_relay_ends_the_run(shell: Shell) -> None:
    shell.send("ad sh -c 'echo in-$((1+1)); exec sleep 600'\r")
    shell.wait_for("in-2")
    [launcher] = children(shell.pid)
    relay = next(pid for pid in children(launcher) if os.getpgid(pid) == os.getpgid(launcher))
    os.kill(relay, signal.SIGKILL)
    shell.wait_prompt()
    assert shell.status == 128 + signal.SIGHUP


def test_a_password_is_not_shown(shell: Shell) -> None:
    shell.send('ad bash -c \'read -rsp "Pass""word: " word; echo; echo length-${#word}\'\r')
    shell.wait_for("Password:")
    shell.send("secret\r")
    shell.wait_for("length-6")
    shell.wait_prompt()
    assert "secret" not in shell.text()


def test_the_terminal_has_a_name_inside_that_can_be_opened(shell: Shell) -> None:
    assert "same" in shell.run("ad sh -c 'echo same >\"$(tty)\"'")


def test_a_program_inside_can_open_its_own_terminals(shell: Shell) -> None:
    assert "inner-7" in shell.run("ad script -qec 'tty >/dev/tty && echo inner-$((3+4))' /dev/null")


@needs("tmux")
def test_tmux_runs_inside(shell: Shell) -> None:
    shell.send("ad tmux -f /dev/null new-session sh\r")
    shell.wait_for("[0]")
    shell.send("echo in-$((20+2))\r")
    shell.wait_for("in-22")
    shell.send("exit\r")
    shell.wait_prompt()
    assert not shell.screen.is_alternate()


def test_without_a_terminal_there_is_none_inside(shell: Shell) -> None:
    log = "out.log"
    shell.run(f"setsid -w {PROGRAM} --no-merge -- sh -c 'echo out; (: >/dev/tty) 2>&1; ls -l /proc/self/fd; cat' >{log} 2>&1")
    text = shell.run(f"cat {log}")
    assert "out" in text
    assert "No such device" in text
    assert "pts" not in text


def test_a_terminal_that_is_not_controlling_is_only_written_to(shell: Shell) -> None:
    reported = shell.run(f"setsid -w {PROGRAM} --no-merge -- sh -c 'cat; test -t 1 || echo no-terminal; echo end-$((2+3))'")
    assert "no-terminal" in reported
    assert "end-5" in reported


def test_a_run_under_nohup_outlives_its_terminal(shell: Shell, agent_dev: AgentDev) -> None:
    shell.run(f"nohup {PROGRAM} --no-merge -- sh -c 'echo x >begun; while [ ! -e ~/go ]; do sleep 0.05; done; echo y >kept' &")
    wait_until(lambda: any(agent_dev.state.glob("sessions/*/roots/*/upper/begun")), "the agent is there")
    try:
        shell.hang_up()
    finally:
        (agent_dev.agent_home / "go").touch()  # else it would never end
    wait_until(lambda: any(agent_dev.state.glob("sessions/*/roots/*/upper/kept")), "the agent went on")


def test_closed_standard_streams_give_no_access_to_the_terminal(shell: Shell) -> None:
    assert shell.run("ad sh -c 'ls -l /proc/self/fd >found' <&- >&- 2>&-") == ""
    assert shell.status == 0


def test_a_launcher_in_an_agents_shell_has_a_terminal_too(shell: Shell) -> None:
    shell.send("ad bash --norc\r")
    shell.wait_for("bash-")
    shell.send("tty; cat\r")
    shell.wait_for("/dev/console")
    shell.send("typed\r\x04")
    shell.wait_for("typed\ntyped")
    shell.send("exit 3\r")
    shell.wait_prompt()
    assert shell.status == 3
