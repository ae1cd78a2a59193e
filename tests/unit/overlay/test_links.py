"""Links that leave the root through other links, even if only some of the changes are selected."""

import pytest

from agent_dev.overlay.symlinks import combined_lookup, escapes_root, no_links, redirected_links

Links = dict[bytes, bytes]


def alone(links: Links, path: bytes) -> bool:
    """Return whether a link leaves the root in a tree that contains all these links."""
    return escapes_root(path, links[path], lambda one: (links.get(one),))


@pytest.mark.parametrize(
    ("target", "is_out"),
    [("a", False), ("../a", False), ("../../a", True), ("/etc/passwd", True), ("x/../../..", True), ("../.git/config", True)],
)
def test_a_symlink_is_resolved_by_its_components(target: str, is_out: bool) -> None:  # noqa: FBT001
    assert escapes_root(b"d/link", target.encode()) is is_out


def test_two_symlinks_that_only_together_leave_the_root_are_found() -> None:
    links = {b"a/b/c": b"../..", b"key": b"a/b/c/../secret"}

    assert alone(links, b"key")
    assert not alone(links, b"a/b/c")
    assert not escapes_root(b"key", links[b"key"], no_links)


def test_a_symlink_safe_with_all_changes_but_not_with_some_is_found() -> None:
    user = {b"d": b"."}.get
    look = combined_lookup({b"d": (None,), b"key": (b"d/../secret",)}, user)

    assert escapes_root(b"key", b"d/../secret", look)


def test_a_symlink_through_an_absolute_one_is_found() -> None:
    assert alone({b"data": b"/srv/data", b"key": b"data/x"}, b"key")


def test_a_symlink_loop_ends_without_a_target() -> None:
    links = {b"a": b"b", b"b": b"a", b"c": b"c/../c"}

    assert not any(alone(links, path) for path in links)


def test_symlinks_that_take_too_long_to_resolve_count_as_leaving_the_root() -> None:
    names = [b"l%d" % number for number in range(39)]
    links = {name: b"/".join((after,) * 600) for name, after in zip(names, [*names[1:], b"x"], strict=True)}

    assert alone(links, names[0])


def test_an_agents_link_that_redirects_the_users_link_outwards_is_found() -> None:
    existing = {b"key": b"a/b/../../secret", b"other": b"x/y"}
    agent = {b"a/b": (b"../z",), b"new": (b"x",)}

    assert redirected_links(existing.items(), agent, existing.get) == frozenset((b"a/b",))


def test_a_link_of_the_user_that_already_left_the_root_is_not_the_agents() -> None:
    existing = {b"key": b"../a/secret"}
    agent = {b"a": (b".",)}

    assert redirected_links(existing.items(), agent, existing.get) == frozenset()
