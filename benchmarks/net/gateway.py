"""A network of the sandbox's own against the host's: start, connections, throughput, many connections at once, memory.

The servers and the gateway share one machine, so the throughput compares two copies through sockets with one.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

from benchmarks import measure, process
from benchmarks.measure import Figures, Row, Section
from benchmarks.working_directory import WorkingDirectory, repository
from tests.harness import internet
from tests.harness.program import children, open_descriptors

_MIB = 1024
_CONNECTIONS, _IDLE = 1000, 2048
_PYTHON = "/usr/bin/python3"
_BLOCK = memoryview(bytes(1 << 20))
_START_LIMIT = 5.0  # ms more than with `host`
_LIMITS = {"first": 80.0, "p50": 2.0, "p95": 5.0, "many": 1000.0, "with idle": 1000.0}  # ms
_MEMORY = 40  # MiB of the gateway with _CONNECTIONS
_NAME = "api.example.org"  # of tests.harness.internet
# Inside: the time of the first connection, and the median and the 95th percentile of 200 more, in milliseconds by label.
_TIMES = """
def timed(label, run):
    begin = time.perf_counter()
    run()
    timings[label] = 1000 * (time.perf_counter() - begin)
timings = {}
def several(run, before=lambda: ()):
    timed("first", lambda: run(*before()))
    times = []
    for _ in range(200):
        found = before()
        begin = time.perf_counter()
        run(*found)
        times.append(1000 * (time.perf_counter() - begin))
    times.sort()
    timings["p50"], timings["p95"] = times[len(times) // 2], times[len(times) * 95 // 100]
"""
# Inside: looks a name up and connects to a server that speaks first; the lookups are measured separately, except the first one.
_NAMED_CLIENT = f"""
import json, socket, sys, time
{_TIMES}
lookups = []
def look_up():
    begin = time.perf_counter()
    addresses = socket.getaddrinfo(sys.argv[1], int(sys.argv[2]), type=socket.SOCK_STREAM)
    lookups.append(1000 * (time.perf_counter() - begin))
    return [addresses[0][4]]
def ask(address):
    with socket.create_connection(address, 60) as one:
        if not one.recv(1):
            raise SystemExit("the server ended")
several(ask, look_up)
timings["lookup"] = sorted(lookups)[len(lookups) // 2]
print(json.dumps(timings))
"""
# Inside: holds connections until it gets a line.
_HOLDING_CLIENT = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60) for _ in range(int(sys.argv[2]))]
for one in held:
    one.sendall((1).to_bytes(8, "big"))
for one in held:
    one.recv(1)
print("held", flush=True)
sys.stdin.readline()
"""
# Inside: the port of a server that sends as many bytes as it is asked for, then the sizes. Prints milliseconds by label as JSON.
_CLIENT = f"""
import json, os, resource, selectors, socket, sys, time
{_TIMES}"""
_CLIENT += """
port, count, idle, mib = map(int, sys.argv[1:5])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def ask(size):
    with socket.create_connection(("127.0.0.1", port), 60) as one:
        one.sendall(size.to_bytes(8, "big"))
        left = size
        buffer = bytearray(1 << 20)
        while left:
            got = one.recv_into(buffer, min(left, len(buffer)))
            if not got:
                raise SystemExit("the server ended")
            left -= got
several(lambda: ask(1))
timed("transfer", lambda: ask(mib << 20))
def many():
    waiting = selectors.DefaultSelector()
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
        waiting.register(one, selectors.EVENT_WRITE)
    left = count
    while left:
        for key, events in waiting.select(60):
            if events & selectors.EVENT_WRITE:
                key.fileobj.send((1).to_bytes(8, "big"))
                waiting.modify(key.fileobj, selectors.EVENT_READ)
            else:
                if not key.fileobj.recv(1):
                    raise SystemExit("a connection was lost")
                waiting.unregister(key.fileobj)
                key.fileobj.close()
                left -= 1
timed("many", many)
held = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(idle)]
for one in held:
    one.sendall((1).to_bytes(8, "big"))
for one in held:
    one.recv(1)
timed("with idle", lambda: ask(1))
print(json.dumps(timings))
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure starts, and what a client inside sees."""
    repo = repository(workdir.folder / "network", workdir.env, {"file": b"x\n"})
    with contextlib.chdir(repo):
        return _starts(workdir), _clients(workdir), _by_name(workdir)


def _starts(workdir: WorkingDirectory) -> Section:
    env = workdir.env_with(workdir.bwraps[-1])
    nets: dict[str, tuple[str, ...]] = {"host": (), "none": (), "allow": ("--allow", "example.org")}
    subjects = [
        measure.program(f"--net {name}", (workdir.program, "--net", name, *more, "--", "true"), env)
        for name, more in nets.items()
    ]
    found = measure.in_turns(subjects, measure.rounds(2), within=60)
    times = {name: by_label["start"] for name, by_label in found.items()}
    host = times["--net host"]
    limit = measure.spread(host).median + _START_LIMIT
    rows = tuple(
        Row(name, measure.spread(figures), "host", measure.ratio(figures, host), limit=limit if "allow" in name else None)
        for name, figures in times.items()
    )
    about = f"From exec to exit of `agent-dev -- true`. The goal of `allow` is {_START_LIMIT:.0f} ms more than `host`."
    return Section("A network of the sandbox's own: start", about, rows, (measure.fastest(times, "--net host"),))


def _clients(workdir: WorkingDirectory) -> Section:
    env = workdir.env_with(workdir.bwraps[-1])
    with _server() as port:
        words = (_PYTHON, "-I", "-c", _CLIENT, str(port), str(_CONNECTIONS), str(_IDLE), str(_MIB))
        host = (workdir.program, "--net", "host", "--", *words)
        allow = (workdir.program, "--net", "allow", "--allow", f"localhost:{port}", "--", *words)
        subjects = [measure.Subject(net, partial(_figures, argv, env)) for net, argv in (("host", host), ("allow", allow))]
        found = measure.in_turns(subjects, measure.rounds(12), 1, within=90)
        memory = _memory(port, (workdir.program, "--net", "allow", "--allow", f"localhost:{port}"), env)
    remark = f"Memory of the gateway with {_CONNECTIONS} connections: {memory:.0f} MiB at its peak (at most {_MEMORY})."
    return Section(
        "A network of the sandbox's own: connections",
        f"A Python client inside, a server on this machine's loopback, by a `localhost:PORT` rule. *First*: the first connection "
        f"of the sandbox; p50 and p95 of 200 more, each with one byte back; {_MIB} MiB; {_CONNECTIONS} connections at once; one "
        f"connection while {_IDLE} are established and idle.",
        _rows(found),
        (remark,),
    )


def _by_name(workdir: WorkingDirectory) -> Section:
    """Measure connections whose name is looked up, decided about, and resolved outside."""
    env, inside = workdir.env_with(workdir.bwraps[-1]), internet.in_internet()
    client = (_PYTHON, "-I", "-c", _NAMED_CLIENT, _NAME, str(internet.PORT))
    nets: dict[str, tuple[str, ...]] = {"host": (), "allow": ("--allow", f"{_NAME}:{internet.PORT}")}
    subjects = [
        measure.Subject(net, partial(_figures, (*inside, workdir.program, "--net", net, *more, "--", *client), env))
        for net, more in nets.items()
    ]
    found = measure.in_turns(subjects, measure.rounds(6), 1, within=45)
    about = "A Python client inside, a server in a network namespace with a public address, by a rule for its name; the name is "
    about += "looked up before each connection. *First*: the first lookup and connection of the sandbox; p50 and p95 of 200 more "
    about += "connections, without their lookups, whose median is *lookup*."
    return Section("A network of the sandbox's own: connections by name", about, _rows(found))


def _memory(port: int, options: tuple[str, ...], env: dict[str, str]) -> float:
    """Return the peak memory of a gateway with many connections, in MiB."""
    words = (*options, "--", _PYTHON, "-I", "-c", _HOLDING_CLIENT, str(port), str(_CONNECTIONS))
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout
        if launcher.stdout.readline() != b"held\n":
            raise process.ProgramFailed("the connections were not made")
        (status,) = [Path(f"/proc/{pid}/status").read_text() for pid in children(launcher.pid) if _is_gateway(pid)]
        launcher.communicate(b"\n")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def _is_gateway(pid: int) -> bool:
    return "anon_inode:[eventpoll]" in open_descriptors(pid).values()


def _figures(argv: tuple[str, ...], env: dict[str, str]) -> dict[str, float]:
    found: dict[str, float] = json.loads(process.output(argv, env))
    return found


def _rows(found: dict[str, Figures]) -> tuple[Row, ...]:
    names = {"many": f"{_CONNECTIONS} connections", "transfer": f"{_MIB} MiB", "with idle": f"with {_IDLE} idle"}
    rows = []
    for label, figures in found["allow"].items():
        bare, name = found["host"][label], names.get(label, label)
        rows.append(Row(f"{name}, `host`", measure.spread(bare)))
        is_transfer = label == "transfer"
        rows.append(
            Row(
                f"{name}, `allow`",
                measure.spread(figures),
                "host",
                measure.ratio(figures, bare),
                1 / 0.35 if is_transfer else None,
                _LIMITS.get(label),
            )
        )
    return tuple(rows)


@contextlib.contextmanager
def _server() -> Iterator[int]:
    """Run a server in a process of its own: it reads numbers of 8 bytes, and sends that many bytes for each."""
    with subprocess.Popen(
        (sys.executable, "-m", "benchmarks.net.gateway"), cwd=Path(__file__).parents[2], stdout=subprocess.PIPE
    ) as one:
        assert one.stdout
        try:
            yield int(one.stdout.readline())
        finally:
            one.kill()


class _Sending(asyncio.Protocol):
    """Sends as many bytes as each number of 8 bytes says."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._received, self._left = b"", 0

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 8:
            self._left += int.from_bytes(self._received[:8], "big")
            self._received = self._received[8:]
        self.resume_writing()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        while self._left and not self._is_full:
            size = min(self._left, len(_BLOCK))
            self._left -= size
            self._transport.write(_BLOCK[:size])


async def serve() -> None:
    """Serve on a free port, which is printed, until killed: with one thread, so that it takes little processor time."""
    server = await asyncio.get_running_loop().create_server(_Sending, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
