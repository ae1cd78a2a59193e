"""Entries of `publish:`."""

import pytest

from agent_dev.config.published_ports import PublishedPort, fixed_ports, parse_published


@pytest.mark.parametrize(
    ("text", "address", "outside", "inside", "is_optional"),
    [
        ("3000", "127.0.0.1", 3000, 3000, False),
        ("8080:80", "127.0.0.1", 8080, 80, False),
        ("1455?", "127.0.0.1", 1455, 1455, True),
        ("0.0.0.0:8080:80", "0.0.0.0", 8080, 80, False),  # noqa: S104
        ("[::1]:8080:80?", "::1", 8080, 80, True),
    ],
)
def test_an_entry_names_address_and_ports(text: str, address: str, outside: int, inside: int, *, is_optional: bool) -> None:
    assert parse_published(text) == PublishedPort(text, address, outside, inside, is_optional)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "65536",
        "x",
        "80:",
        ":80",
        "-1",
        "1:2:3",
        "x.org:1:2",
        "::1:80:80",
        "[::1]:80",
        "[::1]",
        "80:80:80:80",
        "٣",
        "auto?",
        "1 ",
    ],
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|is written"):
        parse_published(text)


def test_auto_names_no_port() -> None:
    assert [port.text for port in fixed_ports(("auto", "3000"))] == ["3000"]


@pytest.mark.parametrize(
    ("address", "is_local"), [("127.0.0.1", True), ("127.9.9.9", True), ("[::1]", True), ("10.0.0.1", False)]
)
def test_only_loopback_addresses_are_local(address: str, *, is_local: bool) -> None:
    (port,) = fixed_ports((f"{address}:80:80",))
    assert port.is_local == is_local
