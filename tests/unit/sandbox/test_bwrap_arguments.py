"""A sandbox plan as arguments of bubblewrap, and as a command line to paste."""

import subprocess
from itertools import pairwise

import pytest

from agent_dev.config.profile import Profile
from agent_dev.sandbox.bwrap import HAS_OVERLAY, bwrap_options, shell_line
from agent_dev.sandbox.plan import Bind, Dev, File, Mask, MaskedView, Mount, Overlay, Proc, Scratch, Symlink, Tmpfs, build_plan
from tests.unit.sandbox.plan_settings import MACHINE, SETTINGS, STATE, planned, setting

WORDS: list[tuple[Mount, tuple[str | int, ...]]] = [
    (Bind("/t", "/s"), ("--ro-bind", "/s", "/t")),
    (Bind("/t", "/s", writable=True), ("--bind", "/s", "/t")),
    (Overlay("/t", "/l", "/u", "/w"), ("--overlay-src", "/l", "--overlay", "/u", "/w", "/t")),
    (Overlay("/t", "/l", "/u", "/w", "/m"), ("--overlay-src", "/l", "--overlay-src", "/m", "--overlay", "/u", "/w", "/t")),
    (Scratch("/t", "/l"), ("--overlay-src", "/l", "--tmp-overlay", "/t")),
    (Tmpfs("/t", 5, "1777"), ("--perms", "1777", "--size", "5", "--tmpfs", "/t")),
    (Dev("/t"), ("--dev", "/t", "--remount-ro", "/t")),
    (Proc("/t"), ("--proc", "/t")),
    (Symlink("/t", "usr/t"), ("--symlink", "usr/t", "/t")),
    (File("/t", b"x"), ("--perms", "0444", "--file", 7, "/t")),
    (MaskedView("/t", "/l", "/f"), ("--overlay-src", "/l", "--overlay-src", "/f", "--ro-overlay", "/t")),
    (Mask("/t"), ("--perms", "0444", "--ro-bind-data", 7, "/t")),
]


@pytest.mark.parametrize(("mount", "words"), WORDS, ids=[type(row[0]).__name__ for row in WORDS])
def test_each_mount_has_its_arguments(mount: Mount, words: tuple[str | int, ...]) -> None:
    plan = planned("least").replace(env=())
    empty = bwrap_options(plan, (), {})
    given_words = bwrap_options(plan, (mount,), {"/t": 7})

    assert tuple(map(str, given_words[len(empty) - 4 : -4])) == tuple(map(str, words))


def test_every_kind_of_mount_is_in_the_table() -> None:
    assert {type(mount) for mount, _ in WORDS} == set(Mount.__args__)


def test_bubblewrap_dies_with_its_parent_and_has_no_capability() -> None:
    words = bwrap_options(planned("least"), (), {})

    assert "--die-with-parent" in words
    assert ("--cap-drop", "ALL") in pairwise(words)
    assert ("--remount-ro", "/") in pairwise(words)


def test_the_environment_is_passed_name_by_name() -> None:
    words = bwrap_options(planned("least").replace(env=(("A", "1"), ("B", "x y"))), (), {})

    assert words[words.index("--setenv") :][:6] == ("--setenv", "A", "1", "--setenv", "B", "x y")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("version", [(0, 8, 0), HAS_OVERLAY, (0, 12, 0)])
def test_the_shown_command_line_is_valid_bash(name: str, version: tuple[int, int, int]) -> None:
    strange = planned(name).replace(command=("echo", "a b", "'", '"', "$(touch x)", "`x`", "\n", "*"))
    line = shell_line(strange, "/usr/bin/bwrap", version)
    reported = subprocess.run(
        ["bash", "-c", f"bwrap() {{ printf '%s\\0' \"$@\"; }}; {line.replace('env -i /usr/bin/bwrap', 'bwrap', 1)}"],
        capture_output=True,
        check=True,
    ).stdout

    assert reported.split(b"\0")[-9:-1] == [b"echo", b"a b", b"'", b'"', b"$(touch x)", b"`x`", b"\n", b"*"]


HARD = b"[user]\n\tname = \"\xc3\x84da 'O' %s \\ \xff\x00\x01\x1b[2J\"\n"


def test_the_shown_command_line_is_printable_and_loses_no_byte() -> None:
    hard = setting(git_config=HARD, cwd="/src/\u202e\n\udcff")
    line = shell_line(build_plan(Profile("x"), MACHINE, hard), "/usr/bin/bwrap", (0, 12, 0))
    assert line.isascii()
    assert line.isprintable()
    # A fake bubblewrap: it prints the working directory from its arguments, and the file that is passed to it.
    look = 'while [ "$1" != --chdir ]; do [ "$3" != /run/agent-dev/gitconfig ] || file=$2; shift; done'
    fake = f"bwrap() {{ {look}; printf '%s\\0' \"$2\"; cat <&$file; }}"
    reported = subprocess.run(
        ["bash", "-c", f"{fake}; {line.replace('env -i /usr/bin/bwrap', 'bwrap', 1)}"], capture_output=True, check=True
    ).stdout
    assert reported == "/src/\u202e\n".encode() + b"\xff\0" + HARD


@pytest.mark.parametrize("name", SETTINGS)
def test_the_shown_command_line_writes_into_no_session(name: str) -> None:
    assert f"{STATE}/roots" not in shell_line(planned(name), "/usr/bin/bwrap", (0, 12, 0))
