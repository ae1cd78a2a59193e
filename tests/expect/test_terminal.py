"""The test harness's terminal: the screen, the input, and the results that it returns."""

import signal
import sys
from pathlib import Path

import pytest

from tests.harness.screen import SequenceFilter
from tests.harness.terminal import Shell, Terminal

STRANGE = b"a\x1b[<ub\x1b[>4;1mc\x1b[=1;2ud\x1b[4:3me\x1bP+q544e\x1b\\f\x1b[1mg\x1b[0m"
PLAIN = b"abcdef\x1b[1mg\x1b[0m"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_screen_shows_the_output_of_a_program() -> None:
    with Terminal(["printf", "one\\n\\033[2mtwo\\033[0m words\\n"]) as terminal:
        terminal.wait_for("two words")
        assert terminal.text().splitlines()[:2] == ["one", "two words"]


def test_a_program_has_the_size_of_the_window() -> None:
    with Terminal(["stty", "size"], rows=30, cols=100) as terminal:
        assert terminal.wait_exit() == 0
        assert terminal.text().startswith("30 100\n")


def test_a_resize_arrives_with_sigwinch() -> None:
    code = """if True:
        import os, signal, threading
        signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"%d %d\\r\\n" % tuple(os.get_terminal_size())))
        print("ready", flush=True)
        while True: signal.pause()
    """
    with Terminal(python(code)) as terminal:
        terminal.wait_for("ready")
        terminal.resize(11, 47)
        terminal.wait_for("47 11")
        assert "rows 11; columns 47" in terminal.stty()


def test_a_full_screen_program_restores_the_screen() -> None:
    with Shell() as shell:
        shell.run("echo before")
        shell.run("printf '\\033[?1049h\\033[H\\033[Jinside'")
        assert "inside" in shell.text()
        assert "before" not in shell.text()
        shell.run("printf '\\033[?1049l'")
        assert "before" in shell.text()


def test_typed_text_arrives() -> None:
    with Terminal(["cat"]) as terminal:
        terminal.keys("h", "i", "space", "?", "enter")
        terminal.wait_for("hi ?\nhi ?")
        terminal.keys("ctrl+d")
        assert terminal.wait_exit() == 0


def test_more_text_is_typed_than_the_terminal_buffers() -> None:
    with Shell() as shell:
        shell.run("stty -echo")
        shell.start("wc -c")
        shell.send((b"x" * 99 + b"\n") * 500)
        shell.keys("ctrl+d")
        assert shell.wait_prompt().strip() == "50000"


@pytest.mark.parametrize("code", [0, 1, 125])
def test_an_exit_code_is_reported(code: int) -> None:
    with Terminal(["sh", "-c", f"exit {code}"]) as terminal:
        assert terminal.wait_exit() == code


def test_a_signal_is_reported_as_128_and_its_number() -> None:
    with Terminal(["sleep", "60"]) as terminal:
        terminal.kill(signal.SIGTERM)
        assert terminal.wait_exit() == 128 + signal.SIGTERM


def test_a_hangup_reaches_the_program() -> None:
    with Terminal(["sh", "-c", "echo ready; exec sleep 60"]) as terminal:
        terminal.wait_for("ready")
        terminal.hang_up()
        assert terminal.wait_exit() == 128 + signal.SIGHUP


def test_a_program_that_ignores_the_hangup_is_killed() -> None:
    with Terminal(["sh", "-c", "trap '' HUP; echo ready; sleep 60"]) as terminal:
        terminal.wait_for("ready")
    assert not terminal.is_alive()


def test_a_wait_that_fails_shows_the_screen() -> None:
    with Terminal(["sh", "-c", "echo on the screen; cat"]) as terminal:
        terminal.wait_for("on the screen")
        with pytest.raises(AssertionError, match=r"'something else' did not appear(.|\n)*on the screen"):
            terminal.wait_for("something else", timeout=0.1)


def test_a_wait_ends_when_the_program_does() -> None:
    with (
        Terminal(["true"]) as terminal,
        pytest.raises(AssertionError, match="has left the terminal"),
    ):
        terminal.wait_for("never")


@pytest.mark.parametrize("size", range(1, len(STRANGE) + 1))
def test_the_filter_does_not_depend_on_how_the_output_is_split(size: int) -> None:
    filter_ = SequenceFilter()
    chunks = [STRANGE[at : at + size] for at in range(0, len(STRANGE), size)]
    assert b"".join(map(filter_.feed, chunks)) == PLAIN


def test_a_cursor_position_query_is_answered() -> None:
    code = r"""if True:
        import sys, tty
        tty.setcbreak(0)
        print("ab\x1b[6n", end="", flush=True)
        while (key := sys.stdin.read(1)) != "R": print(repr(key), end="", flush=True)
    """
    with Terminal(python(code)) as terminal:
        terminal.wait_for(r"'\x1b''[''1'';''3'")


def test_the_shell_returns_the_output_and_status_of_a_command(tmp_path: Path) -> None:
    with Shell(cwd=tmp_path) as shell:
        assert shell.run("echo one; echo two; (exit 7)") == "one\ntwo\n"
        assert shell.status == 7
        assert shell.run("pwd") == f"{tmp_path}\n"
        assert shell.text().rstrip().endswith(f"\n{shell.PROMPT.rstrip()}")


def test_the_shell_does_not_return_its_prompt() -> None:
    with Shell() as shell:
        assert shell.run("env | grep -c -e PS1 -e PROMPT_COMMAND") == "0\n"


def test_the_foreground_is_the_job_and_then_the_shell_again() -> None:
    with Shell() as shell:
        assert shell.foreground() == shell.pid
        job = shell.start("sleep 60")
        assert job != shell.pid
        shell.keys("ctrl+z")
        assert "Stopped" in shell.wait_prompt()
        assert shell.foreground() == shell.pid
        assert shell.start("fg") == job
        shell.keys("ctrl+c")
        shell.wait_prompt()
        assert shell.status == 128 + signal.SIGINT


def test_a_resize_adds_no_second_prompt_to_the_output() -> None:
    with Shell() as shell:
        shell.resize(40, 120)
        assert shell.run("stty size") == "40 120\n"
