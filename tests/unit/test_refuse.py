"""What is refused before anything is created: where what would be shown meets what must stay hidden."""

import pytest

from agent_dev.sandbox.refusals import Ground, Wanted, mount_points, reason

HOME, STATE, AGENT_HOME = "/home/ada", "/home/ada/.local/state/agent-dev", "/home/ada/aihome"
GROUND = Ground(
    home=HOME, own=(("the state directory", STATE), ("the agent home", AGENT_HOME)), mounts=("/", "/home", "/srv/shop/data")
)

REFUSED = [
    ("the whole system", "the repository", "/", True, "is /, the whole system"),
    ("the whole system, read-only", "--ro", "/", False, "is /, the whole system"),
    ("the home as a root", "the repository", HOME, True, "is your home directory"),
    ("the home, read-only", "--ro", HOME, False, "holds the state directory"),
    ("above the home", "--rw", "/home", False, "holds the state directory"),
    ("the state directory", "--rw", STATE, False, "holds the state directory"),
    ("in the state directory", "--ro", f"{STATE}/sessions", False, "lies in the state directory"),
    ("above the state directory", "the repository", "/home/ada/.local", True, "holds the state directory"),
    ("the agent home", "--overlay", AGENT_HOME, True, "holds the agent home"),
    ("in the agent home", "the repository", f"{AGENT_HOME}/src/x", True, "lies in the agent home"),
    ("a root with a mount in it", "the repository", "/srv/shop", True, "/srv/shop/data is a mount below /srv/shop"),
]

TAKEN = [
    ("a repository", "/home/ada/src/shop", True),
    ("a sibling of the agent home", "/home/ada/aihome2", True),
    ("a sibling of the state directory", f"{STATE}-old", True),
    ("a mount itself", "/srv/shop/data", True),
    ("a sibling of a mount", "/srv/shop/data2", True),
    ("a path that is no root with a mount in it", "/srv/shop", False),
]


@pytest.mark.parametrize(("name", "word", "path", "is_root", "why"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_must_not_be_shown_is_refused_by_the_word_it_came_by(
    *, name: str, word: str, path: str, is_root: bool, why: str
) -> None:
    found = reason((Wanted(word, path, is_root),), GROUND)

    assert found is not None
    assert why in found[0]
    assert word in found[0] or why.startswith(path)


@pytest.mark.parametrize(("name", "word", "path", "is_root", "why"), REFUSED, ids=[row[0] for row in REFUSED])
def test_each_refusal_says_what_to_do(*, name: str, word: str, path: str, is_root: bool, why: str) -> None:
    found = reason((Wanted(word, path, is_root),), GROUND)

    assert found is not None
    assert found[1]


@pytest.mark.parametrize(("name", "path", "is_root"), TAKEN, ids=[row[0] for row in TAKEN])
def test_the_rest_is_taken(*, name: str, path: str, is_root: bool) -> None:
    assert reason((Wanted("the repository", path, is_root),), GROUND) is None


GIT = "/home/ada/src/shop/.git"


@pytest.mark.parametrize("path", ["/home/ada/src/shop", "/home/ada/src", GIT, f"{GIT}/hooks"])
def test_the_git_dir_itself_is_never_opened_for_writing(path: str) -> None:
    found = reason((Wanted("--rw", path, is_writable=True),), GROUND.but(git=(GIT,)))

    assert found is not None
    assert f"--rw {path} would open {GIT}" in found[0]


@pytest.mark.parametrize("path", ["/home/ada/src/shop/build", "/home/ada/src/other", f"{GIT}hub"])
def test_what_holds_no_git_dir_is_opened_for_writing(path: str) -> None:
    assert reason((Wanted("--rw", path, is_writable=True),), GROUND.but(git=(GIT,))) is None


def test_a_root_in_another_root_is_refused() -> None:
    found = reason((Wanted("the repository", "/srv/a", True), Wanted("--overlay", "/srv/a/b", True)), GROUND)

    assert found is not None
    assert "--overlay /srv/a/b lies in /srv/a" in found[0]


def test_the_same_root_twice_is_refused() -> None:
    assert reason((Wanted("the repository", "/srv/a", True), Wanted("--overlay", "/srv/a", True)), GROUND) is not None


def test_roots_with_like_names_are_taken() -> None:
    assert reason((Wanted("the repository", "/srv/a", True), Wanted("--overlay", "/srv/ab", True)), GROUND) is None


def test_the_first_reason_is_told() -> None:
    found = reason((Wanted("--ro", f"{STATE}/x"), Wanted("--rw", "/")), GROUND)

    assert found is not None
    assert found[0].startswith("--ro")


MOUNTINFO = rb"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
40 22 0:35 / /mnt/with\040space\011tab\012line\134slash rw - tmpfs tmpfs rw
41 22 0:36 / /mnt/\303\244 rw - tmpfs tmpfs rw
"""


def test_mount_points_come_unescaped() -> None:
    assert mount_points(MOUNTINFO) == (b"/", b"/proc", b"/mnt/with space\ttab\nline\\slash", "/mnt/ä".encode())


@pytest.mark.parametrize("line", [b"", b"\n", b"22 1 254:0 /\n"])
def test_a_line_that_is_no_mount_is_passed_over(line: bytes) -> None:
    assert mount_points(line) == ()
