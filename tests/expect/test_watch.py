"""`agent-dev watch`: the live view on a terminal, and events as lines in a pipe."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.expect.test_person import session
from tests.harness.program import PROGRAM, AgentDev, tree, wait_until
from tests.harness.terminal import Shell

if TYPE_CHECKING:
    import subprocess

POLICY = """\
guard:
  rules:
    - {name: no-touch, programs: [touch], words: [forbidden], decision: deny}
    - {name: ask-touch, programs: [touch], words: [asked], decision: ask}
"""
HOSTILE = [b"\x1b]0;owned\x07", b"\x1b[2J\x1b[31mred", b"a\rb\nc", "\x9b35mcsi".encode(), b"\x9b35mraw", "\u202etxt.exe".encode()]
OPEN, CLOSE = b"\x1b[?1049h", b"\x1b[?1049l"
# The sequences of the view itself: modes, cursor home, clearing, colours.
OWN = re.compile(rb"\x1b\[\?(?:1049|25|7)[hl]|\x1b\[2J|\x1b\[H|\x1b\[K|\x1b\[[0-9]*m")


@pytest.fixture
def guarded(agent_dev: AgentDev) -> AgentDev:
    """Return the program with a rule that denies, and one that asks."""
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "config.yaml").write_text("notify: off\n")
    return agent_dev


@contextmanager
def agent(agent_dev: AgentDev, script: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a script as an agent; yield it once it has printed `ready`. It can `read` lines."""
    with agent_dev.start("--no-merge", *options, "--", "sh", "-c", f"echo ready; {script}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def line(process: "subprocess.Popen[str]") -> None:
    """Give a waiting agent a line."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_terminal_shows_changes_commands_approvals_and_checkpoints(guarded: AgentDev) -> None:
    script = "read x; echo new >new; rm README.md; touch forbidden; touch asked; read x"
    with agent(guarded, script, "--name", "fix") as process, session(guarded, "watch") as terminal:
        terminal.wait_for("checkpoint 1 (start)")
        assert "agent-dev watch  fix  sh -c" in terminal.text()
        assert "Changes 0" in terminal.wait_for("Changes 0")
        line(process)
        # Changes and commands are read one after the other: `rm README.md` may be shown before the file is.
        shown = (
            "Waiting for your answer 1",
            "touch asked",
            "Changes 2",
            "+ added     new",
            "- deleted   README.md",
            "denied: touch forbidden",
        )
        screen = terminal.wait_for(lambda text: all(words in text for words in shown))
        assert screen.splitlines()[-1].startswith("q quit")
        assert guarded("approve", "1").returncode == 0
        terminal.wait_for("approved: touch asked")
        terminal.wait_gone("Waiting for your answer")
        terminal.keys("q")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize("key", ["q", "ctrl+c", "escape"])
def test_a_key_ends_the_view_and_the_terminal_is_restored(agent_dev: AgentDev, key: str) -> None:
    with agent(agent_dev, "read x"), Shell(env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as shell:
        shell.run("echo before")
        modes = shell.run("stty -a")
        shell.start(f"{PROGRAM} watch")
        shell.wait_for("Changes 0")
        assert "before" not in shell.text()
        shell.keys(key)
        shell.wait_prompt()
        assert shell.status == 0
        assert "before" in shell.text()
        assert shell.run("stty -a") == modes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(agent_dev: AgentDev, number: signal.Signals) -> None:
    with agent(agent_dev, "read x"), session(agent_dev, "watch") as terminal:
        terminal.wait_for("Changes 0")
        assert OPEN in terminal.raw
        assert CLOSE not in terminal.raw
        terminal.kill(number)
        assert terminal.wait_exit() == 128 + number
        assert terminal.raw.endswith(CLOSE)
        assert " icanon " in terminal.stty().replace(";", " ").replace("\n", " ")


def test_a_suspended_view_returns_to_the_shell_and_continues(agent_dev: AgentDev) -> None:
    with (
        agent(agent_dev, "read x; echo new >new; read x") as process,
        Shell(env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as shell,
    ):
        shell.start(f"{PROGRAM} watch")
        shell.wait_for("Changes 0")
        shell.keys("ctrl+z")
        shell.wait_prompt()
        assert "Changes 0" not in shell.text()
        line(process)
        shell.start("fg")
        shell.wait_for("+ added     new")
        shell.keys("q")
        shell.wait_prompt()
        assert shell.status == 0


def test_a_resize_redraws_the_view_within_the_new_size(agent_dev: AgentDev) -> None:
    script = "mkdir -p deep/deeper/deepest/of/all/the/directories; for i in 1 2 3; do echo >deep/deeper/deepest/f$i; done; read x"
    with agent(agent_dev, script), session(agent_dev, "watch") as terminal:
        terminal.wait_for("Changes ")
        terminal.wait_for("f3")
        terminal.resize(10, 30)
        terminal.wait_for(lambda text: all(words in text for words in ("…", "f3", "q quit", "Changes 4")))
        terminal.resize(40, 120)
        terminal.wait_for("deep/deeper/deepest/f3")
        terminal.wait_for(lambda text: text.splitlines()[39:40] != [] and text.splitlines()[39].startswith("q quit"))
        terminal.resize(2, 5)
        terminal.wait_for(lambda text: text.splitlines()[1:2] == ["q qu…"])


def test_an_unchanged_view_writes_nothing(agent_dev: AgentDev) -> None:
    with agent(agent_dev, "read x"), session(agent_dev, "watch") as terminal:
        terminal.wait_for("checkpoint 1 (start)")
        terminal.wait_for("Changes 0")
        terminal.wait_quiet(2.5)  # two looks


def test_the_end_of_the_session_ends_the_view(agent_dev: AgentDev) -> None:
    with agent(agent_dev, "read x; echo new >new; exit 3", "--name", "fix") as process, session(agent_dev, "watch") as terminal:
        terminal.wait_for("Changes 0")
        line(process)
        assert terminal.wait_exit() == 0
        assert "session fix has ended with exit status 3, waiting; next: agent-dev merge fix" in terminal.text().replace("\n", "")
        assert terminal.raw.count(CLOSE) == 1


def test_a_session_without_changes_ends_as_removed(agent_dev: AgentDev) -> None:
    with agent(agent_dev, "read x", "--name", "fix") as process, agent_dev.start("watch", "--json") as watch:
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["event"] == "session"
        line(process)
        end = json.loads(watch.communicate(timeout=30)[0].splitlines()[-1])
        assert {**end, "time": 0, "session": ""} == {
            "event": "end",
            "time": 0,
            "session": "",
            "state": "removed",
            "exit": None,
            "next": None,
        }
        assert watch.returncode == 0


def test_a_pipe_gets_one_line_per_event_in_order(guarded: AgentDev, tmp_path: Path) -> None:
    script = "read x; echo new >new; ls >/dev/null; touch forbidden; touch asked; rm new README.md; read x; exit 4"
    printed = tmp_path / "printed"
    with printed.open("w") as output, agent(guarded, script, "--name", "fix") as process:
        wait_until(lambda: "sh -c" in guarded("log", "fix", "--commands").stdout, "the first command is logged")
        wait_until(lambda: "checkpoint 1" in guarded("log", "fix").stdout, "the first checkpoint is logged")
        with guarded.start("watch", stdout=output) as watch:
            wait_until(lambda: "checkpoint 1" in printed.read_text(), "the past events are printed")
            assert [row.split()[1] for row in printed.read_text().splitlines()] == ["session", "command", "checkpoint"]
            line(process)
            wait_until(lambda: "  1: touch asked" in printed.read_text(), "the question is printed")
            wait_until(lambda: "added  new" in printed.read_text(), "the new file is printed")
            assert guarded("approve", "--deny", "1").returncode == 0
            wait_until(lambda: "reverted" in printed.read_text(), "the reverted change is printed")
            line(process)
            assert watch.wait(30) == 0
    rows = printed.read_text().splitlines()
    texts = [re.sub(r"^\d\d:\d\d:\d\d  (\S+) +", r"\1 ", row) for row in rows]
    wanted = [
        "change added  new",
        "command ls",
        "command denied: touch forbidden",
        "approval 1: touch asked  (agent-dev approve 1)",
        "command denied by you: touch asked",
        "command rm new README.md",
        "reverted added  new",
        "change deleted  README.md",
        "end session fix has ended with exit status 4, waiting; next: agent-dev merge fix",
    ]
    assert set(wanted) <= set(texts)
    ordered = [text for text in texts if text.startswith(("command", "approval", "end"))]
    assert [text for text in ordered if text in wanted] == [
        text for text in wanted if text.startswith(("command ls", "command denied: ", "approval"))
    ] + [text for text in wanted[4:] if text.startswith(("command", "end"))]


def test_json_has_one_object_per_event(guarded: AgentDev) -> None:
    script = "read x; echo new >new; mv README.md READ.md; exit 0"
    with agent(guarded, script, "--name", "fix") as process, guarded.start("watch", "fix", "--json") as watch:
        assert watch.stdout is not None
        watch.stdout.readline()
        line(process)
        rows = [json.loads(row) for row in watch.communicate(timeout=30)[0].splitlines()]
    changes = [(row["kind"], row["path"], row["from"]) for row in rows if row["event"] == "change"]
    assert sorted(changes) == [("added", "new", None), ("renamed", "READ.md", "README.md")]
    assert all(row["time"] > 10**18 for row in rows)
    end = rows[-1]
    assert (end["event"], end["state"], end["exit"], end["next"]) == ("end", "waiting", 0, "agent-dev merge fix")


def watch_both(agent_dev: AgentDev, process: "subprocess.Popen[str]", words: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Watch a hostile session to its end; return what the terminal got, and what the pipe got."""
    with session(agent_dev, "watch", *words) as terminal, agent_dev.start("watch", *words) as pipe:
        terminal.wait_for(lambda text: "Changes 6" in text and "touch asked" in text)
        line(process)
        printed = pipe.communicate(timeout=30)[0].encode("utf-8", "surrogateescape")
        terminal.wait_exit()
        return terminal.raw.replace(b"\r", b""), printed


@pytest.mark.parametrize("words", [(), ("--color", "always")])
def test_hostile_names_and_commands_send_no_sequences(guarded: AgentDev, words: tuple[str, ...]) -> None:
    names = ", ".join(f"bytes.fromhex('{name.hex()}')" for name in HOSTILE)
    code = f"""if True:
        import subprocess
        print("ready", flush=True)
        for name in ({names}):
            open(name, "wb").close()
            subprocess.run([b"/bin/true", name])
        subprocess.run([b"/bin/sh", b"-c", b'touch forbidden "$@"', b"sh", name])
        subprocess.Popen([b"/bin/sh", b"-c", b'touch asked "$@"', b"sh", {names}])
        input()
    """
    with guarded.start("--no-merge", "--", "/usr/bin/python3", "-c", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        outputs = watch_both(guarded, process, words)
    for output in outputs:
        rest = OWN.sub(b"", output).decode("utf-8")
        assert [char for char in rest if (not char.isprintable() and char != "\n") or char == "\u202e"] == []
    assert all(row[:9].count(":") == 2 for row in OWN.sub(b"", outputs[1]).decode().splitlines())


def test_a_pipe_that_is_closed_early_ends_the_view(agent_dev: AgentDev) -> None:
    with agent(agent_dev, "read x"), agent_dev.start("watch") as watch:
        assert watch.stdout is not None
        watch.stdout.readline()
        watch.stdout.close()  # no event follows
        assert watch.wait(10) == 141
        assert watch.stderr is not None
        assert watch.stderr.read() == ""


def test_of_two_sessions_the_user_selects_one(agent_dev: AgentDev) -> None:
    with agent(agent_dev, "read x", "--name", "one"), agent(agent_dev, "read x", "--name", "two"):
        done = agent_dev("watch", timeout=20)
        assert done.returncode == 2
        assert done.stderr == "agent-dev: several sessions are running: one, two\nagent-dev: hint: agent-dev watch two\n"
        with session(agent_dev, "watch") as terminal:
            terminal.wait_for("watch which session? [1-2, enter: none]")
            terminal.wait_quiet()
            terminal.send("1\r")
            terminal.wait_for("agent-dev watch  one")
            terminal.keys("q")
            assert terminal.wait_exit() == 0
        with session(agent_dev, "watch", "two") as terminal:
            terminal.wait_for("agent-dev watch  two")


def test_without_a_running_session_the_next_command_is_named(agent_dev: AgentDev) -> None:
    done = agent_dev("watch")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0].startswith("agent-dev: no running session for ")
    assert done.stderr.splitlines()[1] == "agent-dev: hint: agent-dev AGENT starts one"
    agent_dev.ended_session("echo new >new", "--name", "fix")
    assert "hint: agent-dev merge fix reviews an ended session\n" in agent_dev("watch").stderr
    done = agent_dev("watch", "fix")
    assert (done.returncode, done.stderr) == (
        1,
        "agent-dev: session fix is waiting, not running\nagent-dev: hint: agent-dev merge fix\n",
    )


def test_watching_changes_nothing(agent_dev: AgentDev) -> None:
    with agent(agent_dev, "echo new >new; rm README.md; read x"):
        wait_until(lambda: list(agent_dev.state.glob("sessions/*/checkpoints/1*")), "the first checkpoint")
        with session(agent_dev, "watch") as terminal:
            terminal.wait_for("Changes 2")
            before = tree(agent_dev.state), tree(agent_dev.repo)
            terminal.wait_quiet(2.5)
            assert (tree(agent_dev.state), tree(agent_dev.repo)) == before


def test_changes_appear_while_the_command_log_is_long(agent_dev: AgentDev) -> None:
    script = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done; echo new >new; read x"
    with agent(agent_dev, script), session(agent_dev, "watch") as terminal:
        terminal.wait_for("+ added     new")
        terminal.wait_for(lambda text: "Commands 401" in text)
