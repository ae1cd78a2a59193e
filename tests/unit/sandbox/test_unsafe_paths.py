"""Mounts that are refused before anything is created, because a path must stay hidden or roots overlap."""

import pytest

from agent_dev.sandbox.unsafe_paths import ProtectedPaths, RequestedPath, mount_points, refusal_reason

HOME, STATE, AGENT_HOME = "/home/ada", "/home/ada/.local/state/agent-dev", "/home/ada/aihome"
GROUND = ProtectedPaths(
    home=HOME,
    own_directories=(("the state directory", STATE), ("the agent home", AGENT_HOME)),
    mounts=("/", "/home", "/srv/shop/data"),
)

REFUSED = [
    ("the whole system", "the repository", "/", True, "is /, the whole system"),
    ("the whole system, read-only", "--ro", "/", False, "is /, the whole system"),
    ("the processes", "--rw", "/proc", False, "is /proc: a sandbox has processes and devices of its own"),
    ("a process as a root", "the directory", "/proc/1", True, "is /proc/1: a sandbox has processes"),
    ("the devices", "--ro", "/dev", False, "is /dev: a sandbox has processes and devices of its own"),
    ("a device", "--rw", "/dev/kvm", False, "is /dev/kvm: a sandbox has processes and devices of its own"),
    ("the home as a root", "the repository", HOME, True, "is your home directory"),
    ("the home, read-only", "--ro", HOME, False, "contains the state directory"),
    ("above the home", "--rw", "/home", False, "contains the state directory"),
    ("the state directory", "--rw", STATE, False, "contains the state directory"),
    ("in the state directory", "--ro", f"{STATE}/sessions", False, "is in the state directory"),
    ("above the state directory", "the repository", "/home/ada/.local", True, "contains the state directory"),
    ("the agent home", "--overlay", AGENT_HOME, True, "contains the agent home"),
    ("in the agent home", "the repository", f"{AGENT_HOME}/src/x", True, "is in the agent home"),
    ("a root above a directory of the sandbox", "the repository", "/var", True, "contains /var/tmp"),
    ("a root above the files of the sandbox", "--overlay", "/run", True, "contains /run/agent-dev"),
    ("a root with a mount in it", "the repository", "/srv/shop", True, "/srv/shop/data is a mount below /srv/shop"),
]

TAKEN = [
    ("a repository", "/home/ada/src/shop", True),
    ("a sibling of the agent home", "/home/ada/aihome2", True),
    ("a sibling of the state directory", f"{STATE}-old", True),
    ("a mount itself", "/srv/shop/data", True),
    ("a sibling of a mount", "/srv/shop/data2", True),
    ("shared memory", "/dev/shm/shop", True),
    ("a temporary directory", "/var/tmp", True),
    ("above a directory of the sandbox, read-only", "/var", False),
    ("a path that is no root with a mount in it", "/srv/shop", False),
]


@pytest.mark.parametrize(("name", "word", "path", "is_root", "why"), REFUSED, ids=[row[0] for row in REFUSED])
def test_forbidden_paths_are_refused_with_their_option(*, name: str, word: str, path: str, is_root: bool, why: str) -> None:
    found = refusal_reason((RequestedPath(word, path, is_root),), GROUND)

    assert found is not None
    assert why in found[0]
    assert word in found[0] or why.startswith(path)


@pytest.mark.parametrize(("name", "word", "path", "is_root", "why"), REFUSED, ids=[row[0] for row in REFUSED])
def test_each_refusal_has_a_hint(*, name: str, word: str, path: str, is_root: bool, why: str) -> None:
    found = refusal_reason((RequestedPath(word, path, is_root),), GROUND)

    assert found is not None
    assert found[1]


@pytest.mark.parametrize(("name", "path", "is_root"), TAKEN, ids=[row[0] for row in TAKEN])
def test_other_paths_are_accepted(*, name: str, path: str, is_root: bool) -> None:
    assert refusal_reason((RequestedPath("the repository", path, is_root),), GROUND) is None


GIT = "/home/ada/src/shop/.git"


@pytest.mark.parametrize("path", ["/home/ada/src/shop", "/home/ada/src", GIT, f"{GIT}/hooks"])
def test_the_git_dir_itself_is_never_mounted_writable(path: str) -> None:
    found = refusal_reason((RequestedPath("--rw", path, is_writable=True),), GROUND.replace(git_dirs=(GIT,)))

    assert found is not None
    assert f"--rw {path} would let the agent write to {GIT}" in found[0]


@pytest.mark.parametrize("path", ["/home/ada/src/shop/build", "/home/ada/src/other", f"{GIT}hub"])
def test_a_path_without_a_git_dir_is_mounted_writable(path: str) -> None:
    assert refusal_reason((RequestedPath("--rw", path, is_writable=True),), GROUND.replace(git_dirs=(GIT,))) is None


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (STATE, "contains the state directory"),
        (f"{STATE}/sessions", "is in the state directory"),
        (f"{HOME}/.local", "contains the state directory"),
        (f"{HOME}/venv", "would let the agent write to /home/ada/venv, which agent-dev trusts"),
        (f"{HOME}/venv/lib", "would let the agent write to /home/ada/venv, which agent-dev trusts"),
        (f"{GIT}/home", f"would let the agent write to {GIT}"),
        (AGENT_HOME, None),
    ],
)
def test_the_agent_home_is_apart_from_what_agent_dev_trusts(path: str, why: str | None) -> None:
    ground = GROUND.replace(
        own_directories=(("the state directory", STATE), ("the agent home", path)),
        trusted_files=(f"{HOME}/venv",),
        git_dirs=(GIT,),
    )
    found = refusal_reason((RequestedPath("the agent home", path, is_writable=True),), ground)

    assert (found is None) is (why is None)
    assert not found or f"the agent home {path} {why}" in found[0]


@pytest.mark.parametrize(("path", "own"), [("/run", "/run/agent-dev"), ("/var", "/var/tmp")])
def test_no_directory_above_a_sandbox_mount_is_writable(path: str, own: str) -> None:
    found = refusal_reason((RequestedPath("--rw", path, is_writable=True),), GROUND)
    assert found == (f"--rw {path} contains {own}, which the sandbox replaces", "use a smaller directory")


def test_a_root_below_another_root_is_refused() -> None:
    found = refusal_reason(
        (RequestedPath("the repository", "/srv/a", True), RequestedPath("--overlay", "/srv/a/b", True)), GROUND
    )

    assert found is not None
    assert "--overlay /srv/a/b is in /srv/a" in found[0]


def test_the_same_root_twice_is_refused() -> None:
    assert (
        refusal_reason((RequestedPath("the repository", "/srv/a", True), RequestedPath("--overlay", "/srv/a", True)), GROUND)
        is not None
    )


def test_roots_with_similar_names_are_accepted() -> None:
    assert (
        refusal_reason((RequestedPath("the repository", "/srv/a", True), RequestedPath("--overlay", "/srv/ab", True)), GROUND)
        is None
    )


def test_the_first_reason_is_reported() -> None:
    found = refusal_reason((RequestedPath("--ro", f"{STATE}/x"), RequestedPath("--rw", "/")), GROUND)

    assert found is not None
    assert found[0].startswith("--ro")


MOUNTINFO = rb"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
40 22 0:35 / /mnt/with\040space\011tab\012line\134slash rw - tmpfs tmpfs rw
41 22 0:36 / /mnt/\303\244 rw - tmpfs tmpfs rw
"""


def test_mount_points_are_unescaped() -> None:
    assert mount_points(MOUNTINFO) == (b"/", b"/proc", b"/mnt/with space\ttab\nline\\slash", "/mnt/ä".encode())


@pytest.mark.parametrize("line", [b"", b"\n", b"22 1 254:0 /\n"])
def test_a_line_that_is_no_mount_is_skipped(line: bytes) -> None:
    assert mount_points(line) == ()
