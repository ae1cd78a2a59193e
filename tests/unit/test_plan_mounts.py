"""A plan of a sandbox divided: what the launcher mounts, what bubblewrap does, and where mount points are made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.config.profile import Profile
from agent_dev.sandbox.bwrap import BY_BWRAP, BY_LAUNCHER, default_way, divide, mount_points
from agent_dev.sandbox.plan import Bind, GitDir, Mask, Mount, Overlay, Scratch, build, is_below
from tests.unit.plan_settings import MACHINE, OUTSIDE, SETTINGS, STATE, is_writable, planned, setting


def targets(mounts: tuple[Mount, ...]) -> set[str]:
    return {mount.target for mount in mounts}


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


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_store_that_lies_below_a_root_is_shown_from_a_place_that_nothing_hides(*, is_direct: bool) -> None:
    source, inside = f"{OUTSIDE}/.git/agent-dev/s1-0", "/run/agent-dev/git/0/objects"
    own = GitDir(f"{STATE}/git/0", f"{OUTSIDE}/.git", ((source, inside),))
    git = own if is_direct else GitDir(f"{STATE}/roots/0/upper/.git", "", own.stores)
    direct = {"direct": OUTSIDE, "roots": ()} if is_direct else {}
    plan = build(Profile("x"), MACHINE, setting(git_dirs=(git,), **direct))
    share = divide(plan, BY_LAUNCHER)

    place = next(mount.source for mount in share.bwrap if isinstance(mount, Bind) and mount.target == inside)
    assert share.aside == ((source, place),)
    assert not any(is_below(place, mount.target) for mount in share.launcher)
    assert divide(plan, BY_BWRAP).aside == ()


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
