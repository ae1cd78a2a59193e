"""Full-screen programs in the sandbox can be resized, stopped, continued and quit.

They run at a local terminal, over ssh, in a resumed session and in a direct run.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import textual

from tests.harness.program import PROGRAM, PYTHON, AgentDev, wait_until
from tests.harness.terminal import Shell

LIBRARIES = Path(textual.__file__).parents[1]
TEXTUAL_APP = f"""
import sys
sys.path.append({str(LIBRARIES)!r})
from textual.app import App
from textual.widgets import Label

class Sizes(App):
    BINDINGS = [("q", "quit", "Quit"), ("ctrl+z", "suspend_process", "Suspend")]

    def compose(self):
        yield Label("drawn")
        yield Label(id="size")

    def on_resize(self, event):
        self.query_one("#size", Label).update(f"F10 {{event.size.width}} by {{event.size.height}}")

Sizes().run()
"""

# The command, the text that it shows, and the text that it shows in a window of 30 rows and 100 columns.
TOP = ("top", "load average", "load average")
HTOP = ("htop", "F10Quit", "F10Quit")
TEXTUAL = (f"{PYTHON} -I app.py", "F10 80 by 24", "F10 100 by 30")
SAVE_MODES = "stty -g"


@pytest.fixture
def world(agent_dev: AgentDev) -> AgentDev:
    """Return the program in a repository with a Textual program, and a policy that asks before each rmdir."""
    (agent_dev.repo / "app.py").write_text(TEXTUAL_APP)
    config = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    config.mkdir(parents=True)
    (config / "policy.yaml").write_text("guard:\n  rules:\n    - {name: asked, programs: [rmdir], decision: ask}\n")
    return agent_dev


@pytest.fixture
def shell(world: AgentDev) -> Iterator[Shell]:
    """Yield a shell in the repository, with the alias `ad` for a run that merges nothing."""
    with Shell(env=world.terminal_environment(), cwd=world.repo) as running:
        running.run(f"alias ad='{PROGRAM} --no-merge --ro {LIBRARIES} --'; stty iutf8")
        yield running


@contextmanager
def unchanged_modes(shell: Shell) -> Iterator[None]:
    """Assert that a block restores the terminal's modes and leaves the alternate screen."""
    before = shell.run(SAVE_MODES)
    yield
    assert shell.run(SAVE_MODES) == before
    assert not shell.screen.is_alternate()


def use(shell: Shell, command: str, shows: str, shows_large: str) -> None:
    """Start a program, resize it, stop it, continue it in a window of another size, and quit it by `q`."""
    shell.send(f"{command}\r")
    shell.wait_for(shows)
    start = len(shell.raw)
    shell.resize(30, 100)
    shell.wait_raw(b"\x1b[", start=start)  # redrawn
    shell.wait_for(shows_large)
    with_modes = shell.stty()
    shell.keys("ctrl+z")
    assert "Stopped" in shell.wait_prompt()
    assert shell.stty() != with_modes
    assert not shell.screen.is_alternate()
    shell.resize(24, 80)
    shell.run("clear")
    start = len(shell.raw)
    shell.send("fg\r")
    shell.wait_raw(b"\x1b[", start=start)
    shell.wait_for(shows)
    shell.send("q")
    shell.wait_prompt()
    assert shell.status == 0


@pytest.mark.parametrize("program", [TOP, HTOP, TEXTUAL], ids=["top", "htop", "textual"])
def test_a_full_screen_program_can_be_resized_stopped_and_quit(shell: Shell, program: tuple[str, str, str]) -> None:
    command, *shows = program
    with unchanged_modes(shell):
        use(shell, f"ad {command}", *shows)


def test_a_resumed_session_has_a_terminal(shell: Shell, world: AgentDev) -> None:
    world("--no-merge", "--", "touch", "made")
    with unchanged_modes(shell):
        use(shell, f"{PROGRAM} --no-merge resume -- sh -c 'ls made && exec top'", *TOP[1:])
    assert world.changes() == {"made": "added"}


def test_a_direct_run_has_a_terminal(shell: Shell, world: AgentDev) -> None:
    with unchanged_modes(shell):
        use(shell, f"{PROGRAM} --no-merge run --direct -- sh -c 'touch made; exec top'", *TOP[1:])
    assert (world.repo / "made").exists()


ASKING = "sh -c 'mkdir d; (rmdir d; touch answered) & exec top'"


def test_a_question_is_answered_at_a_terminal_while_a_program_runs(shell: Shell, world: AgentDev) -> None:
    with unchanged_modes(shell), Shell(env=world.terminal_environment(), cwd=world.repo) as other:
        shell.send(f"ad {ASKING}\r")
        shell.wait_for("load average")
        wait_until(lambda: questions(world), "rmdir waits for an answer")
        with unchanged_modes(other):
            other.send(f"{PROGRAM} approve\r")
            other.wait_for("approve?")
            other.send("y\r")
            other.wait_prompt()
        # No rglob: it fails at a directory that the command removes meanwhile.
        wait_until(lambda: any(world.state.glob("sessions/*/roots/*/upper/answered")), "the command went on")
        assert shell.screen.is_alternate() or "load average" in shell.text()
        shell.send("q")
        shell.wait_prompt()
    assert world.changes() == {"answered": "added"}


def test_a_question_is_answered_at_the_terminal_of_a_program_that_is_stopped(shell: Shell, world: AgentDev) -> None:
    with unchanged_modes(shell):
        shell.send(f"ad {ASKING}\r")
        shell.wait_for("load average")
        wait_until(lambda: questions(world), "rmdir waits for an answer")
        shell.keys("ctrl+z")
        assert "Stopped" in shell.wait_prompt()
        shell.run(f"{PROGRAM} approve 1")
        assert shell.status == 0
        shell.run("clear")
        shell.send("fg\r")
        shell.wait_for("load average")
        # No rglob: it fails at a directory that the command removes meanwhile.
        wait_until(lambda: any(world.state.glob("sessions/*/roots/*/upper/answered")), "the command went on")
        shell.send("q")
        shell.wait_prompt()


def questions(agent_dev: AgentDev) -> list[dict[str, Any]]:
    done = agent_dev("approve", "--json")
    return list(json.loads(done.stdout)["questions"]) if done.returncode == 0 else []


@pytest.fixture
def over_ssh(world: AgentDev, tmp_path: Path) -> Iterator[Shell]:
    """Yield a shell with the alias `far`, which opens a shell in the repository through a private sshd with its own terminal."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert sshd
    place = tmp_path / "ssh"
    place.mkdir(0o700)
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
    (place / "authorized").write_text((place / "key.pub").read_text())
    (place / "sshd.conf").write_text(
        f"HostKey {place}/host\nAuthorizedKeysFile {place}/authorized\nStrictModes no\nUsePAM no\nPidFile none\n"
        "PasswordAuthentication no\nPermitRootLogin yes\nPrintMotd no\nPrintLastLog no\n"
    )
    (place / "ssh.conf").write_text(
        f"Host far\n  IdentityFile {place}/key\n  IdentitiesOnly yes\n  StrictHostKeyChecking no\n"
        f"  UserKnownHostsFile {place}/known\n  LogLevel ERROR\n  RequestTTY force\n"
        f"  ProxyCommand {sshd} -i -q -f {place}/sshd.conf\n"
    )
    words = " ".join(f"'{name}={value}'" for name, value in world.environment({"TERM": "xterm-256color"}).items())
    (place / "far").write_text(f"#!/bin/sh\ncd '{world.repo}' && exec env -i {words} PS1='FAR$ ' bash --norc -i\n")
    (place / "far").chmod(0o755)
    with separation(), Shell(env=world.terminal_environment(), cwd=world.repo) as running:
        running.run(f"alias far='ssh -F {place}/ssh.conf far {place}/far'; stty iutf8")
        yield running


@contextmanager
def separation() -> Iterator[None]:
    """Create the empty directory that root's sshd needs, which otherwise the system's own service creates."""
    if os.getuid() != 0 or Path("/run/sshd").exists():
        yield
        return
    Path("/run/sshd").mkdir(0o755)
    try:
        yield
    finally:
        Path("/run/sshd").rmdir()


@pytest.mark.only_sshd
@pytest.mark.parametrize("program", [HTOP, TEXTUAL], ids=["htop", "textual"])
def test_a_full_screen_program_over_ssh_can_be_resized_stopped_and_quit(over_ssh: Shell, program: tuple[str, str, str]) -> None:
    command, shows, shows_large = program
    with unchanged_modes(over_ssh):
        over_ssh.send("far\r")
        over_ssh.wait_for("FAR$")
        over_ssh.send(f"stty -g >before; {PROGRAM} --no-merge --ro {LIBRARIES} -- {command}\r")
        over_ssh.wait_for(shows)
        over_ssh.resize(30, 100)
        over_ssh.wait_for(shows_large)
        if program is HTOP:  # it loses a key that comes before it has drawn the larger window, whose last row is its menu
            over_ssh.wait_for(lambda text: len(rows := text.rstrip().splitlines()) == 30 and shows in rows[-1])
        over_ssh.keys("ctrl+z")
        over_ssh.wait_for("Stopped")
        over_ssh.wait_for(lambda text: text.rstrip().endswith("FAR$"))
        over_ssh.resize(24, 80)
        over_ssh.send("stty -g >stopped; clear; fg\r")
        over_ssh.wait_for(shows)
        over_ssh.send("q")
        over_ssh.wait_for(lambda text: text.rstrip().endswith("FAR$"))
        over_ssh.send("echo left-$?; stty -g >after; cmp before stopped && cmp before after && echo same-$((1+1))\r")
        over_ssh.wait_for("left-0")
        over_ssh.wait_for("same-2")
        over_ssh.send("exit\r")
        over_ssh.wait_prompt()
