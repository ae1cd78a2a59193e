"""The size of a terminal, also of one that does not know it, as over some serial lines and in some containers."""

import os
import termios
from types import SimpleNamespace
from typing import Any

import pytest

from tui.terminal.driver import WakeableDriver


@pytest.mark.parametrize(("size", "expected"), [((30, 100), (100, 30)), ((0, 0), (80, 25)), ((0, 120), (120, 25))])
def test_an_unknown_size_is_the_one_that_rich_assumes(size: tuple[int, int], expected: tuple[int, int]) -> None:
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, size)
    driver: Any = SimpleNamespace(fileno=slave)
    assert WakeableDriver._get_terminal_size(driver) == expected
    os.close(master)
    os.close(slave)
