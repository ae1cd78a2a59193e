"""Profile, machine and session put together: what the sandbox looks like."""

from binascii import crc32

from agent_dev.config.profile import Profile
from agent_dev.value import Value

GIB = 1 << 30
RUN = "/run/agent-dev"  # ours inside: object stores, terminfo, the demo's script
ORDINARY, ORDINARY_NAME = 1000, "agent"  # what root is inside
PROGRAMS = f"{RUN}/bin"
WORDS = ("tx", "agent-dev", "checkpoint", "rollback")  # what lies there, where a session has a door


class Bind(Value):
    """A host path shown at `target`."""

    target: str
    source: str
    writable: bool = False


class Overlay(Value):
    """A copy-on-write view of `lower`; changes go to `upper`."""

    target: str
    lower: str
    upper: str
    work: str


class Scratch(Value):
    """A copy-on-write view of `lower` whose changes are thrown away."""

    target: str
    lower: str


class Tmpfs(Value):
    """An empty file system in memory, at most `size` bytes."""

    target: str
    size: int
    mode: str = "0755"


class Dev(Value):
    """A small /dev."""

    target: str


class Proc(Value):
    """A /proc of the sandbox's own processes."""

    target: str


class Symlink(Value):
    """A link of the sandbox's own root."""

    target: str
    points_to: str


class File(Value):
    """A small file made at the start; costs a tenth of a bind mount."""

    target: str
    data: bytes
    is_copy: bool = False  # of the same path on the host
    is_program: bool = False


class Mask(Value):
    """An empty, read-only file over one that holds a credential."""

    target: str


class Cover(Value):
    """A read-only view of `lower` with what `front` holds laid over it: empty files where credentials are or could be."""

    target: str
    lower: str
    front: str


Mount = Bind | Overlay | Scratch | Cover | Tmpfs | Dev | Proc | Symlink | File | Mask


class Machine(Value):
    """What a plan must know of this computer and its user."""

    uid: int
    gid: int
    user: str
    home: str
    shell: str
    bwrap: str
    bwrap_version: tuple[int, int, int]
    links: tuple[tuple[str, str], ...]  # (path, where it points) for /bin, /lib …
    system: tuple[str, ...]  # directories shown whole, read-only
    etc: tuple[Mount, ...]  # what shows the parts of /etc that programs need

    @property
    def is_root(self) -> bool:
        """Whether root started it. Inside it is an ordinary user then (docs/decisions/0027-root-inside.md)."""
        return self.uid == 0


class Root(Value):
    """One directory that the agent changes through an overlay."""

    path: str
    upper: str
    work: str


class GitDir(Value):
    """The agent's private copy of a git dir. `target` is empty when it lies inside a root's upper."""

    source: str
    target: str
    stores: tuple[tuple[str, str], ...]  # (host directory of objects, where it is shown inside)
    large: tuple[tuple[str, str], ...] = ()  # the same of LFS objects


class Door(Value):
    """Where an agent makes transactions of its session: the socket, on the host, and the program that speaks to it inside."""

    source: str
    script: bytes


class Setting(Value):
    """The session's part of a plan, every path absolute and checked to exist (`shown` tools and caches)."""

    session: str
    agent_home: str
    roots: tuple[Root, ...]
    cwd: str
    command: tuple[str, ...]
    git_dirs: tuple[GitDir, ...] = ()
    git_config: bytes = b""
    tools: tuple[str, ...] = ()
    caches: tuple[Root, ...] = ()  # throw-away: path, upper, work
    covers: tuple[tuple[str, str], ...] = ()  # of tools and `ro`: path, what is laid over it
    masks: tuple[str, ...] = ()  # files
    blanks: tuple[str, ...] = ()  # directories
    blank: str = ""  # an empty directory
    shares: tuple[Mount, ...] = ()  # sockets that the user hands in
    door: Door | None = None
    ro: tuple[str, ...] = ()
    rw: tuple[str, ...] = ()
    direct: str = ""  # the root itself, written directly, instead of an overlay
    files: tuple[tuple[str, bytes], ...] = ()
    env: tuple[tuple[str, str], ...] = ()  # from the user's environment, already filtered


class SandboxPlan(Value):
    """The whole sandbox as data: printed by `show`, carried out by `host.launch`."""

    mounts: tuple[Mount, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    command: tuple[str, ...]
    unshare: tuple[str, ...]
    hostname: str
    agent_home: str  # on the host
    home: str  # inside
    nested: bool = True  # whether sandboxes can be made inside
    ids: tuple[int, ...] = ()  # uid and gid inside where they are not the user's own
    limits: tuple[tuple[str, int], ...] = ()  # those that the keeper sets, for each process

    def writable(self) -> tuple[str, ...]:
        """Return the places inside that an agent can write: nothing that bwrap makes may lie below them."""
        return tuple(m.target for m in self.mounts if isinstance(m, Overlay) or (isinstance(m, Bind) and m.writable))


# What every agent gets from the user's environment, when it is set there.
BASE_ENV = (
    "TERM",
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
    "NO_COLOR",
    "EDITOR",
    "VISUAL",
)
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
PROXY_ENV = (*_PROXIES, *(name.upper() for name in _PROXIES))

# The administrator's programs last: each place that comes before a program's is looked at whenever it is started.
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


def build(profile: Profile, machine: Machine, setting: Setting) -> SandboxPlan:
    """Return the sandbox for one session; pure, so that `show` prints what `run` does."""
    mounts = (
        *_system(machine, dict(profile.limits).get("tmp", 0)),
        *_home(machine, setting),
        *_roots(setting),
        *_shown(setting, setting.ro),
        *(Bind(path, path, writable=True) for path in setting.rw),
        *(Mask(path) for path in setting.masks),
        *(Bind(path, setting.blank) for path in setting.blanks),
    )
    return SandboxPlan(
        mounts=mounts,
        env=_env(profile, machine, setting),
        cwd=setting.cwd,
        command=setting.command,
        unshare=("user", "pid", "ipc", "uts", "cgroup-try", *(("net",) if profile.net == "none" else ())),
        hostname="sandbox",
        agent_home=setting.agent_home,
        home=machine.home,
        nested=profile.nested,
        ids=(ORDINARY, ORDINARY) if machine.is_root else (),
        limits=profile.limits,
    )


def _system(machine: Machine, size: int) -> tuple[Mount, ...]:
    return (
        *(Bind(path, path) for path in machine.system),
        *(Symlink(path, points_to) for path, points_to in machine.links),
        *machine.etc,
        Proc("/proc"),
        # What root owns there root can write, without any capability. For others nothing covers a part of /proc: the kernel
        # would then refuse one to the sandboxes that an agent makes itself.
        *((Bind("/proc/sys", "/proc/sys"),) if machine.is_root else ()),
        Dev("/dev"),
        Tmpfs("/dev/shm", size or GIB, "1777"),
        Tmpfs("/tmp", size or 4 * GIB, "1777"),
        Tmpfs("/var/tmp", size or 4 * GIB, "1777"),
        Tmpfs("/run", size or GIB),
    )


def _home(machine: Machine, setting: Setting) -> tuple[Mount, ...]:
    return (
        *((File(f"{RUN}/gitconfig", setting.git_config),) if setting.git_config else ()),
        *(File(path, data) for path, data in setting.files),
        Bind(machine.home, setting.agent_home, writable=True),
        *_shown(setting, setting.tools),
        *(Overlay(cache.path, cache.path, cache.upper, cache.work) for cache in setting.caches),
        *setting.shares,
        *_door(setting.door),
    )


def _door(door: Door | None) -> tuple[Mount, ...]:
    if door is None:
        return ()
    first, *others = WORDS
    program = File(f"{PROGRAMS}/{first}", door.script, is_program=True)
    return (Bind(f"{RUN}/door", door.source), program, *(Symlink(f"{PROGRAMS}/{word}", first) for word in others))


def _shown(setting: Setting, paths: tuple[str, ...]) -> tuple[Mount, ...]:
    fronts = dict(setting.covers)
    return tuple(Cover(path, path, fronts[path]) if path in fronts else Bind(path, path) for path in paths)


def _roots(setting: Setting) -> tuple[Mount, ...]:
    stores = tuple(Bind(inside, outside) for g in setting.git_dirs for outside, inside in (*g.stores, *g.large))
    binds = tuple(Bind(g.target, g.source, writable=True) for g in setting.git_dirs if g.target)
    roots = sorted(setting.roots, key=lambda root: root.path.count("/"))
    direct = (Bind(setting.direct, setting.direct, writable=True),) if setting.direct else ()
    return (*stores, *direct, *(Overlay(root.path, root.path, root.upper, root.work) for root in roots), *binds)


def _env(profile: Profile, machine: Machine, setting: Setting) -> tuple[tuple[str, str], ...]:
    env = dict(setting.env)
    user = ORDINARY_NAME if machine.is_root else machine.user
    env |= {
        "HOME": machine.home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": machine.shell,
        "PATH": ":".join((*inside_path(profile, machine.home), *((PROGRAMS,) if setting.door else ()))),
        "AGENT_DEV_SESSION": setting.session,
    }
    if any(is_below(path, f"{RUN}/terminfo") for path, _ in setting.files):
        env["TERMINFO_DIRS"] = f"{RUN}/terminfo:"  # the empty part is the system's own place
    env |= dict(profile.set)
    return tuple(env.items())


def expand(path: str, home: str) -> str:
    """Return `path` with a leading `~` replaced by `home`."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def home_place(profile: Profile, home: str, root: str) -> str:
    """Return where the agent home lies: `{profile}` and `{project}` in it give each profile or each root one of its own."""
    place = expand(profile.home, home)
    if "{" not in place:
        return place
    project = f"{root.rpartition('/')[2]}-{crc32(root.encode('utf-8', 'surrogateescape')):08x}"
    return place.replace("{profile}", profile.name).replace("{project}", project)


def homes_folder(profile: Profile, home: str) -> str:
    """Return the directory that holds the agent homes of all profiles and projects."""
    place, brace, _ = expand(profile.home, home).partition("{")
    return place.rpartition("/")[0] if brace else place


def inside_path(profile: Profile, home: str) -> tuple[str, ...]:
    """Return the directories of PATH inside, in the order in which a command is looked for: those with a `?` behind them last."""
    first = (expand(path, home) for path in profile.path if not path.endswith("?"))
    last = (expand(path[:-1], home) for path in profile.path if path.endswith("?"))
    return tuple(dict.fromkeys((*first, *SYSTEM_PATH, *last)))


def allowed_env(profile: Profile, environ: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what of the user's environment comes in: the base set, proxies, the profile's and `--env` names."""
    names = (*BASE_ENV, *PROXY_ENV, *profile.env)
    return tuple((name, environ[name]) for name in dict.fromkeys(names) if name in environ)


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
