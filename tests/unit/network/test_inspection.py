"""Inspection of what a client sends: the server name in TLS, the host of every HTTP request."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.network.access import Denied
from agent_dev.network.inspection import Inspection
from agent_dev.network.protocols.client_hello import ClientHelloReader
from agent_dev.network.refusal_responses import refusal_bytes

NAME = "api.example.org"
GET = b"GET / HTTP/1.1\r\nHost: api.example.org\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: API.example.org:80\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"PUT / HTTP/1.1\r\nHost: api.example.org\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
OTHER = b"GET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n"


def hello(name: str | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    context = ssl.create_default_context()
    context.maximum_version = version
    context.check_hostname = name is not None
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def in_records(data: bytes, size: int) -> bytes:
    """Return a ClientHello cut into several records, which is legal."""
    body = data[5:]
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(data[:3] + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def fed(inspection: Inspection, data: bytes, size: int = 1 << 16) -> bytes:
    return b"".join(inspection.feed(data[at : at + size]) for at in range(0, len(data), size))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_tls_for_the_same_name_or_none_passes_once_it_is_whole(version: ssl.TLSVersion, size: int) -> None:
    for name in (NAME, NAME.upper(), None):
        inspection, data = Inspection(NAME, 443), hello(name, version)
        assert fed(inspection, data[:-1], size) == b""
        assert inspection.feed(data[-1:] + b"more") == data + b"more"
        assert inspection.feed(b"later") == b"later"


@pytest.mark.parametrize("cut", [7, 60, 1 << 14])
def test_tls_for_another_name_is_denied_however_it_is_cut(cut: int) -> None:
    with pytest.raises(Denied, match="evil"):
        fed(Inspection(NAME, 443), in_records(hello("evil.example.net"), cut), 13)
    data = in_records(hello(NAME), cut)
    assert fed(Inspection(NAME, 443), data, 13) == data


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", b"\x16" + bytes(300), b"\x16\x03\x01\xff\xff" * 20000])
def test_data_that_only_resembles_tls_is_denied(data: bytes) -> None:
    with pytest.raises(Denied):
        fed(Inspection(NAME, 443), data)


@pytest.mark.parametrize("size", [1, 3, 40, 1 << 16])
def test_every_request_for_the_same_host_passes_unchanged(size: int) -> None:
    data = GET + POST + CHUNKED + GET
    assert fed(Inspection(NAME, 80), data, size) == data


@pytest.mark.parametrize("before", [b"", GET, POST, CHUNKED])
def test_a_request_for_another_host_is_held_back_and_denied(before: bytes) -> None:
    inspection = Inspection(NAME, 80)
    assert fed(inspection, before) == before
    assert inspection.feed(OTHER[:-4]) == b""
    with pytest.raises(Denied, match="evil"):
        inspection.feed(OTHER[-4:])


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: api.example.org\r\nHost: evil.example.net\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: y\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET http://evil.example.net/ HTTP/1.1\r\nHost: api.example.org\r\n\r\n",
        b"CONNECT evil.example.net:443 HTTP/1.1\r\nHost: api.example.org\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: api.example.org:8080\r\n\r\n",
        b"GET / HTTP/1.1\nHost: api.example.org\n\n",
        b"GET / HTTP/1.1\r\nHost: api.example.org\r\nX: a\nHost: evil.example.net\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: api.example.org\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: api.example.org\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        b"POST / HTTP/1.1\r\nHost: api.example.org\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: api.example.org\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : api.example.org\r\n\r\n",
        b"SSH-2.0-x\r\nHost: api.example.org\r\n\r\n",
        b"\0\1\2\r\n\r\n",
    ],
)
def test_ambiguous_requests_and_other_protocols_are_denied_on_port_80(head: bytes) -> None:
    with pytest.raises(Denied):
        fed(Inspection(NAME, 80), head)


def test_http_is_inspected_on_every_port_and_other_protocols_pass() -> None:
    with pytest.raises(Denied, match="evil"):
        fed(Inspection(NAME, 8080), OTHER, 1)
    assert fed(Inspection(NAME, 22), b"SSH-2.0-x\r\n", 1) == b"SSH-2.0-x\r\n"
    assert fed(Inspection(NAME, 5432), b"\0\0\0\x08\x04\xd2\x16\x2f", 1) == b"\0\0\0\x08\x04\xd2\x16\x2f"


UPGRADE = b"GET / HTTP/1.1\r\nHost: api.example.org\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"


@pytest.mark.parametrize("size", [1, 1 << 16])
def test_empty_lines_before_a_request_do_not_hide_it(size: int) -> None:
    with pytest.raises(Denied):
        fed(Inspection(NAME, 8080), b"\r\n\n" + OTHER, size)
    with pytest.raises(Denied):
        fed(Inspection(NAME, 8080), b"\r\n" * 40000, 1000)
    assert fed(Inspection(NAME, 8080), b"\r\nhello", size) == b"\r\nhello"


def test_a_body_that_waited_for_an_upgrade_is_counted_once() -> None:
    """The server has read it once, so that what follows is a request and no body."""
    one, hidden = Inspection(NAME, 80), b"GET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n"
    post = b"POST / HTTP/1.1\r\nHost: api.example.org\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    body = b"x" * len(post)
    head = UPGRADE.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % (2 * len(post)))
    sent = one.feed(head + body) + one.on_response(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert sent == head + body
    with pytest.raises(Denied, match="evil"):
        one.feed(post + hidden)


@pytest.mark.parametrize("before", [b"", GET])
@pytest.mark.parametrize("protocol", [b"h2c", b"h2c, websocket", b"websocket, h2c", b"TLS/1.0"])
def test_only_websocket_is_upgraded_to_and_only_first(before: bytes, protocol: bytes) -> None:
    with pytest.raises(Denied, match="upgrade"):
        fed(Inspection(NAME, 80), before + UPGRADE.replace(b"websocket", protocol))
    with pytest.raises(Denied, match="upgrade"):
        fed(Inspection(NAME, 80), GET + UPGRADE)


@pytest.mark.parametrize("method", [b"PURGE", b"PROPPATCH", b"M-SEARCH", b"QUERY"])
@pytest.mark.parametrize("size", [1, 1 << 16])
def test_rare_methods_are_http_too(method: bytes, size: int) -> None:
    with pytest.raises(Denied, match="evil"):
        fed(Inspection(NAME, 8080), OTHER.replace(b"GET", method), size)
    with pytest.raises(Denied):
        fed(Inspection(NAME, 8080), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", size)


def test_another_protocol_begins_only_when_the_server_agrees() -> None:
    agreed, refused = Inspection(NAME, 80), Inspection(NAME, 80)
    for one in (agreed, refused):
        assert one.feed(UPGRADE) == UPGRADE
        assert one.feed(OTHER) == b""
    assert agreed.on_response(b"HTTP/1.1 101 Switching Protocols\r\n\r\n") == OTHER
    assert agreed.feed(b"\x81\x05") == b"\x81\x05"
    with pytest.raises(Denied, match="evil"):
        refused.on_response(b"HTTP/1.1 200 OK\r\n\r\n")


@given(st.lists(st.binary(max_size=200), max_size=6), st.sampled_from([22, 80, 443, 8080]))
def test_nothing_but_denied_is_raised_and_nothing_is_invented(pieces: list[bytes], port: int) -> None:
    inspection = Inspection(NAME, port)
    forwarded = b""
    try:
        for piece in pieces:
            forwarded += inspection.feed(piece)
    except Denied:
        pass
    assert b"".join(pieces).startswith(forwarded)


_EVIL = b"evil.example.net"
# Pieces of requests. A body has at most five bytes, so that a forwarded name is not one in a body.
_FRAGMENTS = (
    *(
        b"GET / HTTP/1.1\r\n",
        b"POST /a HTTP/1.0\r\n",
        b"GET http://evil.example.net/ HTTP/1.1\r\n",
        b"CONNECT evil.example.net:443 ",
    ),
    *(
        b"Host: api.example.org",
        b"Host: evil.example.net",
        b"host:evil.example.net",
        b"Host : evil.example.net",
        b"Host:\tapi.example.org",
    ),
    *(
        b"Content-Length: 5",
        b"Content-Length: 0",
        b"Content-Length: +5",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: xchunked",
    ),
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\n\n",
        b" ",
        b"\t",
        b"\0",
        b":",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"hello",
        b"X: y\r\n",
    ),
    *(b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n", GET, POST, CHUNKED, OTHER),
)


@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=14), st.sampled_from([80, 8080]), st.integers(1, 40))
def test_no_mix_of_requests_names_another_host(fragments: list[bytes], port: int, size: int) -> None:
    inspection, data, forwarded = Inspection(NAME, port), GET + b"".join(fragments), b""
    try:
        for at in range(0, len(data), size):
            forwarded += inspection.feed(data[at : at + size])
    except Denied:
        pass
    assert _EVIL not in forwarded
    assert data.startswith(forwarded)


_HELLOS = {name: hello(name) for name in (NAME, "evil.example.net")}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # from `ssl`: a name that is not ASCII
@given(
    st.sampled_from(sorted(_HELLOS)),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=4),
    st.integers(1, 700),
    st.integers(1, 700),
)
def test_a_changed_client_hello_is_forwarded_only_for_the_name(
    name: str, changes: list[tuple[int, int]], record: int, piece: int
) -> None:
    data = bytearray(_HELLOS[name])
    for at, value in changes:
        data[at % len(data)] = value
    data = bytearray(in_records(bytes(data), record))
    inspection, forwarded = Inspection(NAME, 443), b""
    try:
        for at in range(0, len(data), piece):
            forwarded += inspection.feed(bytes(data[at : at + piece]))
    except Denied:
        pass
    assert data.startswith(forwarded)
    if inspection.protocol == "tls" and forwarded:
        reader = ClientHelloReader()
        assert reader.feed(forwarded)
        assert reader.name.lower().removesuffix(".") in ("", NAME)


def test_a_refusal_speaks_the_protocol() -> None:
    assert refusal_bytes(b"\x16\x03\x01", "no") == b"\x15\x03\x01\x00\x02\x02\x31"
    assert refusal_bytes(b"POST / HTTP/1.1", "agent-dev: no").endswith(b"\r\n\r\nagent-dev: no\n")
    assert refusal_bytes(b"SSH-2.0", "no") == b""
