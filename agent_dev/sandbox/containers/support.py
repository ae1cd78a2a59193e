"""Mounts, files, variables and a step before the agent's command for rootless podman in the sandbox. Pure.

podman gets one user ID, no control groups, and networks without packet filters. Its containers, volumes and new images are in the
session's directory until the run ends; images in the agent home are kept (docs/decisions/0062-containers-inside.md).
"""

from agent_dev.paths import RUN
from agent_dev.sandbox.plan import Bind, File, Mount, Tmpfs
from agent_dev.value import Value

SCRIPT_PARTS = ("exec_command.py", "containers.py")
RUNTIME_PART = "container_runtime.py"
_STORE = "/var/lib/containers/storage"
KEPT_IMAGES = ".local/share/containers/storage"  # in the agent home: podman's default
_SCRIPT = f"{RUN}/containers"
_RUNTIME = f"{_SCRIPT}-runtime"
_SMALL = 1 << 12

_CONFIG = """\
[containers]
cgroups = "disabled"
netns = "{netns}"
default_sysctls = []
default_ulimits = []
keyring = false
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[engine.runtimes]
crun = ["{program}"]
[network]
network_config_dir = "{runtime}/networks"
default_rootless_network_cmd = "{helper}"
"""
_STORAGE = """\
[storage]
driver = "overlay"
runroot = "{runtime}/containers"
graphroot = "{store}"
rootless_storage_path = "{store}"
[storage.options]
additionalimagestores = [{images}]
ignore_chown_errors = "true"
[storage.options.overlay]
ignore_chown_errors = "true"
"""


class ContainerSupport(Value):
    """The programs for containers, as the sandbox shows them, and the user inside."""

    podman: str
    python: str  # runs the script that serves the API
    script: bytes
    runtime_script: bytes  # runs crun
    helper: str  # the program that connects containers to the network; "": they share the sandbox's network
    device: str  # that the helper needs; "" without a helper
    uid: int
    images: str = ""  # a directory in the agent home with images that are kept; "": it does not exist
    problem: str = ""  # why there is no helper

    @property
    def runtime(self) -> str:
        """The directory of sockets and other short-lived files, created inside."""
        return f"/run/user/{self.uid}"

    @property
    def socket(self) -> str:
        """The socket of the Docker API."""
        return f"{self.runtime}/podman/podman.sock"


def store_path(session_folder: str) -> str:
    """Return the directory of a session for containers, volumes and new images, removed with its caches after a run."""
    return f"{session_folder}/caches/containers"


def container_mounts(support: ContainerSupport, session_folder: str) -> tuple[Mount, ...]:
    """Return the mounts for podman: its store on disk, an empty directory where it looks for control groups, the OCI runtime."""
    return (
        Tmpfs("/sys/fs/cgroup", _SMALL, "0555"),
        Bind(_STORE, store_path(session_folder), writable=True),
        File(_RUNTIME, support.runtime_script, is_program=True),
    )


def container_files(support: ContainerSupport) -> tuple[tuple[str, bytes], ...]:
    """Return the generated files of the sandbox: podman's configuration, and the script that serves the API."""
    netns = "private" if support.helper else "host"
    config = _CONFIG.format(netns=netns, helper=support.helper, runtime=support.runtime, program=_RUNTIME)
    storage = _STORAGE.format(runtime=support.runtime, store=_STORE, images=_string(support.images) if support.images else "")
    return (
        (f"{_SCRIPT}.conf", config.encode()),
        (f"{_SCRIPT}-storage.conf", storage.encode("utf-8", "surrogateescape")),
        (_SCRIPT, support.script),
    )


def _string(text: str) -> str:
    """Return text as a basic string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def container_variables(support: ContainerSupport) -> tuple[tuple[str, str], ...]:
    """Return the variables that lead podman to its configuration and other programs to the Docker API."""
    return (
        ("XDG_RUNTIME_DIR", support.runtime),
        ("CONTAINERS_CONF", f"{_SCRIPT}.conf"),
        ("CONTAINERS_STORAGE_CONF", f"{_SCRIPT}-storage.conf"),
        ("NETAVARK_FW", "none"),  # the driver without packet filters; CNI plugins are configured by a file
        ("DOCKER_HOST", f"unix://{support.socket}"),
        ("TESTCONTAINERS_RYUK_DISABLED", "true"),  # it would remove containers after a crash; here they end with the sandbox
    )


def container_step(support: ContainerSupport) -> tuple[str, ...]:
    """Return the words before the agent's command: the script that serves the API, then runs the command."""
    return (support.python, "-I", "-S", "-B", _SCRIPT, support.socket, support.podman, "--")
