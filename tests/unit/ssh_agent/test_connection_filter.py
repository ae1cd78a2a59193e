"""What the filter of the ssh-agent allows: the messages of one connection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.config.ssh_rules import SshHost
from agent_dev.ssh_agent.connection_filter import ConnectionFilter, FilterRules, SshRequestRefused
from agent_dev.ssh_agent.messages import Malformed, fingerprint, pack, pack_keys, parse_keys

HOST_KEY, KEY, SESSION = b"host key", b"user key", b"session"
RULES = FilterRules({HOST_KEY: (SshHost("git.example.org", user="git"),)}, frozenset({fingerprint(KEY)}), signs_git=True)
PLAIN, HOSTBOUND = b"publickey", b"publickey-hostbound-v00@openssh.com"
NUMBER = bytes(4)


def bind(key: bytes = HOST_KEY, session: bytes = SESSION, signature: bytes = b"good", forwarding: int = 0) -> bytes:
    fields = (b"session-bind@openssh.com", key, session, signature)
    return b"\x1b" + b"".join(map(pack, fields)) + bytes((forwarding,))


def login(session: bytes = SESSION, user: bytes = b"git", method: bytes = PLAIN, bound: bytes = b"", key: bytes = KEY) -> bytes:
    data = pack(session) + b"2" + pack(user) + pack(b"ssh-connection") + pack(method) + b"\1" + pack(b"alg") + pack(key)
    return sign(data + (pack(bound) if bound else b""))


def sign(data: bytes, key: bytes = KEY) -> bytes:
    return b"\r" + pack(key) + pack(data) + NUMBER


def signature_for(purpose: bytes) -> bytes:
    return b"SSHSIG" + b"".join(map(pack, (purpose, b"", b"sha512", b"digest")))


def check(*requests: bytes, rules: FilterRules = RULES) -> str:
    connection_filter = ConnectionFilter(
        rules, lambda key, signature, data: (key, signature, data) == (HOST_KEY, b"good", SESSION)
    )
    *before, last = requests
    for request in before:
        try:
            connection_filter.check(request)
        except SshRequestRefused:
            pass
    return connection_filter.check(last)


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ((b"\x0b",), ""),
        ((bind(),), "connect to git.example.org"),
        ((bind(), login()), "log in as git to git.example.org"),
        ((bind(), login(method=HOSTBOUND, bound=HOST_KEY)), "log in as git to git.example.org"),
        ((sign(signature_for(b"git")),), "sign a commit or tag"),
    ],
)
def test_a_destination_of_a_rule_is_allowed(requests: tuple[bytes, ...], text: str) -> None:
    assert check(*requests) == text


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ((login(),), "without a session binding"),
        ((bind(), login(session=b"another")), "a host other than"),
        ((bind(), login(user=b"root")), "no entry"),
        ((bind(), login(method=HOSTBOUND, bound=b"another")), "another host key"),
        ((bind(), login(key=b"another")), "another purpose"),
        ((bind(), login(method=b"hostbased")), "another purpose"),
        ((bind(), sign(b"")), "another purpose"),
        ((bind(), sign(pack(SESSION) + b"2")), "another purpose"),
        ((bind(), sign(login()[len(pack(KEY)) + 5 : -4] + b"x")), "another purpose"),
        ((bind(), sign(b"x", key=b"another key")), "`keys` does not name"),
        ((bind(key=b"another"),), "which no allowed host has"),
        ((bind(signature=b"bad"),), "did not sign"),
        ((bind(session=b""),), "did not sign"),
        ((bind(forwarding=1),), "forwarding"),
        ((bind(), bind()), "second host"),
        ((bind(), bind(), login()), "a host other than"),
        ((bind(), bind(), b"\x0b"), "a list of keys"),
        ((bind(forwarding=1), login()), "without a session binding"),
        ((bind(signature=b"bad"), bind(), login()), "without a session binding"),
        ((sign(signature_for(b"file")),), "a signature for 'file'"),
        ((b"\x11",), "another kind"),
        ((b"\x1b" + pack(b"query"),), "other than session-bind"),
    ],
)
def test_everything_else_is_refused(requests: tuple[bytes, ...], reason: str) -> None:
    with pytest.raises(SshRequestRefused, match=reason):
        check(*requests)


def test_without_leave_git_signatures_are_refused() -> None:
    with pytest.raises(SshRequestRefused, match="a signature for 'git'"):
        check(sign(signature_for(b"git")), rules=FilterRules({}, frozenset(), signs_git=False))


@given(st.binary(min_size=1, max_size=300) | st.binary(max_size=60).map(lambda data: b"\x1b" + data) | st.binary().map(sign))
def test_no_message_has_another_outcome_than_refusal(data: bytes) -> None:
    if data != b"\x0b":
        with pytest.raises((SshRequestRefused, Malformed)):
            check(data)


@given(st.lists(st.tuples(st.binary(), st.binary()), max_size=5))
def test_lists_of_keys_are_read_as_they_were_written(keys: list[tuple[bytes, bytes]]) -> None:
    assert parse_keys(pack_keys(keys)) == keys


@given(st.binary(max_size=100))
def test_a_malformed_list_of_keys_is_an_error(data: bytes) -> None:
    try:
        parse_keys(b"\x0c" + data)
    except Malformed:
        pass
