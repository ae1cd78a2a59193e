"""Settings of a minimal, a usual and a maximal sandbox, and the plans that are built from them."""

from agent_dev.config.profile import Profile
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.sandbox.plan import Bind, File, Machine, Mount, Overlay, SandboxPlan, Scratch, SessionSpec, build_plan
from agent_dev.session.root import Root

HOME, AGENT_HOME, STATE = "/home/ada", "/srv/aihome", "/srv/state/s1"
MACHINE = Machine(  # noqa: S604  (a field of that name)
    uid=1000,
    gid=1000,
    user="ada",
    home=HOME,
    shell="/bin/bash",
    bwrap="/usr/bin/bwrap",
    bwrap_version=(0, 8, 0),
    links=(("/bin", "usr/bin"), ("/lib", "usr/lib")),
    system=("/usr", "/opt"),
    etc=(
        Bind("/etc/ssl/certs", "/etc/ssl/certs"),
        File("/etc/hosts", b"127.0.0.1 localhost\n", is_copy=True),
        File("/etc/passwd", b"ada:x:1000:1000::/home/ada:/bin/bash\n"),
    ),
)


def root(path: str, number: int = 0) -> Root:
    return Root(path, f"{STATE}/roots/{number}/upper", f"{STATE}/roots/{number}/work")


IN_HOME, OUTSIDE = f"{HOME}/src/shop", "/srv/shop"


def setting(**more: object) -> SessionSpec:
    values: dict[str, object] = {
        "session": "s1",
        "agent_home": AGENT_HOME,
        "roots": (root(OUTSIDE),),
        "cwd": OUTSIDE,
        "command": ("claude", "-p", "x"),
    }
    return SessionSpec(**{**values, **more})  # type: ignore[arg-type]


FULL = setting(
    roots=(root(IN_HOME), root(OUTSIDE, 1)),
    cwd=f"{IN_HOME}/sub",
    git_dirs=(
        PrivateGitDir(f"{STATE}/git/0", f"{HOME}/src/main/.git", ((f"{STATE}/git/farm.0", "/run/agent-dev/objects/0"),)),
        PrivateGitDir(f"{STATE}/roots/0/upper/.git", "", ()),
    ),
    git_config=b"[user]\n",
    tools=(f"{HOME}/.cargo", f"{HOME}/.nvm"),
    caches=(root(f"{HOME}/.cache/pip", 9),),
    masked_files=(f"{HOME}/.cargo/credentials.toml",),
    ro=("/srv/data", f"{IN_HOME}/vendor"),
    rw=(f"{HOME}/out", "/srv/out"),
    files=(("/run/agent-dev/terminfo/x", b"t"),),
    env=(("TERM", "xterm"),),
)
SETTINGS = {"least": setting(), "in the home": setting(roots=(root(IN_HOME),), cwd=IN_HOME), "full": FULL}


def planned(name: str) -> SandboxPlan:
    return build_plan(Profile("x"), MACHINE, SETTINGS[name])


def is_writable(mount: Mount) -> bool:
    return isinstance(mount, Overlay | Scratch) or (isinstance(mount, Bind) and mount.writable)
