"""The sandbox as a value: what is shown, in which order, by whom, and as which words of bubblewrap's."""

import subprocess
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.core.bwrap import BY_BWRAP, BY_LAUNCHER, HAS_OVERLAY, arguments, default_way, divide, mount_points, shell_line
from agent_dev.core.plan import (
    Bind,
    Cover,
    Dev,
    File,
    GitDir,
    Machine,
    Mask,
    Mount,
    Overlay,
    Proc,
    Root,
    SandboxPlan,
    Scratch,
    Setting,
    Symlink,
    Tmpfs,
    allowed_env,
    build,
    expand,
    inside_path,
    is_below,
)
from agent_dev.core.profile import Profile

HOME, AGENT_HOME, STATE = "/home/ada", "/srv/aihome", "/srv/state/s1"
MACHINE = Machine(  # noqa: S604  (a field of that name)
    uid=1000,
    gid=1000,
    user="ada",
    home=HOME,
    shell="/bin/bash",
    bwrap="/usr/bin/bwrap",
    bwrap_version=(0, 8, 0),
    links=(("/bin", "usr/bin"), ("/lib", "usr/lib")),
    system=("/usr", "/opt"),
    etc=(
        Bind("/etc/ssl/certs", "/etc/ssl/certs"),
        File("/etc/hosts", b"127.0.0.1 localhost\n", is_copy=True),
        File("/etc/passwd", b"ada:x:1000:1000::/home/ada:/bin/bash\n"),
    ),
)


def root(path: str, number: int = 0) -> Root:
    return Root(path, f"{STATE}/roots/{number}/upper", f"{STATE}/roots/{number}/work")


IN_HOME, OUTSIDE = f"{HOME}/src/shop", "/srv/shop"


def setting(**more: object) -> Setting:
    values: dict[str, object] = {
        "session": "s1",
        "agent_home": AGENT_HOME,
        "roots": (root(OUTSIDE),),
        "cwd": OUTSIDE,
        "command": ("claude", "-p", "x"),
    }
    return Setting(**{**values, **more})  # type: ignore[arg-type]


FULL = setting(
    roots=(root(IN_HOME), root(OUTSIDE, 1)),
    cwd=f"{IN_HOME}/sub",
    git_dirs=(
        GitDir(f"{STATE}/git/0", f"{HOME}/src/main/.git", ((f"{STATE}/git/farm.0", "/run/agent-dev/objects/0"),)),
        GitDir(f"{STATE}/roots/0/upper/.git", "", ()),
    ),
    git_config=b"[user]\n",
    tools=(f"{HOME}/.cargo", f"{HOME}/.nvm"),
    caches=(root(f"{HOME}/.cache/pip", 9),),
    masks=(f"{HOME}/.cargo/credentials.toml",),
    ro=("/srv/data", f"{IN_HOME}/vendor"),
    rw=(f"{HOME}/out", "/srv/out"),
    files=(("/run/agent-dev/terminfo/x", b"t"),),
    env=(("TERM", "xterm"),),
)
SETTINGS = {"least": setting(), "in the home": setting(roots=(root(IN_HOME),), cwd=IN_HOME), "full": FULL}


def planned(name: str) -> SandboxPlan:
    return build(Profile("x"), MACHINE, SETTINGS[name])


def targets(mounts: tuple[Mount, ...]) -> set[str]:
    return {mount.target for mount in mounts}


def is_writable(mount: Mount) -> bool:
    return isinstance(mount, Overlay | Scratch) or (isinstance(mount, Bind) and mount.writable)


# --- who mounts what ---


@pytest.mark.parametrize("name", SETTINGS)
def test_both_ways_of_dividing_show_the_same_places(name: str) -> None:
    plan = planned(name)
    by_launcher, by_bwrap = divide(plan, BY_LAUNCHER), divide(plan, BY_BWRAP)

    assert targets(by_launcher.bwrap) | targets(by_launcher.launcher) == targets(by_bwrap.bwrap) == targets(plan.mounts)


@pytest.mark.parametrize("name", SETTINGS)
def test_bubblewrap_makes_no_mount_point_below_what_an_agent_can_write_when_the_launcher_mounts(name: str) -> None:
    plan = planned(name)
    share = divide(plan, BY_LAUNCHER)
    writable = {mount.target for mount in plan.mounts if is_writable(mount)}

    assert [
        (mount.target, place)
        for mount in share.bwrap
        for place in writable
        if mount.target != place and is_below(mount.target, place)
    ] == []


@pytest.mark.parametrize("name", SETTINGS)
def test_old_bubblewraps_never_see_an_overlay(name: str) -> None:
    assert not any(isinstance(mount, Overlay | Scratch) for mount in divide(planned(name), BY_LAUNCHER).bwrap)


@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_launcher_mounts_is_mounted_whole_and_in_the_order_of_the_plan(name: str) -> None:
    plan = planned(name)
    ours = divide(plan, BY_LAUNCHER).launcher

    assert list(ours) == [mount for mount in plan.mounts if mount in ours]


@pytest.mark.parametrize("name", SETTINGS)
def test_an_overlay_that_bubblewrap_must_show_is_bound_writable_from_the_launchers_namespace(name: str) -> None:
    plan = planned(name)
    share = divide(plan, BY_LAUNCHER)
    roofs = [
        m
        for m in plan.mounts
        if isinstance(m, Overlay) and not any(m.target != p and is_below(m.target, p) for p in plan.writable())
    ]

    assert all(Bind(mount.target, mount.target, writable=True) in share.bwrap for mount in roofs)


@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_is_left_to_the_launcher_when_bubblewrap_mounts(name: str) -> None:
    plan = planned(name)

    assert divide(plan, BY_BWRAP) == divide(plan, BY_BWRAP).but(bwrap=plan.mounts, launcher=())


PLACES = st.lists(
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    unique=True,
    max_size=8,
)


@given(PLACES, st.data())
def test_any_plan_keeps_bubblewrap_out_of_what_an_agent_can_write(places: list[str], data: st.DataObject) -> None:
    kinds = st.sampled_from(
        [
            lambda place: Bind(place, place),
            lambda place: Bind(place, place, writable=True),
            lambda place: Overlay(place, place, "/u", "/w"),
            Mask,
        ]
    )
    plan = planned("least").but(mounts=tuple(data.draw(kinds)(place) for place in places))
    share = divide(plan, BY_LAUNCHER)

    assert targets(share.bwrap) | targets(share.launcher) == set(places)
    assert not any(mount.target != place and is_below(mount.target, place) for mount in share.bwrap for place in plan.writable())


@pytest.mark.parametrize(
    ("version", "way"),
    [
        ((0, 8, 0), BY_LAUNCHER),
        ((0, 9, 0), BY_LAUNCHER),
        ((0, 11, 0), BY_LAUNCHER),
        ((0, 12, 0), BY_BWRAP),
        ((1, 0, 0), BY_BWRAP),
    ],
)
def test_only_a_bubblewrap_that_refuses_links_makes_mount_points_itself(version: tuple[int, int, int], way: str) -> None:
    assert default_way(version) == way


def test_mount_points_of_the_agent_home_are_relative_and_outermost_first() -> None:
    points = mount_points(planned("full"))

    assert list(points) == sorted(points)
    assert {"src/shop", ".cargo", ".nvm", ".cache/pip", "out", "src/main/.git"} <= set(points)
    assert ".cargo/credentials.toml" not in points


# --- what is shown ---


def test_a_root_is_an_overlay_at_its_real_path() -> None:
    assert Overlay(OUTSIDE, OUTSIDE, f"{STATE}/roots/0/upper", f"{STATE}/roots/0/work") in planned("least").mounts


def test_the_agent_home_is_seen_at_the_users_own_home() -> None:
    assert Bind(HOME, AGENT_HOME, writable=True) in planned("least").mounts


@pytest.mark.parametrize("name", SETTINGS)
def test_only_roots_homes_caches_git_and_what_was_asked_for_can_be_written(name: str) -> None:
    own = SETTINGS[name]
    allowed = {HOME, *own.rw, *(r.path for r in own.roots), *(c.path for c in own.caches), *(g.target for g in own.git_dirs)}

    assert {mount.target for mount in planned(name).mounts if is_writable(mount)} <= allowed


@pytest.mark.parametrize("name", SETTINGS)
def test_no_directory_of_the_host_is_shown_but_the_listed(name: str) -> None:
    own = SETTINGS[name]
    listed = {
        *MACHINE.system,
        "/etc/ssl/certs",
        AGENT_HOME,
        *own.tools,
        *own.ro,
        *own.rw,
        *(outside for g in own.git_dirs for outside, _ in g.stores),
        *(g.source for g in own.git_dirs),
        "/proc/sys",
    }

    assert {mount.source for mount in planned(name).mounts if isinstance(mount, Bind)} <= listed


@pytest.mark.parametrize("name", SETTINGS)
def test_what_lies_in_another_mount_comes_after_it(name: str) -> None:
    places = [mount.target for mount in planned(name).mounts]

    assert [(a, b) for n, a in enumerate(places) for b in places[n + 1 :] if a != b and is_below(a, b)] == []


def test_a_credential_is_masked_after_the_directory_that_holds_it() -> None:
    places = [mount.target for mount in planned("full").mounts]

    assert Mask(f"{HOME}/.cargo/credentials.toml") in planned("full").mounts
    assert places.index(f"{HOME}/.cargo") < places.index(f"{HOME}/.cargo/credentials.toml")


def test_a_directory_that_could_hold_credentials_is_shown_with_its_front() -> None:
    built = build(Profile("x"), MACHINE, FULL.but(covers=((f"{HOME}/.nvm", "/state/covers/1"), ("/srv/data", "/state/covers/2"))))

    assert Cover(f"{HOME}/.nvm", f"{HOME}/.nvm", "/state/covers/1") in built.mounts
    assert Cover("/srv/data", "/srv/data", "/state/covers/2") in built.mounts
    assert Bind(f"{HOME}/.cargo", f"{HOME}/.cargo") in built.mounts


def test_what_is_masked_comes_after_everything_that_could_show_it() -> None:
    built = build(Profile("x"), MACHINE, FULL.but(masks=(f"{IN_HOME}/.env",), blanks=(f"{IN_HOME}/keys",), blank="/state/blank"))

    assert built.mounts[-2:] == (Mask(f"{IN_HOME}/.env"), Bind(f"{IN_HOME}/keys", "/state/blank"))


def test_without_a_network_only_the_network_differs() -> None:
    host, none = (build(Profile("x", net=net), MACHINE, setting()) for net in ("host", "none"))

    assert set(none.unshare) - set(host.unshare) == {"net"}
    assert host.but(unshare=none.unshare) == none


@pytest.mark.parametrize("name", ["user", "pid", "ipc", "uts"])
def test_its_namespaces_are_its_own(name: str) -> None:
    assert name in planned("least").unshare


# --- the environment ---


def test_only_listed_variables_come_in() -> None:
    environ = {
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "SECRET": "s",
        "LD_PRELOAD": "x",
        "MINE": "m",
        "https_proxy": "p",
        "SSH_AUTH_SOCK": "s",
    }

    assert dict(allowed_env(Profile("x", env=("MINE",)), environ)) == {
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "MINE": "m",
        "https_proxy": "p",
    }


def test_the_users_name_home_and_path_are_set_and_the_profile_has_the_last_word() -> None:
    profile = Profile("x", path=("~/.local/bin",), set=(("SHELL", "/bin/zsh"), ("NEW", "1")))
    env = dict(build(profile, MACHINE, setting(env=(("HOME", "/root"),))).env)

    assert (env["HOME"], env["USER"], env["LOGNAME"], env["SHELL"], env["NEW"]) == (HOME, "ada", "ada", "/bin/zsh", "1")
    assert env["PATH"].split(":")[0] == f"{HOME}/.local/bin"
    assert env["PATH"].split(":")[-1] == "/bin"


def test_no_variable_is_set_twice() -> None:
    names = [name for name, _ in build(Profile("x", set=(("HOME", "/x"),)), MACHINE, setting(env=(("HOME", "/y"),))).env]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("path", "real"), [("~", HOME), ("~/a", f"{HOME}/a"), ("/a", "/a"), ("~bob/a", "~bob/a"), ("a/~", "a/~")]
)
def test_only_a_leading_tilde_of_ones_own_is_expanded(path: str, real: str) -> None:
    assert expand(path, HOME) == real


def test_the_agents_own_directories_come_before_the_systems() -> None:
    path = inside_path(Profile("x", path=("~/bin", "/opt/x/bin")), HOME)

    assert path[:2] == (f"{HOME}/bin", "/opt/x/bin")
    assert path[2:] == ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@pytest.mark.parametrize(
    ("path", "folder", "is_inside"),
    [("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/a", "/a/b", False), ("/a", "/", True), ("/", "/", True)],
)
def test_below_is_a_matter_of_whole_names(*, path: str, folder: str, is_inside: bool) -> None:
    assert is_below(path, folder) == is_inside


# --- bubblewrap's words ---

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
