"""A plan of a sandbox as words of bubblewrap's, and as a line to paste."""

import subprocess
from itertools import pairwise

import pytest

from agent_dev.config.profile import Profile
from agent_dev.sandbox.bwrap import HAS_OVERLAY, arguments, shell_line
from agent_dev.sandbox.plan import Bind, Cover, Dev, File, Mask, Mount, Overlay, Proc, Scratch, Symlink, Tmpfs, build
from tests.unit.plan_settings import MACHINE, SETTINGS, STATE, planned, setting

WORDS: list[tuple[Mount, tuple[str | int, ...]]] = [
    (Bind("/t", "/s"), ("--ro-bind", "/s", "/t")),
    (Bind("/t", "/s", writable=True), ("--bind", "/s", "/t")),
    (Overlay("/t", "/l", "/u", "/w"), ("--overlay-src", "/l", "--overlay", "/u", "/w", "/t")),
    (Scratch("/t", "/l"), ("--overlay-src", "/l", "--tmp-overlay", "/t")),
    (Tmpfs("/t", 5, "1777"), ("--perms", "1777", "--size", "5", "--tmpfs", "/t")),
    (Dev("/t"), ("--dev", "/t", "--remount-ro", "/t")),
    (Proc("/t"), ("--proc", "/t")),
    (Symlink("/t", "usr/t"), ("--symlink", "usr/t", "/t")),
    (File("/t", b"x"), ("--perms", "0444", "--file", 7, "/t")),
    (Cover("/t", "/l", "/f"), ("--overlay-src", "/l", "--overlay-src", "/f", "--ro-overlay", "/t")),
    (Mask("/t"), ("--perms", "0444", "--ro-bind-data", 7, "/t")),
]


@pytest.mark.parametrize(("mount", "words"), WORDS, ids=[type(row[0]).__name__ for row in WORDS])
def test_each_mount_has_its_words(mount: Mount, words: tuple[str | int, ...]) -> None:
    plan = planned("least").but(env=())
    empty = arguments(plan, (), {})
    given_words = arguments(plan, (mount,), {"/t": 7})

    assert tuple(map(str, given_words[len(empty) - 4 : -4])) == tuple(map(str, words))


def test_every_kind_of_mount_is_in_the_table() -> None:
    assert {type(mount) for mount, _ in WORDS} == set(Mount.__args__)


def test_it_dies_with_its_parent_and_has_no_capability() -> None:
    words = arguments(planned("least"), (), {})

    assert "--die-with-parent" in words
    assert ("--cap-drop", "ALL") in pairwise(words)
    assert ("--remount-ro", "/") in pairwise(words)


def test_the_environment_is_handed_over_name_by_name() -> None:
    words = arguments(planned("least").but(env=(("A", "1"), ("B", "x y"))), (), {})

    assert words[words.index("--setenv") :][:6] == ("--setenv", "A", "1", "--setenv", "B", "x y")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("version", [(0, 8, 0), HAS_OVERLAY, (0, 12, 0)])
def test_the_line_to_paste_is_one_that_bash_can_read(name: str, version: tuple[int, int, int]) -> None:
    strange = planned(name).but(command=("echo", "a b", "'", '"', "$(touch x)", "`x`", "\n", "*"))
    line = shell_line(strange, "/usr/bin/bwrap", version)
    told = subprocess.run(
        ["bash", "-c", f"bwrap() {{ printf '%s\\0' \"$@\"; }}; {line.replace('env -i /usr/bin/bwrap', 'bwrap', 1)}"],
        capture_output=True,
        check=True,
    ).stdout

    assert told.split(b"\0")[-9:-1] == [b"echo", b"a b", b"'", b'"', b"$(touch x)", b"`x`", b"\n", b"*"]


HARD = b"[user]\n\tname = \"\xc3\x84da 'O' %s \\ \xff\x00\x01\x1b[2J\"\n"


def test_the_line_to_paste_can_be_shown_and_loses_no_byte() -> None:
    hard = setting(git_config=HARD, cwd="/src/\u202e\n\udcff")
    line = shell_line(build(Profile("x"), MACHINE, hard), "/usr/bin/bwrap", (0, 12, 0))
    assert line.isascii()
    assert line.isprintable()
    # bubblewrap's part: print the working directory that it was told, and the file that it was handed
    look = 'while [ "$1" != --chdir ]; do [ "$3" != /run/agent-dev/gitconfig ] || file=$2; shift; done'
    fake = f"bwrap() {{ {look}; printf '%s\\0' \"$2\"; cat <&$file; }}"
    told = subprocess.run(
        ["bash", "-c", f"{fake}; {line.replace('env -i /usr/bin/bwrap', 'bwrap', 1)}"], capture_output=True, check=True
    ).stdout
    assert told == "/src/\u202e\n".encode() + b"\xff\0" + HARD


@pytest.mark.parametrize("name", SETTINGS)
def test_the_line_to_paste_writes_into_no_session(name: str) -> None:
    assert f"{STATE}/roots" not in shell_line(planned(name), "/usr/bin/bwrap", (0, 12, 0))
