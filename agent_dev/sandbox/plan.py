"""Combine profile, machine and session into the plan of the sandbox."""

from binascii import crc32

from agent_dev.config.profile import GATEWAY_NETS, Profile
from agent_dev.environment import BASE_ENV, PROXY_ENV
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.paths import RUN, expand, is_below
from agent_dev.session.root import Root
from agent_dev.value import Value

GIB = 1 << 30
NPM_CONFIG = f"{RUN}/npmrc"
INSIDE_UID, INSIDE_USER = 1000, "agent"  # the account that root becomes inside
HOSTNAME = "sandbox"
PROGRAMS = f"{RUN}/bin"
CONTROL = f"{RUN}/control"  # the control socket
CONTROL_COMMANDS = ("tx", "agent-dev", "checkpoint", "rollback")  # its programs, if the session has a control socket


class Bind(Value):
    """A host path mounted at `target`."""

    target: str
    source: str
    writable: bool = False


class Overlay(Value):
    """A copy-on-write view of `lower`, with the read-only `middle` on it, if any; changes go to `upper`."""

    target: str
    lower: str
    upper: str
    work: str
    middle: str = ""


class Scratch(Value):
    """A copy-on-write view of `lower`; changes are discarded."""

    target: str
    lower: str


class Tmpfs(Value):
    """An empty file system in memory, at most `size` bytes."""

    target: str
    size: int
    mode: str = "0755"


class Dev(Value):
    """A small /dev, with further `devices` of the host."""

    target: str
    devices: tuple[str, ...] = ()


class Proc(Value):
    """A /proc of the sandbox's own processes."""

    target: str


class Symlink(Value):
    """A symlink in the sandbox's root file system."""

    target: str
    points_to: str


class File(Value):
    """A small file created at the start; it costs a tenth of a bind mount."""

    target: str
    data: bytes
    is_copy: bool = False  # a copy of the same path on the host
    is_program: bool = False


class Mask(Value):
    """An empty, read-only file over one that holds a credential."""

    target: str


class MaskedView(Value):
    """A read-only view of `lower` with `mask_layer` on top: empty files where credentials are or could be."""

    target: str
    lower: str
    mask_layer: str


Mount = Bind | Overlay | Scratch | MaskedView | Tmpfs | Dev | Proc | Symlink | File | Mask


class MaskEntry(Value):
    """A mask for a credential: its path relative to the shown directory (a directory's ends in a slash), and its content."""

    name: str
    data: bytes = b""


class Machine(Value):
    """The facts about this machine and its user that a plan needs."""

    uid: int
    gid: int
    user: str
    home: str
    shell: str
    bwrap: str
    bwrap_version: tuple[int, int, int]
    links: tuple[tuple[str, str], ...]  # (path, where it points) for /bin, /lib …
    system: tuple[str, ...]  # directories bound read-only
    etc: tuple[Mount, ...]  # mounts for the parts of /etc that programs need

    @property
    def is_root(self) -> bool:
        """True if root started agent-dev; inside, root is an ordinary user (docs/decisions/0027-root-inside.md)."""
        return self.uid == 0


class ControlSocket(Value):
    """The session's control socket, on the host, and the client program inside."""

    path: str
    script: bytes


class SessionSpec(Value):
    """The session's part of a plan; every path is absolute and known to exist."""

    session: str
    agent_home: str
    roots: tuple[Root, ...]
    cwd: str
    command: tuple[str, ...]
    git_dirs: tuple[PrivateGitDir, ...] = ()
    git_config: bytes = b""
    tools: tuple[str, ...] = ()
    caches: tuple[Root, ...] = ()  # discarded afterwards: path, upper, work
    masked_views: tuple[tuple[str, str], ...] = ()  # of tools and `ro`: path, mask layer
    masked_files: tuple[str, ...] = ()  # files
    masked_directories: tuple[str, ...] = ()  # directories
    unmatched_masks: tuple[str, ...] = ()  # patterns of `mask:` that match nothing
    empty_directory: str = ""  # an empty directory
    shared_mounts: tuple[Mount, ...] = ()  # sockets that the user shares
    first_path: tuple[str, ...] = ()  # directories that come first on PATH
    devices: tuple[str, ...] = ()  # of the host, in /dev
    step: tuple[str, ...] = ()  # words before the command
    control_socket: ControlSocket | None = None
    ro: tuple[str, ...] = ()
    rw: tuple[str, ...] = ()
    direct_root: str = ""  # the root, bound writable instead of an overlay
    files: tuple[tuple[str, bytes], ...] = ()
    npm_config: bytes = b""  # the system's settings of npm
    env: tuple[tuple[str, str], ...] = ()  # from the user's environment, already filtered
    brokered_env: tuple[tuple[str, str], ...] = ()  # variables with stand-in keys


class SandboxPlan(Value):
    """The whole sandbox as data: `show` prints it, `sandbox.launch` builds it."""

    mounts: tuple[Mount, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    command: tuple[str, ...]
    unshare: tuple[str, ...]
    hostname: str
    agent_home: str  # on the host
    home: str  # inside
    nested: bool = True  # whether nested sandboxes are possible
    step: tuple[str, ...] = ()  # words before the command, of a program that executes it
    ids: tuple[int, ...] = ()  # uid and gid inside, if not the user's own
    limits: tuple[tuple[str, int], ...] = ()  # the setup process sets those that apply per process
    early_overlays: tuple[Overlay, ...] = ()  # mounted first, at paths of the session that other mounts use

    def writable_targets(self) -> tuple[str, ...]:
        """Return the paths in the sandbox that an agent can write to; bwrap must create nothing below them."""
        return tuple(m.target for m in self.mounts if isinstance(m, Overlay) or (isinstance(m, Bind) and m.writable))


# The sbin directories come last: each directory before a program's own one is searched whenever the program starts.
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


def build_plan(profile: Profile, machine: Machine, setting: SessionSpec) -> SandboxPlan:
    """Return the sandbox plan for one session; pure, so that `show` prints what `run` does."""
    mounts = (
        *_system_mounts(machine, dict(profile.limits).get("tmp", 0), setting.devices),
        *_home_mounts(machine, setting),
        *_root_mounts(setting),
        *_views(setting, setting.ro),
        *(Bind(path, path, writable=True) for path in setting.rw),
        *(Mask(path) for path in setting.masked_files),
        *(Bind(path, setting.empty_directory) for path in setting.masked_directories),
    )
    return SandboxPlan(
        mounts=mounts,
        env=_env(profile, machine, setting),
        cwd=setting.cwd,
        command=setting.command,
        unshare=("user", "pid", "ipc", "uts", "cgroup-try", *(("net",) if profile.net != "host" else ())),
        hostname=HOSTNAME,
        agent_home=setting.agent_home,
        home=machine.home,
        nested=profile.nested,
        step=setting.step,
        ids=(INSIDE_UID, INSIDE_UID) if machine.is_root else (),
        limits=profile.limits,
    )


def _system_mounts(machine: Machine, size: int, devices: tuple[str, ...]) -> tuple[Mount, ...]:
    return (
        *(Bind(path, path) for path in machine.system),
        *(Symlink(path, points_to) for path, points_to in machine.links),
        *machine.etc,
        Proc("/proc"),
        # Root can write what it owns there without any capability. For other users no part of /proc is mounted over: the
        # kernel would then refuse /proc to nested sandboxes.
        *((Bind("/proc/sys", "/proc/sys"),) if machine.is_root else ()),
        Dev("/dev", devices),
        Tmpfs("/dev/shm", size or GIB, "1777"),
        Tmpfs("/tmp", size or 4 * GIB, "1777"),
        Tmpfs("/var/tmp", size or 4 * GIB, "1777"),
        Tmpfs("/run", size or GIB),
    )


def _home_mounts(machine: Machine, setting: SessionSpec) -> tuple[Mount, ...]:
    return (
        *((File(f"{RUN}/gitconfig", setting.git_config),) if setting.git_config else ()),
        # `npm install -g` works. A variable would do that, too, but nvm refuses to work with it.
        File(NPM_CONFIG, setting.npm_config + b"prefix=${HOME}/.local/agent\n"),
        *(File(path, data) for path, data in setting.files),
        Bind(machine.home, setting.agent_home, writable=True),
        *_views(setting, setting.tools),
        *(Overlay(cache.path, cache.path, cache.upper, cache.work) for cache in setting.caches),
        *setting.shared_mounts,
        *_control_socket(setting.control_socket),
    )


def _control_socket(socket: ControlSocket | None) -> tuple[Mount, ...]:
    if socket is None:
        return ()
    first, *others = CONTROL_COMMANDS
    program = File(f"{PROGRAMS}/{first}", socket.script, is_program=True)
    return (Bind(CONTROL, socket.path), program, *(Symlink(f"{PROGRAMS}/{name}", first) for name in others))


def _views(setting: SessionSpec, paths: tuple[str, ...]) -> tuple[Mount, ...]:
    mask_layers = dict(setting.masked_views)
    return tuple(MaskedView(path, path, mask_layers[path]) if path in mask_layers else Bind(path, path) for path in paths)


def _root_mounts(setting: SessionSpec) -> tuple[Mount, ...]:
    stores = tuple(Bind(inside, outside) for g in setting.git_dirs for outside, inside in (*g.stores, *g.lfs_stores))
    binds = tuple(Bind(g.inside_path, g.host_path, writable=True) for g in setting.git_dirs if g.inside_path)
    roots = sorted(setting.roots, key=lambda root: root.path.count("/"))
    direct = (Bind(setting.direct_root, setting.direct_root, writable=True),) if setting.direct_root else ()
    return (*stores, *direct, *(Overlay(root.path, root.path, root.upper, root.work, root.ended_upper) for root in roots), *binds)


def _env(profile: Profile, machine: Machine, setting: SessionSpec) -> tuple[tuple[str, str], ...]:
    env = {"NPM_CONFIG_GLOBALCONFIG": NPM_CONFIG, **dict(setting.env)}
    user = INSIDE_USER if machine.is_root else machine.user
    last = (PROGRAMS,) if setting.control_socket else ()
    env |= {
        "HOME": machine.home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": machine.shell,
        "PATH": ":".join((*setting.first_path, *inside_path(profile, machine.home), *last)),
        "AGENT_DEV_SESSION": setting.session,
        "PIP_BREAK_SYSTEM_PACKAGES": "1",  # `pip install --user` works; the system is read-only
    }
    if f"{machine.home}/.local/bin" in setting.tools:  # the user's, read-only; many installers obey the variable
        env["XDG_BIN_HOME"] = f"{machine.home}/.local/agent/bin"
    if any(is_below(path, f"{RUN}/terminfo") for path, _ in setting.files):
        env["TERMINFO_DIRS"] = f"{RUN}/terminfo:"  # the empty part is the system's default path
    env |= dict(profile.set)
    if profile.credentials:
        env = _with_credentials(env, profile, dict(setting.brokered_env))
    return tuple(env.items())


def _with_credentials(env: dict[str, str], profile: Profile, stand_ins: dict[str, str]) -> dict[str, str]:
    """Return variables without those that may hold a real key, and with those that make programs use stand-in keys."""
    from agent_dev.config import credentials  # deferred: most users have none

    kept = {name: value for name, value in env.items() if name not in credentials.hidden_variables(profile.credentials)}
    found = credentials.parse_credentials(profile.credentials) if stand_ins else ()
    return kept | credentials.inside_variables(found, stand_ins, kept)


def agent_home_path(profile: Profile, home: str, root: str) -> str:
    """Return the path of the agent home; `{profile}` and `{project}` give each profile or root a separate one."""
    path = expand(profile.home, home)
    if "{" not in path:
        return path
    project = f"{root.rpartition('/')[2]}-{crc32(root.encode('utf-8', 'surrogateescape')):08x}"
    return path.replace("{profile}", profile.name).replace("{project}", project)


def network_key(profile: Profile) -> str:
    """Return a key of the network that a profile's sessions use: the mode and, with a gateway, the rules."""
    if profile.net not in GATEWAY_NETS:
        return profile.net
    rules = repr((profile.allow, profile.deny, *((profile.credentials,) if profile.credentials else ())))
    return f"{profile.net}-{crc32(rules.encode('utf-8', 'surrogateescape')):08x}"


def agent_homes_folder(profile: Profile, home: str) -> str:
    """Return the directory that contains the agent homes of all profiles and projects."""
    path, brace, _ = expand(profile.home, home).partition("{")
    return path.rpartition("/")[0] if brace else path


def inside_path(profile: Profile, home: str) -> tuple[str, ...]:
    """Return the directories of PATH in the sandbox, in lookup order: those marked with a `?` come last."""
    first = (expand(path, home) for path in profile.path if not path.endswith("?"))
    last = (expand(path[:-1], home) for path in profile.path if path.endswith("?"))
    return tuple(dict.fromkeys((*first, *SYSTEM_PATH, *last)))


def allowed_env(profile: Profile, environ: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the variables passed through from the user's environment: base set, proxies, the profile's and `--env` names.

    With a gateway every connection is captured, and the gateway itself would use a proxy.
    """
    names = (*BASE_ENV, *(() if profile.net in GATEWAY_NETS else PROXY_ENV), *profile.env)
    return tuple((name, environ[name]) for name in dict.fromkeys(names) if name in environ)
