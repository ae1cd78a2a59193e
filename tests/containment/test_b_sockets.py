"""CONTAINMENT B: sockets, buses, inherited descriptors."""

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_dev.linux import syscalls as kernel
from tests.containment.rows import RESIDUAL, row
from tests.containment.test_c_processes import COLUMN
from tests.containment.world import Services, World
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
    """A key in the keyring of the user's session."""
    libc = ctypes.CDLL(None, use_errno=True)
    add, control = ((248, 217)[COLUMN], (250, 219)[COLUMN])
    session = ctypes.c_long(-3)
    number = libc.syscall(add, b"user", KEY.encode(), b"secret", ctypes.c_long(6), session)
    assert number > 0, ctypes.get_errno()
    yield
    libc.syscall(control, ctypes.c_long(9), ctypes.c_long(number), session)  # unlink


@pytest.fixture(scope="module")
def services(shared: World) -> Iterator[Services]:
    """What listens and lies about on the host."""
    made = Services(shared)
    yield made
    made.close()


@pytest.fixture(scope="module")
def found(shared: World, net: str, key: None, services: Services) -> dict[str, Any]:
    """What came of everything that is tried here, with each network."""
    target: dict[str, Any] = {"sections": ["kernel", "sockets"], "calls": {}, "key": KEY, "families": FAMILIES}
    target |= {"abstract": services.abstract, "paths": services.paths, "shown": services.shown}
    target |= {"port": services.port, "memory": services.memory}
    return shared.tried(target, "--net", net, env=services.variables)


def connects(family: int, address: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as made:
        try:
            made.connect(address)
        except OSError:
            return False
    return True


def test_what_is_tried_would_work_outside(services: Services) -> None:
    assert all(connects(socket.AF_UNIX, name) for name in (*services.abstract, *services.paths.values(), services.shown))
    assert connects(socket.AF_INET, ("127.0.0.1", services.port))


@row(
    "connect to an abstract socket of the host's",
    "Landlock's scope before bubblewrap starts: EPERM; without a network there is none",
)
def test_b01_abstract_sockets_of_the_host_are_not_reached(found: dict[str, Any], net: str) -> None:
    if not kernel.has_scopes():
        pytest.skip("no Landlock with scopes: doctor says so")
    assert set(found["abstract"]) == {"EPERM" if net == "host" else "ECONNREFUSED"}
    assert found["own_abstract"] == "done"


@row("connect to a socket file of the host's", "no place of the host's with sockets is shown: ENOENT")
def test_b02_socket_files_of_the_host_do_not_exist(found: dict[str, Any]) -> None:
    assert found["paths"] == dict.fromkeys(found["paths"], "ENOENT")
    assert found["known_sockets"] == []


def without(found: dict[str, Any], *names: str) -> bool:
    """Whether neither a variable nor the socket that it names came inside."""
    return not set(names) & set(found["variables"]) and {found["paths"].get(name, "ENOENT") for name in names} == {"ENOENT"}


@row("start a service by the session's D-Bus", "neither its socket nor its address is there")
def test_b03_the_bus_of_the_session_is_not_there(found: dict[str, Any]) -> None:
    assert without(found, "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")


@row("ask the system's bus, polkit, systemd", "`/run` is empty")
def test_b04_the_bus_of_the_system_is_not_there(found: dict[str, Any]) -> None:
    assert [path for path in found["known_sockets"] if "dbus" in path or "systemd" in path] == []


@row("read keys and the screen by X11", "no DISPLAY, no XAUTHORITY, no socket; the abstract one is out of scope")
def test_b05_the_x_display_is_not_there(found: dict[str, Any]) -> None:
    assert without(found, "DISPLAY", "XAUTHORITY")
    assert "/tmp/.X11-unix" not in found["known_sockets"]


@row("reach Wayland, PipeWire, portals", "neither socket nor variable is there")
def test_b06_the_wayland_display_is_not_there(found: dict[str, Any]) -> None:
    assert without(found, "WAYLAND_DISPLAY", "PIPEWIRE_REMOTE")


@row("sign with the ssh or gpg agent", "neither socket nor variable is there")
def test_b07_the_agents_of_ssh_and_gpg_are_not_there(found: dict[str, Any]) -> None:
    assert without(found, "SSH_AUTH_SOCK", "GPG_AGENT_INFO")


@row("become root by docker, podman, containerd, libvirt, lxd, snapd", "their sockets do not exist inside")
def test_b09_the_sockets_of_container_services_are_not_there(found: dict[str, Any]) -> None:
    assert without(found, "DOCKER_HOST")
    assert [path for path in found["known_sockets"] if "dbus" not in path] == []


@row("use a debugger's or developer's port on loopback", "`--net none`: refused; with the host's network it is open", RESIDUAL)
def test_b11_loopback_is_the_hosts_only_with_its_network(found: dict[str, Any], net: str) -> None:
    assert found["loopback"] == ("done" if net == "host" else "ECONNREFUSED")


@row(
    "open anew, for writing, a file that the user redirected as input, output or errors",
    "pipes stand between: `/proc/self/fd` shows pipes and terminals only",
)
def test_b15_no_redirected_file_or_directory_comes_inside(agent_dev: AgentDev, tmp_path: Path) -> None:
    given, out, errors = tmp_path / "given", tmp_path / "out", tmp_path / "errors"
    given.write_text("given\n")
    script = "for n in 0 1 2; do readlink /proc/self/fd/$n; done; cat; echo said >&2; echo x 2>/dev/null >/proc/self/fd/0"
    words = [str(PROGRAM), "--", "sh", "-c", script]
    with given.open() as before, out.open("w") as its_out, errors.open("w") as its_errors:
        subprocess.run(words, stdin=before, stdout=its_out, stderr=its_errors, env=agent_dev.env, cwd=agent_dev.repo, check=False)
    said = out.read_text().splitlines()
    assert [line.split(":")[0] for line in said] == ["pipe", "pipe", "pipe", "given"]
    assert errors.read_text().splitlines()[-1:] == ["said"]
    assert given.read_text() == "given\n"


def test_what_an_agent_did_not_read_of_its_input_is_left_for_the_next_program(agent_dev: AgentDev, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("".join(f"{n}\n" for n in range(10_000)))
    with given.open("rb") as before:
        words = [str(PROGRAM), "--", "head", "-c", "4"]
        first = subprocess.run(words, stdin=before, capture_output=True, env=agent_dev.env, cwd=agent_dev.repo, check=True).stdout
        rest = subprocess.run(["cat"], stdin=before, capture_output=True, check=True).stdout
    assert len(first) == 4
    assert given.read_bytes().endswith(rest)
    assert first.startswith(b"0\n1\n")


def test_all_that_an_agent_writes_is_in_the_file_when_it_has_ended(agent_dev: AgentDev, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("before\n")
    with out.open("ab") as after:
        words = [str(PROGRAM), "--", "sh", "-c", "seq 1 200000; echo last >&2"]
        subprocess.run(
            words, stdout=after, stderr=after, stdin=subprocess.DEVNULL, env=agent_dev.env, cwd=agent_dev.repo, check=True
        )
    expected = ["before", *map(str, range(1, 200_001)), "last"]
    assert out.read_text().splitlines() == expected


@row(
    "a socket or FIFO in a directory that is shown: a tool's, or one of `--ro`", "it is reached; name no such directory", RESIDUAL
)
def test_b16_sockets_in_shown_directories_are_reached(found: dict[str, Any]) -> None:
    assert found["shown_socket"] == "done"


@row("the host's shared memory, semaphores, message queues", "an ipc namespace and a /dev/shm of its own")
def test_b17_no_shared_memory_of_the_host_is_there(found: dict[str, Any]) -> None:
    assert found["shared_memory"] == ["ENOENT", {"shm": 0, "sem": 0, "msg": 0}, []]


@row("read or use the keys of the user's session", "the filter: ENOSYS; only their names show, in `/proc/keys`")
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
    "take an abstract name that programs of the host connect to later",
    "`--net none`; with the host's network it is open",
    RESIDUAL,
)
def test_b19_an_abstract_name_can_be_taken_with_the_hosts_network_alone(agent_dev: AgentDev, net: str) -> None:
    name = f"agent-dev-test-{os.getpid()}"
    with agent_dev.started("--net", net, "--", PYTHON, "-I", "-c", LISTEN, name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert connects(socket.AF_UNIX, f"\0{name}") == (net == "host")
        process.communicate("\n", timeout=60)


@row("sockets of other families: packet, vsock, bluetooth, alg …", "the filter has a list of those that are allowed")
def test_b20_sockets_are_of_few_families(found: dict[str, Any]) -> None:
    expected = {name: "EPROTONOSUPPORT" if name.startswith("netlink") else "EAFNOSUPPORT" for name in FAMILIES}
    assert found["families"] == expected | dict.fromkeys(OPEN, "done")
    assert found["pairs"] == ["done", "EAFNOSUPPORT"]


@row(
    "trick a proxy that filters names, by a NUL in a name",
    "there is no filter of names to trick: `--net none` has no way to any proxy, `--net host` has no filter",
)
def test_b13_without_a_network_no_proxy_is_reached_whatever_the_name(world: World) -> None:
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
        words = ("--net", "none", "--env", f"PROXY={proxy.getsockname()[1]}", "--env", f"all_proxy={address}")
        assert world.program.show_inside(code, *words) == ["ConnectionRefusedError"] * 2
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()
