"""The keys of an X display: those of this display, as valid for any host, and no others."""

from agent_dev.linux.x_authority import wild_entries

KEY = b"MIT-MAGIC-COOKIE-1", b"0123456789abcdef"
LOCAL, INTERNET, WILD = 256, 0, 0xFFFF


def entry(family: int, address: bytes, number: bytes) -> bytes:
    """Return an entry of an Xauthority file."""
    return family.to_bytes(2) + b"".join(len(part).to_bytes(2) + part for part in (address, number, *KEY))


def test_keys_of_this_display_are_valid_for_any_host() -> None:
    data = entry(LOCAL, b"host", b"1") + entry(WILD, b"", b"")
    assert wild_entries(data, "1") == entry(WILD, b"", b"") * 2


def test_keys_of_other_displays_and_hosts_are_left_out() -> None:
    assert wild_entries(entry(LOCAL, b"host", b"2") + entry(INTERNET, b"\x0a\0\0\1", b"1"), "1") == b""


def test_an_incomplete_entry_is_left_out() -> None:
    whole = entry(LOCAL, b"host", b"1")
    found = {wild_entries(whole + whole[:size], "1") for size in range(len(whole))}
    assert found == {entry(WILD, b"", b"")}
