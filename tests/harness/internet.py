"""A small internet on one machine: `python -m tests.harness.internet COMMAND…` runs COMMAND where names resolve to its servers.

It is a network namespace with global addresses on lo, so that nothing leaves the machine, and needs no root. Each server
returns what it received. HTTP is on ports 80 and 8080, TLS on 443, a server that speaks first on PORT.
"""

import atexit
import ctypes
import os
import shutil
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

from agent_dev.linux import syscalls
from agent_dev.network import netlink
from tests.harness.servers import brokered_host
from tests.harness.servers.proxies import serve_proxies

ROOT = Path(__file__).parents[2]
NAMES = {  # name: addresses
    "api.example.org": ("93.184.215.14",),
    "evil.example.net": ("93.184.215.14",),  # the same address, as behind one CDN
    "files.example.org": ("93.184.215.15",),
    "six.example.org": ("2606:2800:21f::16",),
    "rebound.example.org": ("93.184.215.14", "127.0.0.1"),
    "meta.example.org": ("169.254.169.254",),
    "corp.example.org": ("10.9.8.7",),
    "loop.example.org": ("127.0.0.1",),
    brokered_host.API: (brokered_host.ADDRESS,),
    brokered_host.GIT: (brokered_host.ADDRESS,),
    brokered_host.UNCERTIFIED: (brokered_host.ADDRESS,),
}
CERTIFIED = tuple(name for name in NAMES if name != brokered_host.UNCERTIFIED)
PORT, LOCAL_PORT = 7000, 8081
_CERTIFICATE = "AGENT_DEV_TEST_CERTIFICATE"
BRIDGE = "AGENT_DEV_TEST_BRIDGE"  # a variable: the Unix socket to which the brokered API and BRIDGED (without TLS) are forwarded
BRIDGED = ("10.9.8.7", 5432)


def make_certificate(folder: Path, *names: str) -> Path:
    """Make a certificate for some names, or all of this internet, and its key; return the file."""
    path = folder / "site.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=internet", "-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names or CERTIFIED)]
    subprocess.run([*words, "-keyout", folder / "key.pem", "-out", path], check=True, capture_output=True)
    path.write_text(path.read_text() + (folder / "key.pem").read_text())
    path.chmod(0o644)
    return path


@cache
def in_internet() -> tuple[str, ...]:
    """Return the words before a command that run it there."""
    folder = Path(tempfile.mkdtemp(prefix="agent-dev-internet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    certificate = f"{_CERTIFICATE}={make_certificate(folder)}"
    return ("env", f"PYTHONPATH={ROOT}", certificate, sys.executable, "-m", "tests.harness.internet")


# For a program inside: `ask` connects and returns the server's answer, or the error.
CLIENT = """
import errno, json, socket, ssl, struct, sys, time
def ask(host, port, data=None, tls=None, family=0):
    try:
        if data is None:
            data = b"" if port == 7000 else b"GET / HTTP/1.1\\r\\nHost: %b\\r\\n\\r\\n" % host.encode()
        is_tls = tls is not None or port == 443
        context = ssl._create_unverified_context() if is_tls else None  # first: a client that is slow to speak is reset
        with socket.create_connection((host, port), 10) as plain:
            one = plain
            if context:
                one = context.wrap_socket(plain, server_hostname=host if tls is None else tls or None)
            one.sendall(data)
            return one.recv(4000).decode("latin-1")
    except ssl.SSLError as error:
        return error.reason
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
def at_once(run, cases):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(64) as pool:
        return [*pool.map(run, cases)]
def ask_all(*calls):  # at the same time: a silent client waits half a second for its refusal
    return at_once(lambda call: ask(*call), calls)
"""


class _Web(socketserver.BaseRequestHandler):
    """Answers each request of a connection with its first line and host; /upgrade switches to an echo."""

    def handle(self) -> None:
        data = b""
        while more := self.request.recv(65536):
            data += more
            while b"\r\n\r\n" in data:
                head, _, data = data.partition(b"\r\n\r\n")
                self._answer(head)

    def _answer(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        host = next((line[6:] for line in lines if line.lower().startswith(b"host: ")), b"-")
        if b"/upgrade" in first:
            self.request.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
            while data := self.request.recv(100):
                self.request.sendall(data)
            return
        more = b" accepted=%d" % self.server.accepted if b"/accepted" in first else b""  # type: ignore[attr-defined]
        body = b"OUT %b host=%b%b\n" % (first, host, more)
        self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


class _Hello(socketserver.BaseRequestHandler):
    """Speaks first, as many servers do."""

    def handle(self) -> None:
        self.request.sendall(b"OUT hello from %b\n" % self.request.getsockname()[0].encode())


class _Bridge(socketserver.BaseRequestHandler):
    """Forwards connections to a server outside of this internet, through a Unix socket."""

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as outside:
            outside.connect(os.environ[BRIDGE])
            thread = threading.Thread(target=_copy, args=(outside, self.request), daemon=True)
            thread.start()
            _copy(self.request, outside)
            thread.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one of them is gone


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 2048
    tls: ssl.SSLContext | None = None

    def __init__(self, address: str, port: int, handler: type[socketserver.BaseRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), handler)
        self.accepted = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def process_request(self, request: socket.socket, address: object) -> None:  # type: ignore[override]
        """Count a connection, and start its thread."""
        self.accepted += 1
        super().process_request(request, address)

    def finish_request(self, request: socket.socket, address: object) -> None:  # type: ignore[override]
        """Serve one connection, in its own thread."""
        try:
            super().finish_request(self.tls.wrap_socket(request, server_side=True) if self.tls else request, address)
        except OSError:
            pass  # the client is gone, or does not speak TLS


def _serve() -> "list[socketserver.BaseServer]":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.environ[_CERTIFICATE])
    servers: list[socketserver.BaseServer] = [*serve_proxies()]
    for address in sorted({one for found in NAMES.values() for one in found}):
        servers += [_Server(address, port, _Web) for port in (80, 8080)]
        servers.append(_Server(address, PORT, _Hello))
        if address == brokered_host.ADDRESS and os.environ.get(brokered_host.FOLDER):
            servers.append(brokered_host.start(context))
            continue
        is_bridge = address == brokered_host.ADDRESS and os.environ.get(BRIDGE)
        secure = _Server(address, 443, _Bridge if is_bridge else _Web)
        secure.tls = context
        servers.append(secure)
    if os.environ.get(BRIDGE):
        servers.append(_Server(*BRIDGED, _Bridge))
    servers += [_Server("127.0.0.1", LOCAL_PORT, _Hello), _Server("93.184.215.14", 22, _Hello)]
    return servers


def _enter() -> None:
    """Enter a network and a mount namespace, in which the addresses are ours and /etc/hosts has the names."""
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.NEWUSER | syscalls.NEWNS | syscalls.NEWNET)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path(f"/proc/self/{name}").write_text(text)
    lo = socket.if_nametoindex("lo")
    messages = [netlink.message(16, netlink.REQUEST | netlink.ACK, struct.pack("=BBHiII", 0, 0, 0, lo, 1, 1))]
    for address in sorted({one for found in NAMES.values() for one in found} - {"127.0.0.1"}):
        family, bits = (socket.AF_INET6, 128) if ":" in address else (socket.AF_INET, 32)
        packed = socket.inet_pton(family, address)
        body = struct.pack("=BBBBI", family, bits, 2, 0, lo) + netlink.attribute(2, packed) + netlink.attribute(1, packed)
        messages.append(netlink.message(20, 0x605, body))
    netlink.send(netlink.ROUTE, messages, "addresses")
    with tempfile.NamedTemporaryFile("w", prefix="hosts-") as hosts:
        hosts.write("127.0.0.1 localhost\n" + "".join(f"{a} {name}\n" for name, found in NAMES.items() for a in found))
        hosts.flush()
        os.chmod(hosts.name, 0o644)
        syscalls.mount(None, "/", None, syscalls.REC | syscalls.SLAVE)
        syscalls.mount(hosts.name, "/etc/hosts", None, 0x1000)  # MS_BIND
    Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")


def main() -> int:
    """Run the command; return its exit code."""
    _enter()
    servers = _serve()
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", _CERTIFICATE)}
    try:
        return subprocess.run(sys.argv[1:], env=env, check=False).returncode
    finally:
        for server in servers:
            server.server_close()


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG
    sys.exit(main())
