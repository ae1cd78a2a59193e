"""Alerts of a command that waits for an answer: the terminal's bell, a desktop notification, and `approve` on a terminal."""

import os
import time
from pathlib import Path

import pytest

from tests.expect.test_person import session
from tests.harness.program import PATIENCE, AgentDev, processes, wait_until
from tests.harness.servers.notifications import notification_desktop
from tests.harness.terminal import Terminal

POLICY = """\
guard:
  rules:
    - {name: ask-touch, programs: [touch], words: [asked], decision: ask}
"""
QUESTION = b"touch waits for the user's approval (agent-dev approve), at most 120 s\r\n"
BELL = b"\a"
# Writes its pid namespace, its open files and its arguments; then it hangs.
NOTIFY_SEND = """\
#!/bin/sh
readlink /proc/$$/fd/* >{folder}/files  # without a pipe, which the shell itself may still have open
{{ readlink /proc/self/ns/pid; tr '\n' ' ' <{folder}/files; echo; printf '%s\\n' "$@"; }} >{folder}/new
mv {folder}/new {folder}/notified
exec sleep 61.5
"""


class Desk:
    """A user's desktop, whose `notify-send` records what it is given."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record = folder, folder / "notified"
        program = folder / "bin" / "notify-send"
        program.parent.mkdir()
        program.write_text(NOTIFY_SEND.format(folder=folder))
        program.chmod(0o755)

    def received(self) -> list[str]:
        """Wait for a notification; return its lines."""
        wait_until(self.record.exists, "the notification is sent")
        return self.record.read_text().splitlines()


@pytest.fixture
def asking(agent_dev: AgentDev) -> AgentDev:
    """Return the program with a rule that asks."""
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text(POLICY)
    return agent_dev


@pytest.fixture
def desk(asking: AgentDev, tmp_path: Path) -> Desk:
    """Return a desktop with a display, for the user of `asking`."""
    (tmp_path / "desk").mkdir()
    found = Desk(tmp_path / "desk")
    asking.env |= {"PATH": f"{found.folder}/bin:{asking.env['PATH']}", "DISPLAY": ":99"}
    return found


def configure(agent_dev: AgentDev, text: str) -> None:
    """Write config.yaml."""
    (Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml").write_text(text)


def run(agent_dev: AgentDev, script: str) -> Terminal:
    """Run a script as an agent on a terminal."""
    return session(agent_dev, "--no-merge", "--", "sh", "-c", script)


def test_a_question_rings_the_bell_once_and_prints_nothing_else(asking: AgentDev) -> None:
    configure(asking, "notify: bell\nnotify_idle_seconds: 1\n")
    with run(asking, "printf begun; touch asked; printf over; read x") as terminal:
        after = terminal.wait_raw(QUESTION)
        assert terminal.wait_raw(BELL, start=after) == after + 1
        terminal.wait_quiet(2.5)  # an agent that waits for the user is not idle
        assert asking("approve", "1").returncode == 0
        terminal.wait_for("over")
        assert terminal.raw.count(BELL) == 1
        assert terminal.raw[after + 1 :] == b"over"


@pytest.mark.parametrize(
    ("begun", "completed"),
    [("\\033]0;ti", "tle\\033\\\\"), ("\\033P1$r", "\\033\\\\"), ("\\033[3", "1m"), ("caf\\303", "\\251")],
    ids=["title", "device control", "colour", "character"],
)
def test_the_bell_waits_while_a_sequence_is_incomplete(asking: AgentDev, begun: str, completed: str) -> None:
    configure(asking, "notify: bell\n")
    with run(asking, f"stty -echo; printf '{begun}'; touch asked 2>/dev/null & read x; printf '{completed}'; read x") as terminal:
        wait_until(lambda: asking.sessions()[0]["approvals"] if asking.sessions() else 0, "the question is asked")
        terminal.wait_quiet(0.6)
        assert BELL not in terminal.raw
        terminal.keys("enter")
        terminal.wait_raw(BELL)
        assert terminal.raw.count(BELL) == 1
        assert (begun + completed).encode().decode("unicode_escape").encode("latin-1") in terminal.raw


def test_the_notification_is_sent_outside_and_its_text_is_harmless(asking: AgentDev, desk: Desk) -> None:
    script = "touch asked '<b>bold</b>&\\n' \"$(printf '\\033[31mred\\007')\" --token=hidden42 $(seq 500)"
    with run(asking, script):
        namespace, files, *arguments = desk.received()
    assert namespace == os.readlink("/proc/self/ns/pid")
    assert {path for path in files.split() if not path.startswith(str(desk.folder))} == {"/dev/null"}
    assert arguments[:3] == ["--app-name=agent-dev", "--", "agent-dev: a command waits for your approval"]
    text = arguments[3]
    assert text.startswith("touch asked &lt;b&gt;bold&lt;/b&gt;&amp;\\\\n ␛[31mred␇ --token=*** 1 2 3 ")
    assert text.endswith("…")
    assert len(text) < 250
    assert len(arguments) == 4


def test_a_notification_that_hangs_delays_nothing_and_is_ended(asking: AgentDev, desk: Desk) -> None:
    with run(asking, "touch asked; echo over; read x") as terminal:
        desk.received()
        start = time.monotonic()
        assert asking("approve", "1").returncode == 0
        terminal.wait_for("over")
        assert time.monotonic() - start < 9  # the hanging program ends after ten seconds
        wait_until(lambda: not processes("sleep\x0061.5"), "it is ended", patience=PATIENCE)


@pytest.mark.parametrize(
    ("notify", "bells", "notifications"),
    [("off", 0, 0), ("bell", 1, 0), ("desktop", 0, 1), ("[]", 0, 0), ("[desktop, bell]", 1, 1)],
)
def test_the_setting_selects_the_alerts(asking: AgentDev, desk: Desk, notify: str, bells: int, notifications: int) -> None:
    configure(asking, f"notify: {notify}\n")
    with run(asking, "touch asked; echo over; read x") as terminal:
        terminal.wait_raw(QUESTION)
        if notifications:
            desk.received()
        terminal.wait_quiet()
        asking("approve", "1")
        terminal.wait_for("over")
        assert terminal.raw.count(BELL) == bells
    assert desk.record.exists() == bool(notifications)


def test_without_a_desktop_no_notification_is_sent(asking: AgentDev, desk: Desk) -> None:
    del asking.env["DISPLAY"]
    with run(asking, "touch asked; echo over; read x") as terminal:
        terminal.wait_raw(BELL)
        asking("approve", "1")
        terminal.wait_for("over")
    assert not desk.record.exists()


def test_no_program_that_the_agent_can_write_is_run(asking: AgentDev, desk: Desk) -> None:
    folder = asking.repo / "bin"
    (desk.folder / "bin").rename(folder)
    asking.env["PATH"] = f"{folder}:{asking.env['PATH']}"
    with run(asking, "touch asked; echo over; read x") as terminal:
        terminal.wait_raw(BELL)
        asking("approve", "1")
        terminal.wait_for("over")
    assert not desk.record.exists()


def test_without_a_terminal_the_output_has_no_bell(asking: AgentDev) -> None:
    with asking.start("--no-merge", "--", "sh", "-c", "touch asked; echo over") as process:
        wait_until(lambda: list(asking.state.glob("sessions/*/asks/1.json")), "the question is asked")
        assert asking("approve", "1").returncode == 0
        output, errors = process.communicate(timeout=30)
    assert output == "over\n"
    assert "\a" not in errors


def test_sessions_and_the_overview_show_waiting_approvals(asking: AgentDev) -> None:
    with asking.start("--no-merge", "--name", "fix", "--", "sh", "-c", "touch asked") as process:
        wait_until(lambda: list(asking.state.glob("sessions/*/asks/1.json")), "the question is asked")
        assert asking("sessions").stdout.endswith("  1 command waiting (agent-dev approve)\n")
        assert asking.sessions()[0]["approvals"] == 1
        assert "approvals  1 command waits in fix" in asking().stdout
        asking("approve", "1")
        process.communicate(timeout=30)
    assert "waiting (agent-dev" not in asking("sessions").stdout
    assert asking.sessions()[0]["approvals"] == 0


@pytest.mark.parametrize(("key", "answered"), [("y", "yes"), ("n", "no"), ("", "no")])
def test_approve_asks_about_each_command_on_a_terminal(asking: AgentDev, key: str, answered: str) -> None:
    with run(asking, "touch asked && echo yes || echo no; read x") as agent:
        agent.wait_raw(QUESTION)
        with session(asking, "approve") as terminal:
            terminal.wait_for("approve? [y/N]")
            terminal.wait_quiet()  # keys typed before the question are dropped
            terminal.send(f"{key}\r")
            assert terminal.wait_exit() == 0
        agent.wait_for(f"\n{answered}")


def test_ctrl_d_leaves_a_question_unanswered(asking: AgentDev) -> None:
    with run(asking, "touch asked; echo over; read x") as agent:
        agent.wait_raw(QUESTION)
        with session(asking, "approve") as terminal:
            terminal.wait_for("approve? [y/N]")
            terminal.wait_quiet()
            terminal.keys("ctrl+d")
            assert terminal.wait_exit() == 0
            assert "not answered: it still waits" in terminal.text()
        assert asking.sessions()[0]["approvals"] == 1


# The end of a run


@pytest.fixture
def slept(desk: Desk, asking: AgentDev) -> Desk:
    """Return the desktop of a user whose runs of a second or more are announced."""
    configure(asking, "notify: [bell, desktop, terminal]\nnotify_end_seconds: 1\n")
    return desk


SLEEP = "printf begun; sleep 1.2; touch new; exit 3"


def absent(terminal: Terminal) -> None:
    """Make the user have typed nothing for an hour."""
    slave = terminal.slave_path()
    os.utime(slave, (time.time() - 3600, os.stat(slave).st_mtime))


def test_the_end_of_a_long_run_is_announced(asking: AgentDev, slept: Desk) -> None:
    with run(asking, SLEEP) as terminal:
        terminal.wait_for("begun")
        absent(terminal)
        namespace, files, *arguments = slept.received()
        assert terminal.wait_exit() == 3
        text = f"sh has ended, exit code 3, in {asking.repo.name}: 1 change"
        assert terminal.raw.count(b"\x1b]777;notify;agent-dev;" + text.encode() + b"\x1b\\") == 1
        assert terminal.raw.count(b"\x1b]9;agent-dev: " + text.encode() + b"\x1b\\") == 1
        assert BELL in terminal.raw
    assert arguments == ["--app-name=agent-dev", "--", "agent-dev", text]
    assert namespace == os.readlink("/proc/self/ns/pid")
    assert {path for path in files.split() if not path.startswith(str(slept.folder))} == {"/dev/null"}


@pytest.mark.parametrize("how", ["typing", "short", "off"])
def test_a_user_who_is_there_is_not_alerted_of_the_end(asking: AgentDev, slept: Desk, how: str) -> None:
    if how == "off":
        configure(asking, "notify_end_seconds: 0\n")
    with run(asking, "printf begun; touch new" if how == "short" else SLEEP) as terminal:
        terminal.wait_for("begun")
        if how != "typing":
            absent(terminal)
        terminal.wait_exit()
        assert BELL not in terminal.raw
        assert b"\x1b]777" not in terminal.raw
    assert not slept.record.exists()


def test_a_command_of_the_users_is_run_for_the_end(asking: AgentDev, slept: Desk) -> None:
    program = slept.folder / "bin" / "notify-send"
    program.rename(slept.folder / "bin" / "my-alert")
    configure(asking, f"notify: off\nnotify_command: [{slept.folder}/bin/my-alert, --now]\nnotify_end_seconds: 1\n")
    done = asking("--no-merge", "--", "sh", "-c", "sleep 1.2")  # without a terminal
    assert done.returncode == 0
    assert slept.received()[2:] == ["--now", "agent-dev", f"sh has ended in {asking.repo.name}: no changes"]


def test_an_announcement_survives_the_end_of_its_terminal(asking: AgentDev, slept: Desk) -> None:
    """The kernel hangs up the foreground of a session when its leader exits: here the launcher, as in `xterm -e agent-dev`."""
    program = slept.folder / "bin" / "my-alert"
    program.write_text(f"#!/bin/sh\nwhile kill -0 $PPID 2>/dev/null; do sleep 0.05; done\necho sent >{slept.record}\n")
    program.chmod(0o755)
    configure(asking, f"notify: off\nnotify_command: [{program}]\nnotify_end_seconds: 1\n")
    with run(asking, SLEEP) as terminal:
        terminal.wait_for("begun")
        absent(terminal)
        assert terminal.wait_exit() == 3
    assert slept.received() == ["sent"]


def test_no_command_that_the_agent_can_write_is_run_for_the_end(asking: AgentDev, slept: Desk) -> None:
    folder = asking.repo / "bin"
    (slept.folder / "bin").rename(folder)
    configure(asking, f"notify: off\nnotify_command: [{folder}/notify-send]\nnotify_end_seconds: 1\n")
    assert asking("--no-merge", "--", "sh", "-c", "sleep 1.2").returncode == 0
    assert not slept.record.exists()


# An idle agent


def test_an_idle_agent_is_announced_once_until_it_works_again(asking: AgentDev, desk: Desk) -> None:
    configure(asking, "notify: [bell, desktop]\nnotify_idle_seconds: 2\nnotify_end_seconds: 0\n")
    with run(asking, "printf begun; read x; printf more; exec sleep 61.7") as terminal:
        terminal.wait_for("begun")
        arguments = desk.received()[2:]
        assert arguments[2:] == ["agent-dev", f"sh has been idle in {asking.repo.name} for 2 s"]
        terminal.wait_raw(BELL)
        terminal.wait_quiet(4.0)
        assert terminal.raw.count(BELL) == 1


def test_a_working_agent_is_not_idle(asking: AgentDev, desk: Desk) -> None:
    configure(asking, "notify: [bell, desktop]\nnotify_idle_seconds: 2\nnotify_end_seconds: 0\n")
    with run(asking, "printf begun; while :; do :; done") as terminal:
        terminal.wait_for("begun")
        terminal.wait_quiet(6.0)
        assert BELL not in terminal.raw
    assert not desk.record.exists()


# A real desktop


@pytest.mark.only_dunst
def test_a_desktop_shows_a_question_an_idle_agent_and_an_end(asking: AgentDev, tmp_path: Path) -> None:
    """On a busy machine, the agent may also be idle before its question, and again after the command that joins."""
    configure(asking, "notify: desktop\nnotify_idle_seconds: 1\nnotify_end_seconds: 1\n")
    place = asking.repo.name
    question = ("agent-dev: a command waits for your approval", "touch asked &lt;b&gt;")
    idle, ended = ("agent-dev", f"sh has been idle in {place} for 1 s"), ("agent-dev", f"sh has ended in {place}: 3 changes")
    with notification_desktop(tmp_path) as desktop:
        asking.env |= desktop.environ
        with run(asking, "mkfifo end; touch asked '<b>' 2>/dev/null; printf begun; read x <end") as terminal:
            wait_until(lambda: question in desktop.shown(), "the question is shown")
            assert asking("approve", "1").returncode == 0
            terminal.wait_for("begun")
            wait_until(lambda: idle in desktop.shown(), "the idle agent is shown")
            absent(terminal)
            asking("exec", "--", "sh", "-c", "echo >end")  # the end of the session may kill it before it exits
            assert terminal.wait_exit() == 0
        wait_until(lambda: ended in desktop.shown(), "the end is shown")
        assert {*desktop.shown()} == {question, idle, ended}
        assert desktop.shown().count(question) == desktop.shown().count(ended) == 1
