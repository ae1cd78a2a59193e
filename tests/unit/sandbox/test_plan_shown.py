"""The mounts of a sandbox plan and their order, the writable paths, and the environment."""

import pytest

from agent_dev.config.profile import Profile
from agent_dev.paths import expand, is_below
from agent_dev.sandbox.plan import Bind, Mask, MaskedView, Overlay, allowed_env, build_plan, inside_path
from tests.unit.sandbox.plan_settings import (
    AGENT_HOME,
    FULL,
    HOME,
    IN_HOME,
    MACHINE,
    OUTSIDE,
    SETTINGS,
    STATE,
    is_writable,
    planned,
    setting,
)

# --- mounts ---


def test_a_root_is_an_overlay_at_its_real_path() -> None:
    assert Overlay(OUTSIDE, OUTSIDE, f"{STATE}/roots/0/upper", f"{STATE}/roots/0/work") in planned("least").mounts


def test_the_agent_home_is_mounted_at_the_users_home() -> None:
    assert Bind(HOME, AGENT_HOME, writable=True) in planned("least").mounts


@pytest.mark.parametrize("name", SETTINGS)
def test_only_roots_homes_caches_git_and_requested_paths_are_writable(name: str) -> None:
    own = SETTINGS[name]
    allowed = {HOME, *own.rw, *(r.path for r in own.roots), *(c.path for c in own.caches), *(g.inside_path for g in own.git_dirs)}

    assert {mount.target for mount in planned(name).mounts if is_writable(mount)} <= allowed


@pytest.mark.parametrize("name", SETTINGS)
def test_no_unlisted_directory_of_the_host_is_mounted(name: str) -> None:
    own = SETTINGS[name]
    listed = {
        *MACHINE.system,
        "/etc/ssl/certs",
        AGENT_HOME,
        *own.tools,
        *own.ro,
        *own.rw,
        *(outside for g in own.git_dirs for outside, _ in g.stores),
        *(g.host_path for g in own.git_dirs),
        "/proc/sys",
    }

    assert {mount.source for mount in planned(name).mounts if isinstance(mount, Bind)} <= listed


@pytest.mark.parametrize("name", SETTINGS)
def test_a_nested_mount_follows_its_parent(name: str) -> None:
    places = [mount.target for mount in planned(name).mounts]

    assert [(a, b) for n, a in enumerate(places) for b in places[n + 1 :] if a != b and is_below(a, b)] == []


def test_a_credential_is_masked_after_the_directory_that_holds_it() -> None:
    places = [mount.target for mount in planned("full").mounts]

    assert Mask(f"{HOME}/.cargo/credentials.toml") in planned("full").mounts
    assert places.index(f"{HOME}/.cargo") < places.index(f"{HOME}/.cargo/credentials.toml")


def test_a_directory_that_could_contain_credentials_is_mounted_with_its_mask() -> None:
    built = build_plan(
        Profile("x"), MACHINE, FULL.replace(masked_views=((f"{HOME}/.nvm", "/state/covers/1"), ("/srv/data", "/state/covers/2")))
    )

    assert MaskedView(f"{HOME}/.nvm", f"{HOME}/.nvm", "/state/covers/1") in built.mounts
    assert MaskedView("/srv/data", "/srv/data", "/state/covers/2") in built.mounts
    assert Bind(f"{HOME}/.cargo", f"{HOME}/.cargo") in built.mounts


def test_masks_follow_every_mount_that_could_reveal_the_file() -> None:
    built = build_plan(
        Profile("x"),
        MACHINE,
        FULL.replace(masked_files=(f"{IN_HOME}/.env",), masked_directories=(f"{IN_HOME}/keys",), empty_directory="/state/blank"),
    )

    assert built.mounts[-2:] == (Mask(f"{IN_HOME}/.env"), Bind(f"{IN_HOME}/keys", "/state/blank"))


def test_without_a_network_only_network_settings_differ() -> None:
    host, none = (build_plan(Profile("x", net=net), MACHINE, setting()) for net in ("host", "none"))

    assert set(none.unshare) - set(host.unshare) == {"net"}
    assert host.replace(unshare=none.unshare) == none


@pytest.mark.parametrize("name", ["user", "pid", "ipc", "uts"])
def test_all_namespaces_are_unshared(name: str) -> None:
    assert name in planned("least").unshare


# --- the environment ---


def test_only_listed_variables_are_passed_through() -> None:
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


def test_name_home_and_path_are_set_and_the_profile_overrides_them() -> None:
    profile = Profile("x", path=("~/.local/bin",), set=(("SHELL", "/bin/zsh"), ("NEW", "1")))
    env = dict(build_plan(profile, MACHINE, setting(env=(("HOME", "/root"),))).env)

    assert (env["HOME"], env["USER"], env["LOGNAME"], env["SHELL"], env["NEW"]) == (HOME, "ada", "ada", "/bin/zsh", "1")
    assert env["PATH"].split(":")[0] == f"{HOME}/.local/bin"
    assert env["PATH"].split(":")[-1] == "/sbin"


def test_installers_are_led_past_the_users_own_directory_of_programs() -> None:
    names = (f"{HOME}/.local/bin",)

    assert dict(build_plan(Profile("x"), MACHINE, setting(tools=names)).env)["XDG_BIN_HOME"] == f"{HOME}/.local/agent/bin"
    assert "XDG_BIN_HOME" not in dict(build_plan(Profile("x"), MACHINE, setting()).env)


def test_no_variable_is_set_twice() -> None:
    names = [name for name, _ in build_plan(Profile("x", set=(("HOME", "/x"),)), MACHINE, setting(env=(("HOME", "/y"),))).env]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("path", "real"), [("~", HOME), ("~/a", f"{HOME}/a"), ("/a", "/a"), ("~bob/a", "~bob/a"), ("a/~", "a/~")]
)
def test_only_a_leading_tilde_of_the_user_is_expanded(path: str, real: str) -> None:
    assert expand(path, HOME) == real


def test_the_agents_own_directories_precede_the_systems() -> None:
    path = inside_path(Profile("x", path=("~/bin", "/opt/x/bin")), HOME)

    assert path[:2] == (f"{HOME}/bin", "/opt/x/bin")
    assert path[2:] == ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


@pytest.mark.parametrize(
    ("path", "folder", "is_inside"),
    [("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/a", "/a/b", False), ("/a", "/", True), ("/", "/", True)],
)
def test_is_below_compares_whole_names(*, path: str, folder: str, is_inside: bool) -> None:
    assert is_below(path, folder) == is_inside
