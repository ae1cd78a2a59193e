"""The user's terminal modes after a shell took back a terminal that a killed launcher had left raw.

The modes that shells set were read with bash, zsh 5.9 and fish 3.6.
"""

import os
import termios
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest

from agent_dev.sandbox.terminal import modes
from agent_dev.sandbox.terminal.modes import Modes, as_raw, restore_after_shell
from tests.harness.program import wait_until

# input, output and local flags at the prompt, and for the next command, after the shell found the terminal raw
ZSH = ((termios.ISTRIP | termios.INLCR, 0o4, 0xA30), (0, 0o4, 0xA3A))
BASH = (termios.IXON, 0o5, 0x8A31)  # at the prompt, after it restored the user's modes itself
FISH = ((0, 0o5, 0xA31), (termios.ICRNL, 0o5, 0x8A3A))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield a descriptor of a terminal with the modes that a new one has."""
    monkeypatch.setattr(modes, "_COMMAND_TIMEOUT", 60.0)  # a thread cannot be ended if a test fails
    master, slave = os.openpty()
    yield slave
    os.close(master)
    os.close(slave)


def set_flags(terminal: int, flags: tuple[int, int, int]) -> Modes:
    """Set input, output and local flags as a shell does; return these modes."""
    changed: Modes = deepcopy(termios.tcgetattr(terminal))
    changed[0], changed[1], changed[3] = flags
    termios.tcsetattr(terminal, termios.TCSANOW, changed)
    return changed


@pytest.mark.parametrize(("at_prompt", "for_command"), [ZSH, FISH], ids=["zsh", "fish"])
def test_the_modes_of_the_next_command_are_restored(
    terminal: int, at_prompt: tuple[int, int, int], for_command: tuple[int, int, int]
) -> None:
    user_modes = termios.tcgetattr(terminal)
    termios.tcsetattr(terminal, termios.TCSANOW, as_raw(user_modes))
    set_flags(terminal, at_prompt)
    with ThreadPoolExecutor() as pool:
        done = pool.submit(restore_after_shell, terminal, user_modes)
        wait_until(lambda: termios.tcgetattr(terminal)[1] & termios.OPOST, "lines at the prompt begin at its left")
        assert not done.done()
        set_flags(terminal, for_command)
        wait_until(lambda: termios.tcgetattr(terminal) == user_modes, "the command has the user's modes")
        done.result(20)


def test_a_command_that_has_its_modes_keeps_them(terminal: int) -> None:
    user_modes = termios.tcgetattr(terminal)
    set_flags(terminal, FISH[0])
    with ThreadPoolExecutor() as pool:
        done = pool.submit(restore_after_shell, terminal, user_modes)
        # Another setting of the user, such as `stty -echo` in a startup file of the shell.
        own = set_flags(terminal, (termios.ICRNL, 0o5, 0x8A3B & ~termios.ECHO))
        done.result(20)
    assert termios.tcgetattr(terminal)[:4] == own[:4]


def test_an_editor_keeps_its_modes(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    group, looks = [1], Counter[int]()  # the shell is in the foreground, then an editor

    def foreground(_: int) -> int:
        looks[group[0]] += 1
        return group[0]

    monkeypatch.setattr(modes, "_foreground", foreground)
    user_modes = termios.tcgetattr(terminal)
    set_flags(terminal, ZSH[0])
    with ThreadPoolExecutor() as pool:
        done = pool.submit(restore_after_shell, terminal, user_modes)
        wait_until(lambda: termios.tcgetattr(terminal)[1] & termios.OPOST, "the prompt is restored")
        group[0] = 2
        own = set_flags(terminal, ZSH[0])
        wait_until(lambda: looks[2] > 3, "the editor's modes were looked at")
        found = termios.tcgetattr(terminal)
        termios.tcsetattr(terminal, termios.TCSANOW, user_modes)  # the editor has ended
        done.result(20)
    assert found[:4] == own[:4]


def test_a_prompt_with_modes_of_its_own_keeps_them(terminal: int) -> None:
    user_modes = termios.tcgetattr(terminal)
    own = set_flags(terminal, BASH)
    restore_after_shell(terminal, user_modes)
    assert termios.tcgetattr(terminal)[:4] == own[:4]


def test_a_raw_terminal_of_a_shell_without_an_editor_is_restored(terminal: int) -> None:
    user_modes = termios.tcgetattr(terminal)
    termios.tcsetattr(terminal, termios.TCSANOW, as_raw(user_modes))
    restore_after_shell(terminal, user_modes)
    assert termios.tcgetattr(terminal) == user_modes
