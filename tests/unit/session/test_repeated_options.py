"""Which arguments of an agent's first run are given again when it is resumed."""

import pytest

from agent_dev.session.repeated_options import omission_notice, repeated_arguments

OPTIONS = ("--model=", "-m=", "--quiet")


@pytest.mark.parametrize(
    ("arguments", "repeated"),
    [
        ("--model x", "--model x"),
        ("--model=x -m y", "--model=x -m y"),
        ("--quiet fix", "--quiet"),
        ("fix --quiet", "--quiet"),
        ("exec -m x fix", "-m x"),
        ("--model --quiet", "--model --quiet"),
        ("--deep --model x", "--model x"),
        ("--model", ""),  # without its value
        ("--quiet=yes", ""),
        ("--models x", ""),
        ("-- --model x", ""),
        ("--quiet -- --quiet", "--quiet"),
        ("", ""),
    ],
)
def test_the_named_options_are_repeated_and_nothing_else(arguments: str, repeated: str) -> None:
    assert repeated_arguments(tuple(arguments.split()), OPTIONS) == tuple(repeated.split())


@pytest.mark.parametrize(
    ("arguments", "notice"),
    [
        (("--model", "x", "fix it"), ""),
        (("--model", "x", "--", "--deep"), ""),
        (("fix it", "-"), ""),
        (
            ("--model", "x", "--deep", "fix it"),
            "not given again: --deep; to give arguments: agent-dev resume one -- --model x --deep 'fix it'",
        ),
        (
            ("--deep=1", "x" * 200, "-v"),
            "not given again: --deep, -v; to give arguments: agent-dev resume one -- ARGUMENTS",
        ),
        (("exec", "--json", "fix it"), "not given again: --json; to repeat the first run: agent-dev resume --fresh one"),
        (("--\x1b",), "not given again: --␛; to give arguments: agent-dev resume one -- '--␛'"),
    ],
)
def test_options_that_are_not_repeated_are_named(arguments: tuple[str, ...], notice: str) -> None:
    assert omission_notice("one", arguments, OPTIONS) == notice
