"""The programs outside that read the clipboard: their output is bounded in size and time."""

import os

import pytest

from agent_dev.clipboard import programs

ENVIRON = dict(os.environ)


def output(script: str, limit: int = 100) -> bytes:
    return programs.read_output(("/bin/sh", "-c", script), ENVIRON, limit)


def test_the_output_of_a_program_that_succeeds_is_read() -> None:
    assert output("printf image") == b"image"


def test_the_output_of_a_program_that_fails_is_not_used() -> None:
    assert output("printf part; exit 1") == b""


def test_a_program_that_prints_too_much_is_stopped() -> None:
    with pytest.raises(programs.TooLarge):
        output("while :; do echo more; done")


@pytest.mark.parametrize("script", ["exec sleep 100", "exec >&-; exec sleep 100"])
def test_a_program_that_does_not_answer_is_stopped(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_SECONDS", 0.1)
    with pytest.raises(TimeoutError):
        output(script)
