"""CONTAINMENT B: sockets, buses, inherited descriptors, the kernel's keyrings."""

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_dev.linux import syscalls
from tests.containment.rows import RESIDUAL, row
from tests.containment.runtime.test_c_processes import COLUMN
from tests.containment.support import containers
from tests.containment.support.world import Machine, Services
from tests.harness.program import PROGRAM, PYTHON, AgentDev

STREAM, RAW = 1, 3
KEY = "agent-dev-canary"
FAMILIES = {
    "unix": (1, STREAM, 0),
    "inet": (2, STREAM, 0),
    "inet6": (10, STREAM, 0),
    "netlink route": (16, RAW, 0),
    "netlink uevent": (16, RAW, 15),
    "netlink diag": (16, RAW, 4),
    "netlink audit": (16, RAW, 9),
    "packet": (17, RAW, 0),
    "key": (15, RAW, 2),
    "tipc": (30, STREAM, 0),
    "bluetooth": (31, RAW, 0),
    "alg": (38, 5, 0),
    "vsock": (40, STREAM, 0),
    "xdp": (44, RAW, 0),
}
OPEN = ["unix", "inet", "inet6", "netlink route"]


@pytest.fixture(scope="module")
def key() -> Iterator[None]:
    """Add a key to the keyring of the user's session."""
    libc = ctypes.CDLL(None, use_errno=True)
    add, control = ((248, 217)[COLUMN], (250, 219)[COLUMN])
    session = ctypes.c_long(-3)
    number = libc.syscall(add, b"user", KEY.encode(), b"secret", ctypes.c_long(6), session)
    assert number > 0, ctypes.get_errno()
    yield
    libc.syscall(control, ctypes.c_long(9), ctypes.c_long(number), session)  # unlink


@pytest.fixture(scope="module")
def services(shared: Machine) -> Iterator[Services]:
    """Yield the services of the host."""
    created = Services(shared)
    yield created
    created.close()


@pytest.fixture(scope="module")
def found(shared: Machine, net: str, key: None, services: Services) -> dict[str, Any]:
    """Return the results of all attempts of this module, for each network."""
    target: dict[str, Any] = {"sections": ["kernel", "sockets"], "calls": {}, "key": KEY, "families": FAMILIES}
    target |= {"abstract": services.abstract, "paths": services.paths, "shown": services.shown}
    target |= {"port": services.port, "memory": services.memory}
    return shared.run_probe(target, "--net", net, env=services.variables)


def connects(family: int, address: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as created:
        try:
            created.connect(address)
        except OSError:
            return False
    return True


def test_all_attempts_would_succeed_outside(services: Services) -> None:
    assert all(connects(socket.AF_UNIX, name) for name in (*services.abstract, *services.paths.values(), services.shown))
    assert connects(socket.AF_INET, ("127.0.0.1", services.port))


@row(
    "connect to an abstract socket of the host",
    "Landlock denies it: EPERM; without a network there are none",
)
def test_b01_abstract_sockets_of_the_host_are_unreachable(found: dict[str, Any], net: str) -> None:
    if not syscalls.has_landlock_scopes():
        pytest.skip("no Landlock with scopes: doctor says so")
    assert set(found["abstract"]) == {"EPERM" if net == "host" else "ECONNREFUSED"}
    assert found["own_abstract"] == "done"


@row("connect to a socket file of the host", "no directory of the host with sockets is mounted: ENOENT")
def test_b02_socket_files_of_the_host_do_not_exist(found: dict[str, Any]) -> None:
    assert found["paths"] == dict.fromkeys(found["paths"], "ENOENT")
    assert set(found["known_sockets"]) == containers.RUNTIME


def without(found: dict[str, Any], *names: str) -> bool:
    """Return whether neither the variables, except those of podman in the sandbox, nor the host's sockets exist inside."""
    values = {name: found["variables"].get(name) for name in names}
    own = {name: containers.VARIABLES.get(name) for name in names}
    return values == own and {found["paths"].get(name, "ENOENT") for name in names} == {"ENOENT"}


@row("start a service by the session's D-Bus", "neither its socket nor its address exists inside")
def test_b03_the_session_bus_does_not_exist(found: dict[str, Any]) -> None:
    assert without(found, "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")


@row("call the system bus, polkit, systemd", "`/run` is empty")
def test_b04_the_system_bus_does_not_exist(found: dict[str, Any]) -> None:
    assert [path for path in found["known_sockets"] if "dbus" in path or "systemd" in path] == []


@row("read keys and the screen by X11", "no DISPLAY, no XAUTHORITY, no socket file; Landlock blocks the abstract socket")
def test_b05_the_x_display_does_not_exist(found: dict[str, Any]) -> None:
    assert without(found, "DISPLAY", "XAUTHORITY")
    assert "/tmp/.X11-unix" not in found["known_sockets"]


@row("reach Wayland, PipeWire, portals", "neither sockets nor variables exist inside")
def test_b06_the_wayland_display_does_not_exist(found: dict[str, Any]) -> None:
    assert without(found, "WAYLAND_DISPLAY", "PIPEWIRE_REMOTE")


@row("sign with the ssh or gpg agent", "neither sockets nor variables exist inside")
def test_b07_the_agents_of_ssh_and_gpg_do_not_exist(found: dict[str, Any]) -> None:
    assert without(found, "SSH_AUTH_SOCK", "GPG_AGENT_INFO")


@row("become root by docker, podman, containerd, libvirt, lxd, snapd", "their sockets do not exist inside")
def test_b09_the_sockets_of_container_services_do_not_exist(found: dict[str, Any]) -> None:
    assert without(found, "DOCKER_HOST")
    assert {path for path in found["known_sockets"] if "dbus" not in path} == containers.RUNTIME


@row(
    "use a debugger's or a development server's port on loopback",
    "`--net none`: refused; with the host's network it is reachable",
    RESIDUAL,
)
def test_b11_loopback_is_the_hosts_only_with_its_network(found: dict[str, Any], net: str) -> None:
    assert found["loopback"] == ("done" if net == "host" else "ECONNREFUSED")


@row(
    "reopen for writing a file that the user redirected as input, output or errors",
    "redirected files are relayed through pipes: `/proc/self/fd` shows only pipes and terminals",
)
def test_b15_no_redirected_file_or_directory_is_visible_inside(agent_dev: AgentDev, tmp_path: Path) -> None:
    given, out, errors = tmp_path / "given", tmp_path / "out", tmp_path / "errors"
    given.write_text("given\n")
    script = "for n in 0 1 2; do readlink /proc/self/fd/$n; done; cat; echo said >&2; echo x 2>/dev/null >/proc/self/fd/0"
    argv = [str(PROGRAM), "--", "sh", "-c", script]
    with given.open() as before, out.open("w") as its_out, errors.open("w") as its_errors:
        subprocess.run(argv, stdin=before, stdout=its_out, stderr=its_errors, env=agent_dev.env, cwd=agent_dev.repo, check=False)
    output = out.read_text().splitlines()
    assert [line.split(":")[0] for line in output] == ["pipe", "pipe", "pipe", "given"]
    assert errors.read_text().splitlines()[-1:] == ["said"]
    assert given.read_text() == "given\n"


def test_unread_input_of_an_agent_is_left_for_the_next_program(agent_dev: AgentDev, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("".join(f"{n}\n" for n in range(10_000)))
    with given.open("rb") as before:
        argv = [str(PROGRAM), "--", "head", "-c", "4"]
        first = subprocess.run(argv, stdin=before, capture_output=True, env=agent_dev.env, cwd=agent_dev.repo, check=True).stdout
        rest = subprocess.run(["cat"], stdin=before, capture_output=True, check=True).stdout
    assert len(first) == 4
    assert given.read_bytes().endswith(rest)
    assert first.startswith(b"0\n1\n")


def test_all_output_is_in_the_file_after_the_agent_has_exited(agent_dev: AgentDev, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("before\n")
    with out.open("ab") as after:
        argv = [str(PROGRAM), "--", "sh", "-c", "seq 1 200000; echo last >&2"]
        subprocess.run(
            argv, stdout=after, stderr=after, stdin=subprocess.DEVNULL, env=agent_dev.env, cwd=agent_dev.repo, check=True
        )
    expected = ["before", *map(str, range(1, 200_001)), "last"]
    assert out.read_text().splitlines() == expected


@row(
    "connect to a socket or FIFO in a mounted directory (`tools`, `--ro`)",
    "it is reachable; do not mount such directories",
    RESIDUAL,
)
def test_b16_sockets_in_mounted_directories_are_reachable(found: dict[str, Any]) -> None:
    assert found["shown_socket"] == "done"


@row("use the host's shared memory, semaphores, message queues", "an IPC namespace and a private /dev/shm")
def test_b17_no_shared_memory_of_the_host_exists(found: dict[str, Any]) -> None:
    assert found["shared_memory"] == ["ENOENT", {"shm": 0, "sem": 0, "msg": 0}, []]


@row(
    "read or use the keys in the user's session keyring",
    "the seccomp filter: ENOSYS; only their names are visible, in `/proc/keys`",
)
def test_b18_the_users_keyring_does_not_exist(found: dict[str, Any]) -> None:
    assert found["keys"] == {"search": "ENOSYS", "request": "ENOSYS", "add": "ENOSYS"}


LISTEN = """if True:
    import socket, sys
    made = socket.socket(socket.AF_UNIX)
    made.bind("\\0" + sys.argv[1])
    made.listen()
    print("ready", flush=True)
    sys.stdin.readline()
"""


@row(
    "bind an abstract socket name that programs of the host connect to later",
    "`--net none` prevents it; with the host's network it is possible",
    RESIDUAL,
)
def test_b19_an_abstract_name_can_be_bound_with_the_hosts_network(agent_dev: AgentDev, net: str) -> None:
    name = f"agent-dev-test-{os.getpid()}"
    with agent_dev.start("--net", net, "--", PYTHON, "-I", "-c", LISTEN, name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert connects(socket.AF_UNIX, f"\0{name}") == (net == "host")
        process.communicate("\n", timeout=60)


@row("sockets of other families: packet, vsock, bluetooth, alg …", "the seccomp filter allows only listed families")
def test_b20_only_listed_socket_families_are_available(found: dict[str, Any]) -> None:
    expected = {name: "EPROTONOSUPPORT" if name.startswith("netlink") else "EAFNOSUPPORT" for name in FAMILIES}
    assert found["families"] == expected | dict.fromkeys(OPEN, "done")
    assert found["pairs"] == ["done", "EAFNOSUPPORT"]


@row(
    "trick a name-filtering proxy by a NUL in a name",
    "there is no name filter: `--net none` reaches no proxy, `--net host` filters nothing",
)
def test_b13_without_a_network_no_proxy_is_reachable_under_any_name(world: Machine) -> None:
    code = """if True:
        import json, os, socket
        told = []
        for proxy in ("127.0.0.1", "localhost"):
            try:
                with socket.create_connection((proxy, int(os.environ["PROXY"])), 5) as to:
                    to.sendall(b"\\x05\\x01\\x00\\x05\\x01\\x00\\x03\\x0ba\\x00.ok.com..\\x00\\x50")
                told.append("connected")
            except OSError as error:
                told.append(type(error).__name__)
        print(json.dumps(told))
    """
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        address = f"socks5://127.0.0.1:{proxy.getsockname()[1]}"
        argv = ("--net", "none", "--env", f"PROXY={proxy.getsockname()[1]}", "--env", f"all_proxy={address}")
        assert world.program.run_python_inside(code, *argv) == ["ConnectionRefusedError"] * 2
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()
