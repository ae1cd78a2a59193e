"""Use containers inside the sandbox, as an agent would. Arguments: the folder of images; prints JSON, one key per attempt."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

PATIENCE = 60  # seconds
SERVER = "import socket; s = socket.create_server(('', 80))\nwhile True: c = s.accept()[0]; c.sendall(b'hello'); c.close()"
USR = ("-v", "/usr:/usr:ro")
IMAGES = sys.argv[1]
TOOLS = "localhost/tools:1"
KEPT = os.path.expanduser("~/.local/share/containers/storage")


def podman(*words: str) -> str:
    done = subprocess.run(["podman", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"failed: {done.stderr.strip()[-200:]}"


def run(*words: str) -> str:
    return podman("run", "--rm", *words)


class Api(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["DOCKER_HOST"].removeprefix("unix://"))


def api(method: str, path: str, body: object = None) -> Any:
    connection = Api("docker", timeout=PATIENCE)
    connection.request(method, f"/v1.41{path}", json.dumps(body), {"Content-Type": "application/json"})
    text = connection.getresponse().read()
    return json.loads(text) if text else None


def answer(port: str) -> str:
    """Return what a published server sends; the port is open before the server is."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", int(port)), 5) as server:
                if found := server.recv(5):
                    return found.decode()
        except OSError:
            pass
        time.sleep(0.05)
    return "no answer"


def port_of(name: str) -> str:
    return podman("port", name).rpartition(":")[2]


def first_query(port: str) -> str:
    deadline = time.monotonic() + PATIENCE
    command = ["psql", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-Atc", "select 6 * 7"]
    while time.monotonic() < deadline:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
        time.sleep(0.1)
    return "no answer"


def tools() -> dict[str, str]:
    found = {"import": podman("import", "-q", f"{IMAGES}/tools.tar", TOOLS)}
    start = time.monotonic()
    found["root"] = run(TOOLS, "id", "-u")
    found["seconds"] = str(time.monotonic() - start)
    found["user"] = run("--user", "999:999", TOOLS, "id", "-u")
    found["files"] = run("-v", f"{os.getcwd()}:/work", TOOLS, "sh", "-c", "echo inside >/work/made.txt; cat /work/a")
    found["host"] = run("--privileged", "--network", "host", "-v", "/:/host", TOOLS, "ls", "-A", f"/host{os.environ['HOME']}")
    found["groups"] = run("-v", "/sys/fs/cgroup:/groups", TOOLS, "sh", "-c", "ls -A /groups; echo seen")
    server = ("/usr/bin/python3", "-Sc", SERVER, IMAGES)  # the folder's name marks the process
    podman("run", "-d", "--name", "web", "-p", "127.0.0.1::80", *USR, TOOLS, *server)
    found["port"] = answer(port_of("web"))
    found["network"] = podman("run", "--rm", "--network", "slirp4netns", TOOLS, "id", "-u")
    found["kept"] = podman("--root", KEPT, "import", "-q", f"{IMAGES}/tools.tar", "localhost/kept:1")
    found["names"] = podman("images", "--format", "{{.Repository}}")
    return found


def database() -> dict[str, str]:
    """Start a database as testcontainers does: through the API, with a random port."""
    change = ("--change", 'CMD ["/start"]', "--change", "USER 999:999")
    found = {"image": podman("import", "-q", *change, f"{IMAGES}/postgres.tar", "localhost/postgres:1")}
    wanted = {"Image": "localhost/postgres:1", "ExposedPorts": {"5432/tcp": {}}, "HostConfig": {"PublishAllPorts": True}}
    made = api("POST", "/containers/create?name=db", wanted)
    found["start"] = str(api("POST", "/containers/db/start"))
    state = api("GET", f"/containers/{made['Id']}/json")
    found["query"] = first_query(state["HostConfig"]["PortBindings"]["5432/tcp"][0]["HostPort"])
    found["exec"] = podman("exec", "db", "id", "-un")
    return found


sys.stdout.write(json.dumps({**tools(), **database(), "marker": IMAGES}))
