"""A sandbox plan divided into mounts by the launcher and by bubblewrap, and the creation of mount points."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.config.profile import Profile
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.paths import is_below
from agent_dev.sandbox.bwrap import BY_BWRAP, BY_LAUNCHER, default_overlay_mode, home_mount_points, split_mounts
from agent_dev.sandbox.plan import Bind, Mask, Mount, Overlay, Scratch, build_plan
from tests.unit.sandbox.plan_settings import MACHINE, OUTSIDE, SETTINGS, STATE, is_writable, planned, setting


def targets(mounts: tuple[Mount, ...]) -> set[str]:
    return {mount.target for mount in mounts}


@pytest.mark.parametrize("name", SETTINGS)
def test_both_mount_modes_mount_the_same_targets(name: str) -> None:
    plan = planned(name)
    by_launcher, by_bwrap = split_mounts(plan, BY_LAUNCHER), split_mounts(plan, BY_BWRAP)

    assert targets(by_launcher.bwrap) | targets(by_launcher.setup) == targets(by_bwrap.bwrap) == targets(plan.mounts)


@pytest.mark.parametrize("name", SETTINGS)
def test_bubblewrap_creates_no_mount_point_where_an_agent_can_write(name: str) -> None:
    plan = planned(name)
    share = split_mounts(plan, BY_LAUNCHER)
    writable = {mount.target for mount in plan.mounts if is_writable(mount)}

    assert [
        (mount.target, place)
        for mount in share.bwrap
        for place in writable
        if mount.target != place and is_below(mount.target, place)
    ] == []


@pytest.mark.parametrize("name", SETTINGS)
def test_old_bubblewraps_never_mount_an_overlay(name: str) -> None:
    assert not any(isinstance(mount, Overlay | Scratch) for mount in split_mounts(planned(name), BY_LAUNCHER).bwrap)


@pytest.mark.parametrize("name", SETTINGS)
def test_launcher_mounts_are_complete_and_in_the_order_of_the_plan(name: str) -> None:
    plan = planned(name)
    ours = split_mounts(plan, BY_LAUNCHER).setup

    assert list(ours) == [mount for mount in plan.mounts if mount in ours]


@pytest.mark.parametrize("name", SETTINGS)
def test_an_outermost_overlay_is_bound_writable_from_the_launchers_namespace(name: str) -> None:
    plan = planned(name)
    share = split_mounts(plan, BY_LAUNCHER)
    roofs = [
        m
        for m in plan.mounts
        if isinstance(m, Overlay) and not any(m.target != p and is_below(m.target, p) for p in plan.writable_targets())
    ]

    assert all(Bind(mount.target, mount.target, writable=True) in share.bwrap for mount in roofs)


@pytest.mark.parametrize("is_direct", [False, True])
def test_an_object_store_below_a_root_is_mounted_from_a_visible_path(*, is_direct: bool) -> None:
    source, inside = f"{OUTSIDE}/.git/agent-dev/s1-0", "/run/agent-dev/git/0/objects"
    own = PrivateGitDir(f"{STATE}/git/0", f"{OUTSIDE}/.git", ((source, inside),))
    git = own if is_direct else PrivateGitDir(f"{STATE}/roots/0/upper/.git", "", own.stores)
    direct = {"direct_root": OUTSIDE, "roots": ()} if is_direct else {}
    plan = build_plan(Profile("x"), MACHINE, setting(git_dirs=(git,), **direct))
    share = split_mounts(plan, BY_LAUNCHER)

    place = next(mount.source for mount in share.bwrap if isinstance(mount, Bind) and mount.target == inside)
    assert share.early_binds == ((source, place),)
    assert not any(is_below(place, mount.target) for mount in share.setup)
    assert split_mounts(plan, BY_BWRAP).early_binds == ()


@pytest.mark.parametrize("name", SETTINGS)
def test_bubblewrap_mode_leaves_no_mount_to_the_launcher(name: str) -> None:
    plan = planned(name)

    assert split_mounts(plan, BY_BWRAP) == split_mounts(plan, BY_BWRAP).replace(bwrap=plan.mounts, setup=())


PLACES = st.lists(
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    unique=True,
    max_size=8,
)


@given(PLACES, st.data())
def test_no_plan_lets_bubblewrap_use_a_path_that_an_agent_can_write(places: list[str], data: st.DataObject) -> None:
    kinds = st.sampled_from(
        [
            lambda place: Bind(place, place),
            lambda place: Bind(place, place, writable=True),
            lambda place: Overlay(place, place, "/u", "/w"),
            Mask,
        ]
    )
    plan = planned("least").replace(mounts=tuple(data.draw(kinds)(place) for place in places))
    share = split_mounts(plan, BY_LAUNCHER)

    assert targets(share.bwrap) | targets(share.setup) == set(places)
    assert not any(
        mount.target != place and is_below(mount.target, place) for mount in share.bwrap for place in plan.writable_targets()
    )


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
def test_only_a_bubblewrap_that_refuses_symlinks_creates_mount_points(version: tuple[int, int, int], way: str) -> None:
    assert default_overlay_mode(version) == way


def test_mount_points_of_the_agent_home_are_relative_and_outermost_first() -> None:
    points = home_mount_points(planned("full"))

    assert list(points) == sorted(points)
    assert {"src/shop", ".cargo", ".nvm", ".cache/pip", "out", "src/main/.git"} <= set(points)
    assert ".cargo/credentials.toml" not in points
