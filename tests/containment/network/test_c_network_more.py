"""CONTAINMENT C: more ways out of a network of the sandbox's own: other spellings, protocols, sockets, other sessions, floods."""

import json
import os
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.containment.network.attempts import API, EVIL, OPTIONS, attempt
from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.inside_python import InsidePython, inside_python
from tests.harness.internet import CLIENT, PORT, in_internet
from tests.harness.program import PYTHON, wait_until
from tests.harness.servers.proxies import HTTP_PORT, PASSWORD, USER


@row(
    "hide another name behind other first bytes: text before TLS, TLS on port 80, HTTP on the port of TLS",
    "`net: allow`: on every port, the first bytes determine the protocol; port 80 is always HTTP; OpenSSL reads the ClientHello",
)
def test_c80_first_bytes_hide_no_other_name(allowed: InsidePython) -> None:
    code = f"""
def hello(name):
    outgoing, context = ssl.MemoryBIO(), ssl.create_default_context()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
def send(port, *pieces):
    try:
        with socket.create_connection(({API!r}, port), 3) as one:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                one.sendall(piece)
                time.sleep(0.02)
            return one.recv(4000).decode("latin-1")
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
evil, good = hello({EVIL!r}), hello({API!r})
get = b"GET / HTTP/1.1\\r\\nHost: {EVIL}\\r\\n\\r\\n"
cases = [
    (443, b"\\n", evil), (443, evil[:1], evil[1:3], evil[3:]), (80, evil), (443, get), (443, b"\\r\\n" + get),
    (443, good[:5] + b"\\x02" + good[6:]), (80, b"\\0" * 64), (80, b"SSH-2.0-x\\r\\n"), (80, get[:3], get[3:]),
    (443, b"\\x80\\x2e\\x01\\x03\\x01" + bytes(43)), (443, b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"),
]
result = at_once(lambda case: send(*case), cases)
"""
    found = attempt(allowed, code)
    assert not any("OUT" in answer for answer in found)
    assert [answer.split(" ")[1] for answer in (found[3], found[4], found[8])] == ["403"] * 3


LITERALS = ["1.1.1.1", "0.0.0.0", "127.1", "0135.0270.0327.016", "93.184.215.14.", "198.19.255.1", "224.0.0.1"]  # noqa: S104
LITERALS += [
    "::93.184.215.14",
    "::ffff:5db8:d70e",
    "64:ff9b:1::5db8:d70e",
    "fe80::1",
    "ff02::1",
    "fd00:ec2::254",
    "2001:0:5db8:d70e::",
]
LITERALS += ["168.63.129.16", "192.0.0.192", "xn--n3h.example.net", f"{EVIL}.", f"a.{API}", "*.example.org", "x.localhost"]


@row(
    "connect to an address or a similar name in yet another spelling: octal, short, compatible, Teredo, broadcast",
    "`net: allow`: the destination of the captured connection decides, not its spelling; a name is compared in full",
)
def test_c81_no_spelling_gets_around_the_rules(allowed: InsidePython) -> None:
    code = f"result = ask_all(*((one, port, b'') for port in (80, {PORT}) for one in {LITERALS}))"
    found = attempt(allowed, code)
    assert not [place for place, answer in zip(LITERALS * 2, found, strict=True) if "OUT" in answer]


@row(
    "use sockets of other kinds: MPTCP, TCP fast open, UDP-Lite, DCCP, raw IPv6, source routes, transparent ones",
    "`net: allow`: MPTCP and fast open are captured as TCP; for the others the kernel needs a capability, or a rule refuses them",
)
def test_c82_other_sockets_lead_nowhere(allowed: InsidePython) -> None:
    code = f"""
def send(family, kind, protocol=0, options=(), source=None, fast=False, address="93.184.215.14", port={PORT}):
    try:
        with socket.socket(family, kind, protocol) as one:
            one.settimeout(2)
            for option in options:
                one.setsockopt(*option)
            if source:
                one.bind(source)
            if fast:
                one.settimeout(None)
                one.sendto(b"GET / HTTP/1.0\\r\\n\\r\\n", 0x20000000, (address, port))
            else:
                one.connect((address, port))
                one.sendall(b"x")
            return one.recv(400).decode("latin-1")
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
four, six, stream, datagram, raw = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
route = bytes((131, 7, 4, 93, 184, 215, 14, 0))
cases = [
    lambda: send(four, stream, 262), lambda: send(four, stream, fast=True), lambda: send(four, datagram, 136),
    lambda: send(four, 6, 33), lambda: send(six, raw, 58), lambda: send(four, stream, options=[(0, 4, route)]),
    lambda: send(four, stream, options=[(1, 25, b"eth0")]), lambda: send(four, stream, options=[(0, 19, 1)]),
    lambda: send(four, stream, source=("198.18.0.1", 0)), lambda: send(four, datagram, source=("198.18.0.1", 0), port=53),
    lambda: send(four, datagram, port=443), lambda: send(four, datagram, port=853), lambda: send(17, 3, 768),
    lambda: send(socket.AF_VSOCK, stream, address=2),
]
result = at_once(lambda case: case(), cases)
"""
    found = attempt(allowed, code)
    assert not any("OUT" in answer for answer in found)
    assert found[0] == "ECONNRESET"
    assert found[1] in ("ECONNRESET", "EINPROGRESS") or found[1].startswith("HTTP/1.1 403 ")


SMUGGLED = [
    "GET / HTTP/1.1\r\nHost: {api}\r\nHost: {evil}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost : {evil}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {api}@{evil}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {api},{evil}\r\n\r\n",
    "GET / HTTP/1.1\r\nX: y\r\n Host: {evil}\r\nHost: {evil}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost:\t{evil}\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET / HTTP/0.9\r\n\r\n",
    "GET /\r\n",
    "GET //{evil}/ HTTP/1.1\r\nHost: {evil}\r\n\r\n",
    "GET {evil}:80 HTTP/1.1\r\nHost: {api}\r\n\r\n",
    "\r\n\r\nGET / HTTP/1.1\r\nHost: {evil}\r\n\r\n",
    "get / HTTP/1.1\r\nHost: {evil}\r\n\r\n",
    "GET / HTTP/1.1\nHost: {evil}\n\n",
    "GET / HTTP/1.1\r\nHost: {api}\x00.{evil}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {api}\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nGET / HTTP/1.1\r\nHost: {evil}\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: {api}\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\nGET / HTTP/1.1\r\nHost: {evil}\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: {api}\r\nTransfer-Encoding: xchunked\r\n\r\nGET / HTTP/1.1\r\nHost: {evil}\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: {api}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: {evil}\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: {api}\r\nContent-Length: +0\r\n\r\nGET / HTTP/1.1\r\nHost: {evil}\r\n\r\n",
]


@row(
    "smuggle a request for another host: two hosts, folded lines, strange lengths and encodings, upgrades, an old version",
    "`net: allow`: each request is parsed strictly; ambiguous requests are refused",
)
def test_c83_no_request_is_smuggled(allowed: InsidePython) -> None:
    pieces = [text.format(api=API, evil=EVIL) for text in SMUGGLED]
    code = f"""
def talk(text):
    try:
        with socket.create_connection(({API!r}, 80), 10) as one:
            one.sendall(text.encode("latin-1"))
            one.shutdown(socket.SHUT_WR)
            answer = b""
            while data := one.recv(4000):
                answer += data
            return answer.decode("latin-1")
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
result = [talk(text) for text in {pieces!r}]
"""
    found = attempt(allowed, code)
    assert not [text for text, answer in zip(pieces, found, strict=True) if f"host={EVIL}" in answer or answer.count("OUT") > 1]
    assert sum("OUT" in answer for answer in found) <= 1  # the chunked request itself is a good one


@row(
    "flood the gateway with broken DNS packets, or tunnel by DNS over TCP, TLS or HTTPS to servers of the agent's choice",
    "`net: allow`: the gateway answers every DNS query itself, over UDP and TCP; other ports need a rule",
)
def test_c84_no_other_kind_of_dns_gets_out(allowed: InsidePython) -> None:
    code = f"""
import os, random
def question(name, kind=1):
    data = struct.pack(">HHHHHH", 9, 0x100, 1, 0, 0, 0)
    return data + b"".join(bytes((len(part),)) + part.encode() for part in name.split(".")) + struct.pack(">BHH", 0, kind, 1)
def over_tcp(server, data):
    try:
        with socket.create_connection((server, 53), 10) as one:
            one.sendall(struct.pack(">H", len(data)) + data)
            return one.recv(4000)[9]
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
random.seed(5)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    for number in range(2000):
        data = bytearray(question({API!r}) if number % 3 else os.urandom(random.randrange(1, 600)))
        for _ in range(random.randrange(6)):
            data[random.randrange(len(data))] = random.randrange(256)
        one.sendto(bytes(data) + b"\\xc0\\x0c" * random.randrange(3), ("9.9.9.9", 53))
result = [over_tcp("93.184.215.14", question({API!r})), over_tcp("8.8.8.8", question("x.tunnel.example.net", 16))]
result += [ask("9.9.9.9", 853, b""), ask("1.1.1.1", 443, tls="one.example.net"), ask({API!r}, {PORT})]
"""
    first, second, tls, https, after = attempt(allowed, code)
    assert (first, second) == (1, 0)
    assert (tls, https) == ("ECONNRESET", "TLSV1_ALERT_ACCESS_DENIED")
    assert "OUT" in after


@row(
    "use the network of another session: its gateway, its opener, its published ports, or its sockets in /proc",
    "each session has a network, a gateway and a pid namespace of its own; published ports are on this machine's loopback",
)
def test_c85_another_sessions_network_is_not_reachable(world: Machine) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = "import os, socket, sys; s = socket.create_server(('127.0.0.1', 3000)); "
    server += "open(os.path.expanduser('~/ready'), 'w').close(); sys.stdin.read()"
    words = ("--net", "allow", "--allow", API, "--publish", f"{port}:3000", "--no-merge", "--", PYTHON, "-I", "-c", server)
    with world.program.start(*words) as process:
        wait_until((world.program.agent_home / "ready").exists, "it runs")
        with socket.create_connection(("127.0.0.1", port), 10):
            pass
        code = f"""
import os
places = [("127.0.0.1", {port}), ("127.0.0.1", 3000), ("198.18.0.1", 1), ("198.18.0.2", 3000), ("::1", 3000), ("fd00:ad::1", 1)]
result = [ask_all(*((host, port, b"") for host, port in places)), len([name for name in os.listdir("/proc") if name.isdecimal()])]
"""
        done = world.program(
            *("--net", "allow", "--home", world.folder / "other", "--no-merge", "--", PYTHON, "-I", "-c"),
            f"{CLIENT}\n{code}\nprint(json.dumps(result))",
        )
        assert done.returncode == 0, done.stderr
        answers, processes = json.loads(done.stdout)
        assert set(answers) == {"ECONNREFUSED", "ECONNRESET"}
        assert processes < 5
        process.communicate(timeout=60)


@row(
    "take the place of a database or another known service on this machine's loopback, by `publish: [auto]`",
    "`auto` publishes ports of known services and those below 1024 at another number",
)
def test_c86_auto_takes_no_known_ports(world: Machine) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 9042)) == 0:
            pytest.skip("a server of this machine listens at the port")
    code = "import os, socket, sys; s = socket.create_server(('127.0.0.1', 9042)); print('listens', flush=True); sys.stdin.read()"
    with world.program.start("--net", "none", "--publish", "auto", "--no-merge", "--", PYTHON, "-I", "-c", code) as process:
        assert process.stdout
        assert process.stdout.readline() == "listens\n"
        (listed,) = wait_until(lambda: world.program.status()["published"], "it is published")
        assert listed["inside"] == 9042
        assert listed["outside"] != 9042
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", 9042)) != 0
        process.communicate(timeout=60)


@row(
    "find the password of the proxy that the gateway uses, or use that proxy: variables, files, its port",
    "only the gateway's process knows the proxy; its variables are not passed; the host's loopback is not reachable",
)
def test_c87_the_proxy_outside_is_not_usable_inside(world: Machine) -> None:
    folder = Path(world.program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(f"upstream_proxy: http://{USER}:canary-{quote(PASSWORD)}@127.0.0.1:{HTTP_PORT}\n")
    code = f"""
import os, pathlib
texts = [repr(dict(os.environ))]
for top in ("/proc/self", "/proc/1", "/run", "/etc", os.path.expanduser("~"), os.getcwd(), "/tmp"):
    for path, folders, files in os.walk(top):
        folders[:] = [one for one in folders if one not in ("task", "map_files", "fd", "attr", "net")]
        for name in files:
            try:
                with open(os.path.join(path, name), "rb") as file:
                    texts.append(file.read(1 << 20).decode("latin-1"))
            except OSError:
                pass
result = [any("canary" in text for text in texts), len(texts) > 50]
result += [ask("127.0.0.1", {HTTP_PORT}, b"x"), ask("localhost", {HTTP_PORT}, b"x")]
"""
    code = "open('new', 'w').close()\n" + code.replace('"canary"', '"cana" + "ry"')  # the session is kept
    env = {"https_proxy": f"http://{USER}:canary-{quote(PASSWORD)}@127.0.0.1:{HTTP_PORT}"}
    done = world.program(
        *(
            "--net",
            "allow",
            "--allow",
            API,
            "--no-merge",
            "--",
            PYTHON,
            "-I",
            "-c",
            f"{CLIENT}\n{code}\nprint(json.dumps(result))",
        ),
        before=in_internet(),
        env=env,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [False, True, "ECONNREFUSED", "ECONNREFUSED"]
    kept = [Path(top) / name for top, _, names in os.walk(world.program.state) for name in names]
    assert not [path for path in kept if path.is_file() and not path.is_symlink() and b"canary" in path.read_bytes()]


@row(
    "flood the gateway with idle connections, more than it serves, and use up what others need",
    "`net: allow`: an idle client opens nothing outside; connections beyond 4096 are reset; the gateway is the sandbox's own",
)
def test_c88_idle_connections_do_not_starve_others(allowed: InsidePython) -> None:
    code = f"""
import resource, select
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
count = min(2048, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)
address = socket.gethostbyname({API!r})
idle = [socket.socket() for _ in range(count)]
poll = select.poll()
for one in idle:
    one.setblocking(False)
    one.connect_ex((address, 443))
    poll.register(one, select.POLLOUT)
held = 0
while held < count and (ready := poll.poll(10000)):
    for fd, _ in ready:
        poll.unregister(fd)
        held += 1
begin = time.monotonic()
result = [ask({API!r}, 443, b"GET /accepted HTTP/1.1\\r\\nHost: {API}\\r\\n\\r\\n"), time.monotonic() - begin, held]
"""
    answer, seconds, held = attempt(allowed, code)
    assert held > 200
    assert int(answer.rpartition("accepted=")[2]) < held // 2  # the server saw none of them
    assert seconds < 5  # alone 0.02


@row(
    "keep the gateway busy with DNS queries, as many as the sandbox can send",
    "`net: allow`: the gateway answers 4,000 queries at once and 2,000 per second, and drops the others",
)
def test_c93_dns_queries_have_a_rate_limit(allowed: InsidePython) -> None:
    code = f"""
import select
data = struct.pack(">HHHHHH", 9, 0x100, 1, 0, 0, 0) + b"\\x04name\\x07example\\x03net\\0\\0\\1\\0\\1"
time.sleep(2)  # the limit is unused again
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.setblocking(False)
    begin = time.monotonic()
    sent = answered = 0
    while answered < 20000 and time.monotonic() < begin + 2:
        try:
            one.sendto(data, ("9.9.9.9", 53))
            sent += 1
        except BlockingIOError:
            pass
        while select.select([one], [], [], 0)[0]:
            one.recv(4096)
            answered += 1
    seconds = time.monotonic() - begin
time.sleep(1)
result = [sent, answered, seconds, ask({API!r}, {PORT})]
"""
    sent, answered, seconds, after = attempt(allowed, code)
    limit = 4000 + 2000 * seconds
    assert sent > 1.5 * limit  # otherwise the limit is not reached
    assert 1000 < answered < 1.1 * limit
    assert "OUT" in after


@row(
    "fill the gateway's memory with names",
    "`net: allow`: the gateway knows 65,536 names; more get no address, and those that it knows keep theirs",
)
@pytest.mark.slow  # half a minute, because of the rate limit
def test_c94_the_table_of_names_is_bounded(shared: Machine) -> None:
    code = f"""
def query(one, name):
    one.send(struct.pack(">HHHHHH", 9, 0x100, 1, 0, 0, 0) + bytes((len(name),)) + name.encode() + b"\\0\\0\\1\\0\\1")
    return one.recv(4096)[3:8:4]  # response code, number of addresses
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.connect(("9.9.9.9", 53))
    one.settimeout(5)
    before = ask({API!r}, {PORT})
    first, known, answer = query(one, "first"), 2, None
    while known < 70000:
        try:
            answer = query(one, f"n{{known}}")
        except TimeoutError:
            continue  # beyond the rate limit
        if answer[1] == 0:
            break
        known += 1
        time.sleep(0.0004)
    result = [list(first), known, list(answer), list(query(one, "first")), before, ask({API!r}, {PORT})]
"""
    with inside_python(shared.program, *OPTIONS, before=in_internet()) as sandbox:  # its own, because it is full afterwards
        first, known, refused, again, before, after = attempt(sandbox, code)
    assert first == again == [0x80, 1]
    assert 65000 < known <= 65536
    assert refused == [0x82, 0]  # SERVFAIL
    assert "OUT" in before
    assert "OUT" in after


@row(
    "reach the gateway from a network namespace of a nested sandbox, or lead its connections past the rules",
    "a nested namespace is empty: it has no interface; for a socket that was brought along, the sandbox's rules hold",
)
def test_c89_nested_networks_lead_nowhere(allowed: InsidePython) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
before, outer = os.open("/proc/self/ns/net", os.O_RDONLY), socket.socket()
reader, writer = os.pipe()
if os.fork() == 0:
    entered = libc.unshare(0x10000000 | 0x40000000)
    places = (("198.18.0.1", 1), ("93.184.215.14", 80), ("127.0.0.1", 8081), ("api.example.org", 80))
    found = [ask(host, port, b"") for host, port in places]
    try:  # a socket of the sandbox's network: its rules still hold
        outer.settimeout(5)
        outer.connect(("93.184.215.14", 80))
        outer.sendall(b"GET / HTTP/1.1\\r\\nHost: 93.184.215.14\\r\\n\\r\\n")
        found.append(outer.recv(400).decode())
    except OSError as error:
        found.append(errno.errorcode.get(error.errno, str(error)))
    found.append("entered" if libc.setns(before, 0x40000000) == 0 else "EPERM")
    os.write(writer, json.dumps([entered, found]).encode())
    os._exit(0)
result = json.loads(os.read(reader, 65536))
"""
    _, found = attempt(allowed, code)
    assert not any("OUT" in answer for answer in found)
    assert found[-1] == "EPERM"


@row(
    "plant a library in the repository that the gateway would load, while `PYTHONPATH` leads there",
    "the gateway loads libraries from no directory that the agent writes",
)
def test_c92_the_gateway_loads_no_library_of_the_agents(world: Machine) -> None:
    library, marker = world.program.repo / "h11", world.folder / "loaded"
    library.mkdir()
    (library / "__init__.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise ImportError")
    done = world.program("--net", "allow", "--", "true", env={"PYTHONPATH": str(world.program.repo)})
    assert (done.returncode, marker.exists()) == (0, False), done.stderr
