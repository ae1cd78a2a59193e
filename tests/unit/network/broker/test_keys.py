"""Which request gets the real key, and which is refused."""

import base64

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from agent_dev.config.credentials import Credential
from agent_dev.network.access import Denied
from agent_dev.network.broker.keys import BrokeredKey, Headers, Request, outside_request
from agent_dev.network.broker.stand_ins import make_stand_ins
from tests.harness.scale import printed_seed

REAL, STAND_IN = b"real-key", b"stand-in-0123456789"
HOST = (b"host", b"a.org")


def outside(*headers: tuple[bytes, bytes], method: str = "GET", target: str = "/v1", **fields: object) -> tuple[str, Headers]:
    credential = Credential(name="a", host="a.org", variable="A").replace(**fields)
    return outside_request(BrokeredKey(credential, REAL, STAND_IN), Request(method, target, (HOST, *headers)), 443)


def basic(user: bytes, password: bytes) -> bytes:
    return b"Basic " + base64.b64encode(user + b":" + password)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ((b"x-api-key", STAND_IN), (b"x-api-key", REAL)),
        ((b"authorization", b"Bearer " + STAND_IN), (b"authorization", b"Bearer " + REAL)),
        ((b"authorization", b"token " + STAND_IN), (b"authorization", b"token " + REAL)),
        ((b"authorization", basic(b"u", STAND_IN)), (b"authorization", basic(b"u", REAL))),
        ((b"authorization", basic(STAND_IN, b"")), (b"authorization", basic(REAL, b""))),
    ],
)
def test_the_stand_in_is_replaced_where_it_is(sent: tuple[bytes, bytes], expected: tuple[bytes, bytes]) -> None:
    assert outside(sent) == ("/v1", [HOST, expected])


def test_a_set_header_and_a_set_user_are_used() -> None:
    moved = outside((b"authorization", b"Bearer " + STAND_IN), header="x-key: Key")[1]
    assert moved == [HOST, (b"x-key", b"Key " + REAL)]
    assert outside((b"authorization", basic(b"u", STAND_IN)), user="me")[1][1][1] == basic(b"me", REAL)


@pytest.mark.parametrize(
    "header",
    [
        (b"x-api-key", b"other"),
        (b"authorization", b"Bearer " + STAND_IN + b"x"),
        (b"authorization", b"Bearer"),
        (b"authorization", basic(b"u", b"other")),
        (b"authorization", b"Basic ?"),
        (b"private-token", b"other"),
        (b"x-goog-api-key", STAND_IN + b", other"),
    ],
)
def test_another_key_is_refused_also_next_to_the_stand_in(header: tuple[bytes, bytes]) -> None:
    for headers in ((header,), ((b"x-api-key", STAND_IN), header), (header, (b"x-api-key", STAND_IN))):
        with pytest.raises(Denied, match="stand-in"):
            outside(*headers)


def test_without_a_key_a_request_is_forwarded_or_gets_one() -> None:
    assert outside()[1] == [HOST]
    assert outside(without_key="inject")[1] == [HOST, (b"authorization", b"Bearer " + REAL)]
    assert outside(without_key="inject", user="me")[1] == [HOST, (b"authorization", basic(b"me", REAL))]


@pytest.mark.parametrize(
    ("method", "target", "fields"),
    [
        ("CONNECT", "a.org:443", {}),
        ("GET", "http://b.org/", {}),
        ("GET", "/?api_key=other", {}),
        ("POST", "/v1", {"methods": ("GET",)}),
        ("GET", "/v2", {"paths": ("/v1/*",)}),
        ("GET", "/v1/../v2", {"paths": ("/v1/*",)}),
        ("GET", "/v1/%2e%2e/v2", {"paths": ("/v1/*",)}),
        ("GET", "/v1/..;/v2", {"paths": ("/v1/*",)}),
        ("GET", "/v1/%252e%252e/v2", {"paths": ("/v1/*",)}),
        ("POST", "/api/v4/merge", {"push": ("agent/*",)}),
        ("POST", "/r.git/git-receive-pack/", {"push": ("agent/*",)}),
        ("POST", "/r.git/GIT-RECEIVE-PACK", {"push": ("agent/*",)}),
        ("POST", "/r.git/%67it-receive-pack", {"push": ("agent/*",)}),
        ("PUT", "/r.git/git-receive-pack", {"push": ("agent/*",)}),
    ],
)
def test_a_request_that_a_limit_excludes_is_refused(method: str, target: str, fields: dict[str, object]) -> None:
    with pytest.raises(Denied):
        outside((b"x-api-key", STAND_IN), method=method, target=target, **fields)


@pytest.mark.parametrize("hosts", [(), (b"b.org",), (b"a.org", b"a.org"), (b"a.org:8443",), (b"a.org.",)])
def test_a_request_for_another_host_is_refused(hosts: tuple[bytes, ...]) -> None:
    key = BrokeredKey(Credential(name="a", host="a.org", variable="A"), REAL, STAND_IN)
    with pytest.raises(Denied, match="host"):
        outside_request(key, Request("GET", "/", tuple((b"host", one) for one in hosts)), 443)


NAMES = st.sampled_from((b"authorization", b"x-api-key", b"api-key", b"cookie", b"x-other", b"private-token", b"accept"))
VALUES = st.one_of(st.binary(max_size=30), st.sampled_from((STAND_IN, b"Bearer " + STAND_IN, basic(b"u", STAND_IN), b"Basic e")))


@seed(printed_seed())
@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.text(max_size=20))
def test_no_other_key_and_no_stand_in_gets_out_in_a_key_header(headers: list[tuple[bytes, bytes]], query: str) -> None:
    try:
        _, found = outside(*headers, target=f"/v1?{query}")
    except Denied:
        return
    for name, value in found:
        assert name != b"cookie"
        if name not in (b"host", b"x-other", b"accept"):
            assert REAL in value or REAL in base64.b64decode(value[6:])


def test_neither_key_is_shown_by_a_value() -> None:
    shown = repr(BrokeredKey(Credential(name="a", host="a.org", variable="A"), REAL, STAND_IN))
    assert REAL.decode() not in shown
    assert STAND_IN.decode() not in shown


def test_stand_ins_have_the_form_of_keys_and_are_never_the_same() -> None:
    values = [("a", (("host", "a.org"), ("variable", "GH_TOKEN"))), ("b", (("host", "b.org"), ("variable", "GH_TOKEN")))]
    ((name, first),), ((_, second),) = make_stand_ins(values), make_stand_ins(values)
    assert (name, first[:4], len(first)) == ("GH_TOKEN", "ghp_", 40)
    assert first != second
