"""Translate a SandboxPlan into arguments for bubblewrap and mounts for the setup process."""

from agent_dev.paths import is_below
from agent_dev.sandbox.plan import Bind, Dev, File, Mask, MaskedView, Mount, Overlay, Proc, SandboxPlan, Scratch, Symlink, Tmpfs
from agent_dev.value import Value

# The process that mounts overlays, and everything at paths where an agent could have created a link.
BY_BWRAP = "bwrap"  # bubblewrap >= 0.12: has --overlay and refuses links while it creates mount points
BY_LAUNCHER = "launcher"  # the setup process, in its own mount namespace, on descriptors opened without following links

HAS_OVERLAY = (0, 11, 0)
SAFE_OVERLAY = (0, 12, 0)


class MountSplit(Value):
    """The plan's mounts, divided between the setup process (first in time) and bubblewrap.

    `early_binds`: directories that an overlay of the setup process will hide, with the path where each is bound before.
    """

    bwrap: tuple[Mount, ...]
    setup: tuple[Mount, ...]
    early_binds: tuple[tuple[str, str], ...] = ()  # source, early mount point


def default_overlay_mode(version: tuple[int, int, int]) -> str:
    """Return which process mounts overlays with this version of bubblewrap."""
    return BY_BWRAP if version >= SAFE_OVERLAY else BY_LAUNCHER


def split_mounts(plan: SandboxPlan, mode: str) -> MountSplit:
    """Divide a plan's mounts for one overlay mode; both modes produce the same sandbox."""
    if mode == BY_BWRAP:
        return MountSplit(plan.mounts, ())
    writable = plan.writable_targets()
    below = [mount for mount in plan.mounts if any(is_below(mount.target, path) and mount.target != path for path in writable)]
    by_setup = [mount for mount in plan.mounts if isinstance(mount, Overlay) or mount in below]
    by_bwrap: list[Mount] = []
    early_binds: list[tuple[str, str]] = []
    for mount in plan.mounts:
        if mount in below:
            continue
        if isinstance(mount, Overlay):
            by_bwrap.append(Bind(mount.target, mount.target, writable=True))
        elif isinstance(mount, Bind) and (path := _early_mount_base(mount.source, by_setup)):
            early_binds.append((mount.source, f"{path}.{len(early_binds)}"))
            by_bwrap.append(mount.replace(source=early_binds[-1][1]))
        else:
            by_bwrap.append(mount)
    return MountSplit(tuple(by_bwrap), tuple(by_setup), tuple(early_binds))


def _early_mount_base(source: str, mounts: list[Mount]) -> str:
    """Return the session's path next to which a directory hidden by our mounts can be bound; "" if none hides it."""
    for mount in mounts:
        if is_below(source, mount.target):
            if isinstance(mount, Overlay):
                return mount.upper
            if isinstance(mount, Bind) and mount.source != mount.target:
                return mount.source
    return ""


def home_mount_points(plan: SandboxPlan) -> tuple[str, ...]:
    """Return the directories that the plan needs in the agent home, relative to it, outermost first."""
    prefix = plan.home.rstrip("/") + "/"
    below = [m.target[len(prefix) :] for m in plan.mounts if m.target.startswith(prefix) and not isinstance(m, File | Mask)]
    return tuple(sorted(below))


def bwrap_options(plan: SandboxPlan, mounts: tuple[Mount, ...], descriptors: dict[str, int]) -> tuple[str | int, ...]:
    """Return bubblewrap's options, without the command; `descriptors` (files' data by target) stay numbers."""
    options: list[str | int] = ["--die-with-parent", "--cap-drop", "ALL", "--hostname", plan.hostname]
    options += [f"--unshare-{name}" for name in plan.unshare]
    for option, number in zip(("--uid", "--gid"), plan.ids, strict=False):
        options += (option, str(number))
    for name, value in plan.env:
        options += ("--setenv", name, value)
    for mount in mounts:
        options += _mount(mount, descriptors)
    options += ("--chdir", plan.cwd, "--remount-ro", "/")
    return tuple(options)


def _mount(mount: Mount, descriptors: dict[str, int]) -> tuple[str | int, ...]:  # noqa: C901, PLR0911  (one case per kind)
    match mount:
        case File(target, _, _, is_program):
            return ("--perms", "0555" if is_program else "0444", "--file", descriptors[target], target)
        case Mask(target):
            return ("--perms", "0444", "--ro-bind-data", descriptors[target], target)
        case Bind(target, source, writable):
            return ("--bind" if writable else "--ro-bind", source, target)
        case Overlay(target, lower, upper, work, middle):
            sources = ("--overlay-src", lower, *(("--overlay-src", middle) if middle else ()))
            return (*sources, "--overlay", upper, work, target)
        case MaskedView(target, lower, front):
            return ("--overlay-src", lower, "--overlay-src", front, "--ro-overlay", target)
        case Scratch(target, lower):
            return ("--overlay-src", lower, "--tmp-overlay", target)
        case Tmpfs(target, size, mode):
            return ("--perms", mode, "--size", str(size), "--tmpfs", target)
        case Symlink(target, points_to):
            return ("--symlink", points_to, target)
        case Proc(target):
            return ("--proc", target)
        case Dev(target, devices):
            binds = (word for path in devices for word in ("--dev-bind", path, path))
            return ("--dev", target, *binds, "--remount-ro", target)  # its tmpfs has no size limit


def shell_line(plan: SandboxPlan, program: str, version: tuple[int, int, int]) -> str:
    """Return one line for bash that builds the same sandbox, ready to paste.

    Its overlays have a temporary upper layer; before bubblewrap 0.11 the roots are read-only instead.
    """
    mounts = tuple(_for_shell(mount, version) for mount in plan.mounts)
    data_mounts = [m for m in mounts if isinstance(m, File | Mask)]
    numbers = {m.target: 10 + n for n, m in enumerate(data_mounts)}
    data = {m.target: m.data if isinstance(m, File) else b"" for m in data_mounts}
    inputs = [f"{n}< <(printf -- {_escape(data[target], b'%')})" for target, n in numbers.items()]
    command = (program, *bwrap_options(plan, mounts, numbers), "--", *plan.command)
    return " ".join(("env -i", *(_quote(str(word)) for word in command), *inputs))


def _quote(word: str) -> str:
    """Quote a word for bash, on one line and with visible characters only, so that it can be printed."""
    from shlex import quote  # not on the launch path: shlex imports re

    return quote(word) if word.isascii() and word.isprintable() else f"${_escape(word.encode('utf-8', 'surrogateescape'))}"


def _escape(data: bytes, special: bytes = b"") -> str:
    characters = (f"\\x{byte:02x}" if not 31 < byte < 127 or byte in b"'\\" + special else chr(byte) for byte in data)
    return f"'{''.join(characters)}'"


def _for_shell(mount: Mount, version: tuple[int, int, int]) -> Mount:
    match mount:
        case File(target, _, True):
            return Bind(target, target)
        case Overlay(target, lower, _, _):
            return Scratch(target, lower) if version >= HAS_OVERLAY else Bind(target, lower)
        case MaskedView(target, _, _) if version < HAS_OVERLAY:
            return Tmpfs(target, 4096)  # hides everything, so that no credentials are shown
        case _:
            return mount
