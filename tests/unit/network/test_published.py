"""Published ports: which numbers `auto` uses outside, and how a session lists them."""

from pathlib import Path

import pytest

from agent_dev.network.published.automatic import outside_ports
from agent_dev.session.published import ListedPort, read_published, url_of


@pytest.mark.parametrize(
    ("inside", "outside"), [(3000, (3000, 0)), (22, (0,)), (443, (0,)), (5432, (0,)), (6379, (0,)), (65535, (65535, 0))]
)
def test_a_server_cannot_take_the_place_of_a_known_service(inside: int, outside: tuple[int, ...]) -> None:
    assert outside_ports(inside) == outside


@pytest.mark.parametrize(
    ("session", "address", "url"),
    [
        ("fix-login", "127.0.0.1", "http://fix-login.localhost:3000"),
        ("Über_1.2", "127.0.0.1", "http://ber-1-2.localhost:3000"),
        ("...", "127.0.0.1", "http://localhost:3000"),
        ("x", "10.0.0.1", "http://10.0.0.1:3000"),
        ("x", "::1", "http://[::1]:3000"),
    ],
)
def test_the_address_for_a_browser_names_the_session(session: str, address: str, url: str) -> None:
    assert url_of(ListedPort(3000, address, 3000), session) == url


@pytest.mark.parametrize("text", ["", "{", "[1]", '[["a", "b", 1]]', "[[1, 2]]", '[[1, "127.0.0.1", 70000]]', "[" * 5000, "null"])
def test_a_damaged_list_of_ports_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "published.json").write_text(text)
    assert read_published(str(tmp_path)) == ()


def test_listed_ports_are_read(tmp_path: Path) -> None:
    (tmp_path / "published.json").write_text('[[80, "127.0.0.1", 8080]]')
    assert read_published(str(tmp_path)) == (ListedPort(80, "127.0.0.1", 8080),)
