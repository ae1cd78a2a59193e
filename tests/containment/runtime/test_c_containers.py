"""CONTAINMENT C: what a sandbox with containers has in addition."""

import shlex

import pytest

from tests.containment.rows import row
from tests.harness.program import PYTHON, AgentDev

pytestmark = pytest.mark.only_podman

# TUNSETIFF: attach to the interface tap9 of the network that the sandbox shares, or create it.
ATTACH = """
import fcntl, os
try:
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, 0x400454CA, b"tap9".ljust(16, bytes(1)) + (0x1002).to_bytes(2, "little") + bytes(22))
    print("attached")
except OSError as error:
    print(error.strerror)
"""
PERSIST = f"{ATTACH}\nfcntl.ioctl(fd, 0x400454CB, 1)"  # TUNSETPERSIST
OWN_NETWORK = ("unshare", "--user", "--map-current-user", "--net", "--keep-caps", "sh", "-c")
RUN = 'exec setpriv --ambient-caps=-all --inh-caps=-all "$@"'  # bubblewrap refuses capabilities
GROUPS = "ls -A /sys/fs/cgroup; cat /sys/fs/cgroup/* 2>/dev/null; stat -fc %T /sys/fs/cgroup; echo end"


@row(
    "attach to a tun interface of the host through `/dev/net/tun`, which containers need",
    "shown only with `containers`; with the host's network only if no such interface can be attached to",
)
def test_c95_no_interface_of_the_host_can_be_attached_to(agent_dev: AgentDev) -> None:
    words = ("--containers", "--", PYTHON, "-c", ATTACH)
    make = f"{PYTHON} -c {shlex.quote(PERSIST)} >&2; {RUN}"
    shared = agent_dev(*words, before=(*OWN_NETWORK, make, "sh"))
    assert shared.stdout.strip() == "No such file or directory", shared.stderr
    assert "tap9" in shared.stderr
    created = agent_dev(*words, before=(*OWN_NETWORK, RUN, "sh"))
    assert created.stdout.strip() == "Operation not permitted", created.stderr


@row(
    "find or change control groups of the host where podman looks for them",
    "with `containers`, `/sys/fs/cgroup` is an empty file system in memory",
)
def test_c96_podman_finds_no_control_group_of_the_host(agent_dev: AgentDev) -> None:
    done = agent_dev("--containers", "--", "sh", "-c", GROUPS)
    assert done.stdout.split() == ["tmpfs", "end"], done.stderr
