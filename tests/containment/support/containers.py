"""What a sandbox with containers has in addition: nothing in a run without them (tests/containment/with_containers.py).

A test that compares with exact lists adds these, so that anything else is still a failure.
"""

import os

SWITCH = "AGENT_DEV_TEST_CONTAINERS"
IS_ON = os.environ.get(SWITCH) == "1"

_RUNTIME = f"/run/user/{os.getuid()}"
_VARIABLES = {
    "XDG_RUNTIME_DIR": _RUNTIME,
    "DOCKER_HOST": f"unix://{_RUNTIME}/podman/podman.sock",
    "CONTAINERS_CONF": "/run/agent-dev/containers.conf",
    "CONTAINERS_STORAGE_CONF": "/run/agent-dev/containers-storage.conf",
    "NETAVARK_FW": "none",
    "TESTCONTAINERS_RYUK_DISABLED": "true",
}
VARIABLES = _VARIABLES if IS_ON else {}
RUNTIME = {_RUNTIME} if IS_ON else set()  # a directory that is created inside
# Mounts: podman's store, on the disk of the session, and an empty file system of one page in memory.
WRITABLE = {"/var/lib/containers/storage", "/sys/fs/cgroup"} if IS_ON else set()
