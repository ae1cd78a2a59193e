"""CONTAINMENT C: ways to the real key of a credential, and around the limits of its use."""

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.internet import in_internet
from tests.harness.program import PYTHON, AgentDev, children, contents, wait_until
from tests.harness.servers.brokered_host import API, FOLDER, GIT, REAL, UNCERTIFIED

ASK = f"""
import base64, http.client, json, os, ssl, struct, sys
KEY = os.environ["API_KEY"]
def ask(path="/v1", method="GET", body=None, port=80, host="{API}", **headers):
    kind = http.client.HTTPSConnection if port == 443 else http.client.HTTPConnection
    try:
        one = kind(host, port, timeout=20)
        one.request(method, path, body, {{name.replace("_", "-"): value for name, value in headers.items()}})
        answer = one.getresponse()
        return [answer.status, answer.read().decode("latin-1")]
    except OSError as error:
        return [0, getattr(error, "reason", "") or str(error)]
"""


def configure(program: AgentDev, **more: Any) -> dict[str, Any]:
    """Write settings with two credentials; return the keywords of a run with them."""
    env, *others = in_internet()
    certificate = next(word.partition("=")[2] for word in others if word.startswith("AGENT_DEV_TEST_CERTIFICATE="))
    api = {"host": API, "variable": "API_KEY", "env": "MY_KEY"}
    bad = {"host": UNCERTIFIED, "variable": "BAD_KEY", "env": "MY_KEY"}
    git = {"host": GIT, "variable": "GIT_KEY", "env": "MY_KEY", "user": "x-access-token", "push": ["agent/*"]}
    value = {"net": "allow", "upstream_ca": certificate, "credentials": {"api": api, "code": git, "bad": bad}, **more}
    path = Path(program.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return {"env": {"MY_KEY": REAL}, "before": (env, f"{FOLDER}={program.home}", *others)}


def attempt(world: Machine, code: str, **more: Any) -> Any:
    keywords = configure(world.program, **more)
    return world.program.run_python_inside(f"{ASK}\n{code}\nprint(json.dumps(result))", **keywords)


SEARCH = """
import re
def contents():
    for top in ("/run", "/tmp", "/var/tmp", "/dev/shm", "/etc", os.path.expanduser("~"), os.getcwd()):
        for folder, _, names in os.walk(top):
            for name in names:
                path = f"{folder}/{name}"
                try:
                    if os.path.isfile(path):
                        yield path, open(path, "rb").read(1 << 24)
                except OSError:
                    pass
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        for name in ("environ", "cmdline", "maps", "auxv", "comm"):
            try:
                yield f"/proc/{pid}/{name}", open(f"/proc/{pid}/{name}", "rb").read()
            except OSError:
                pass
        if int(pid) != os.getpid():
            yield from memory(pid)
def memory(pid):
    try:
        lines = open(f"/proc/{pid}/maps").read().splitlines()
        file = open(f"/proc/{pid}/mem", "rb", 0)
    except OSError:
        return
    for line in lines:
        first, last = (int(word, 16) for word in line.split()[0].split("-"))
        try:
            file.seek(first)
            yield f"/proc/{pid}/mem", file.read(min(last - first, 1 << 26))
        except (OSError, ValueError, OverflowError):
            pass
wanted = {"real": %r[::-1].encode(), "stand-in": KEY.encode()}
ask(x_api_key=KEY)
result = {name: [] for name in wanted}
for path, data in contents():
    for name, text in wanted.items():
        if text in data or base64.b64encode(text)[:-4] in data:
            result[name].append(path)
"""


@row(
    "find the real key of a credential in a file, an environment, a command line or the memory of a process inside",
    "`credentials`: the key is read and kept by the gateway, outside; variables that may hold it are never passed through",
)
def test_c70_the_real_key_is_nowhere_inside(world: Machine) -> None:
    found = attempt(world, SEARCH % REAL[::-1], env=["MY_KEY", "API_KEY"])
    assert found["real"] == []
    assert any(path.endswith("/environ") for path in found["stand-in"]), "the search finds what is there"


OTHERS = "result = [ask(port=port, **{name: value}) for port in (80, 443) for name, value in KEYS]"


@row(
    "use a host that has a credential with the key of another account, or with the stand-in key of another session",
    "`credentials`: every request to that host, by HTTP and TLS, passes the broker; only this session's stand-in is accepted",
)
def test_c71_another_key_is_refused(world: Machine) -> None:
    keys = "[('x_api_key', 'sk-other'), ('Authorization', 'Bearer ' + KEY[::-1]), ('Authorization', 'Basic b3RoZXI6a2V5')]"
    found = attempt(world, f"KEYS = {keys}\n{OTHERS}\nresult.append(ask(x_api_key=KEY))")
    assert [status for status, _ in found] == [403] * 6 + [200]


@row(
    "send the real key to another host: by the Host of a request, the name in TLS, the name of an address",
    "`credentials`: a request must name the host of the credential, whose certificate is verified outside",
)
def test_c72_the_real_key_goes_only_to_its_host(world: Machine) -> None:
    code = """
result = [ask(x_api_key=KEY, Host="files.example.org"), ask(x_api_key=KEY, host="files.example.org", Host="keys.example.org")]
result += [ask("http://files.example.org/", x_api_key=KEY), ask(x_api_key=KEY, host="files.example.org", port=80)]
try:
    import socket
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.wrap_socket(socket.create_connection(("keys.example.org", 443), 20), server_hostname="files.example.org")
    result.append([200, "TLS"])
except OSError as error:
    result.append([403, error.reason])
"""
    code += f"result.append(ask(x_api_key=os.environ['BAD_KEY'], host={UNCERTIFIED!r}))\n"
    found = attempt(world, code, allow=["files.example.org:80"])
    assert [status for status, _ in found] == [403, 403, 403, 200, 403, 502]
    assert "its certificate is not valid" in found[-1][1]
    assert REAL not in str(found)


PUSHES = """
def line(text):
    return b"%04x" % (len(text) + 4) + text
def push(ref, new="1" * 40, path="/served.git/git-receive-pack", **headers):
    body = line(f"{'0' * 40} {new} {ref}\\0 report-status".encode()) + b"0000"
    basic = "Basic " + base64.b64encode(b"x-access-token:" + os.environ["GIT_KEY"].encode()).decode()
    status, text = ask(path, "POST", body, host="git.example.org", Authorization=basic, **headers)
    return "refused" if status == 403 or "agent-dev: " in text else f"{status} {text[:60]}"
result = [push(ref) for ref in ("refs/heads/main", "refs/tags/v1", "refs/heads/agent/../main", "HEAD", "refs/heads/agent")]
result += [push("refs/heads/agent/x", "0" * 40)]
result += [push("refs/heads/main", path=f"/served.git/{path}") for path in
    ("git-receive-pack/", "git-receive-pack?x", "%67it-receive-pack", "x/../git-receive-pack", "/git-receive-pack", "api/merge")]
result += [push("refs/heads/main", Content_Encoding="deflate"), push("refs/heads/main", Content_Encoding="gzip")]
"""


@row(
    "push to another branch than a credential allows, a tag, a deletion, hidden in an unusual path or encoding; merge by an API",
    "`push`: the commands of a push are read before a byte is forwarded; with it, the key is for git's own requests alone",
)
def test_c73_git_changes_only_allowed_branches(world: Machine) -> None:
    assert attempt(world, PUSHES) == ["refused"] * 14


@contextmanager
def running(program: AgentDev) -> Iterator[int]:
    """Run a session with credentials; yield the pid of its launcher."""
    env = configure(program)["env"]  # not in the small internet: its owner may look into every process there
    ready = program.agent_home / "ready"
    code = "import os, sys; open('new', 'w'); open(os.path.expanduser('~/ready'), 'w').close(); sys.stdin.read()"
    with program.start("--no-merge", "--", PYTHON, "-c", code, env=env) as process:
        wait_until(ready.exists, "it runs")
        yield process.pid
        process.communicate(timeout=60)


def broker_of(launcher: int) -> int:
    """Return the launcher's child that has the keys: nobody but root can look into it."""
    for pid in children(launcher):
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except PermissionError:
            return pid
        if "cryptography" in maps and os.getuid() == 0:
            return pid
    raise AssertionError("no process with keys is hidden")


def _readable(world: Machine) -> dict[Path, bytes]:
    """Return the user's files, this program's files where every user can read, and the arguments of the user's processes."""
    found = contents(world.folder)
    shared = (path for top in ("/tmp", "/var/tmp", "/dev/shm", "/run") for path in Path(top).glob("*agent-dev*"))
    for path in (*shared, *Path("/proc").glob("[0-9]*/cmdline")):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if path.stat().st_uid == os.getuid() and path.is_file():
                found[path] = path.read_bytes()
    return {path: text for path, text in found.items() if b"pytest" not in text or path.name != "cmdline"}


@row(
    "read the real key as another process of the user outside: in a file, a log, a core dump, the memory of the gateway",
    "`credentials`: no file has the key; the gateway is not dumpable and writes no core dump",
)
def test_c74_the_real_key_is_in_no_file_and_no_readable_memory(world: Machine) -> None:
    program = world.program
    with running(program) as launcher:
        limits = Path(f"/proc/{broker_of(launcher)}/limits").read_text()
        assert "Max core file size 0 0 " in " ".join(limits.split())
        texts = _readable(world)
    texts |= _readable(world)
    assert any(path.name == "session.json" for path in texts)
    assert [path for path, text in texts.items() if REAL.encode() in text or b64encode(REAL.encode())[:-4] in text] == []
    modes = [path.stat().st_mode & 0o077 for path in program.state.rglob("sessions") if path.is_dir()]
    assert modes
    assert not any(modes)
