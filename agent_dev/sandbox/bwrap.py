"""`SandboxPlan` → arguments of bubblewrap, and what the launcher mounts itself."""

from agent_dev.sandbox.plan import (
    Bind,
    Cover,
    Dev,
    File,
    Mask,
    Mount,
    Overlay,
    Proc,
    SandboxPlan,
    Scratch,
    Symlink,
    Tmpfs,
    is_below,
)
from agent_dev.value import Value

# Who mounts what an agent could have put a link in the way of, and the overlays.
BY_BWRAP = "bwrap"  # bubblewrap >= 0.12: has --overlay and refuses links while it makes mount points
BY_LAUNCHER = "launcher"  # in a mount namespace of the launcher's own, on descriptors opened without following links

HAS_OVERLAY = (0, 11, 0)
SAFE_OVERLAY = (0, 12, 0)


class Share(Value):
    """The plan's mounts, divided: the launcher's come first in time, bubblewrap binds what they left.

    `aside`: directories below what an overlay of the launcher's is about to hide, each with the place where it is shown before.
    """

    bwrap: tuple[Mount, ...]
    launcher: tuple[Mount, ...]
    aside: tuple[tuple[str, str], ...] = ()  # source, place


def default_way(version: tuple[int, int, int]) -> str:
    """Return who mounts overlays with a bubblewrap of this version."""
    return BY_BWRAP if version >= SAFE_OVERLAY else BY_LAUNCHER


def divide(plan: SandboxPlan, way: str) -> Share:
    """Divide the mounts of a plan for one way of making overlays; both ways show the same inside."""
    if way == BY_BWRAP:
        return Share(plan.mounts, ())
    places = plan.writable()
    below = [mount for mount in plan.mounts if any(is_below(mount.target, place) and mount.target != place for place in places)]
    ours = [mount for mount in plan.mounts if isinstance(mount, Overlay) or mount in below]
    theirs: list[Mount] = []
    aside: list[tuple[str, str]] = []
    for mount in plan.mounts:
        if mount in below:
            continue
        if isinstance(mount, Overlay):
            theirs.append(Bind(mount.target, mount.target, writable=True))
        elif isinstance(mount, Bind) and (place := _aside(mount.source, ours)):
            aside.append((mount.source, f"{place}.{len(aside)}"))
            theirs.append(mount.but(source=aside[-1][1]))
        else:
            theirs.append(mount)
    return Share(tuple(theirs), tuple(ours), tuple(aside))


def _aside(source: str, ours: list[Mount]) -> str:
    """Return beside what of the session's a directory can be shown that a mount of ours hides; "" where none does."""
    for mount in ours:
        if is_below(source, mount.target):
            if isinstance(mount, Overlay):
                return mount.upper
            if isinstance(mount, Bind) and mount.source != mount.target:
                return mount.source
    return ""


def mount_points(plan: SandboxPlan) -> tuple[str, ...]:
    """Return the directories that must exist in the agent home for the plan, relative to it, outermost first."""
    inside = plan.home.rstrip("/") + "/"
    below = [m.target[len(inside) :] for m in plan.mounts if m.target.startswith(inside) and not isinstance(m, File | Mask)]
    return tuple(sorted(below))


def arguments(plan: SandboxPlan, mounts: tuple[Mount, ...], descriptors: dict[str, int]) -> tuple[str | int, ...]:
    """Return bubblewrap's options, without the command; `descriptors`, numbers of files' data by target, stay numbers."""
    words: list[str | int] = ["--die-with-parent", "--cap-drop", "ALL", "--hostname", plan.hostname]
    words += [f"--unshare-{name}" for name in plan.unshare]
    for option, number in zip(("--uid", "--gid"), plan.ids, strict=False):
        words += (option, str(number))
    for name, value in plan.env:
        words += ("--setenv", name, value)
    for mount in mounts:
        words += _mount(mount, descriptors)
    words += ("--chdir", plan.cwd, "--remount-ro", "/")
    return tuple(words)


def _mount(mount: Mount, descriptors: dict[str, int]) -> tuple[str | int, ...]:  # noqa: C901, PLR0911  (a case for each kind)
    match mount:
        case File(target, _, _, is_program):
            return ("--perms", "0555" if is_program else "0444", "--file", descriptors[target], target)
        case Mask(target):
            return ("--perms", "0444", "--ro-bind-data", descriptors[target], target)
        case Bind(target, source, writable):
            return ("--bind" if writable else "--ro-bind", source, target)
        case Overlay(target, lower, upper, work):
            return ("--overlay-src", lower, "--overlay", upper, work, target)
        case Cover(target, lower, front):
            return ("--overlay-src", lower, "--overlay-src", front, "--ro-overlay", target)
        case Scratch(target, lower):
            return ("--overlay-src", lower, "--tmp-overlay", target)
        case Tmpfs(target, size, mode):
            return ("--perms", mode, "--size", str(size), "--tmpfs", target)
        case Symlink(target, points_to):
            return ("--symlink", points_to, target)
        case Proc(target):
            return ("--proc", target)
        case Dev(target):
            return ("--dev", target, "--remount-ro", target)  # its tmpfs has no limit of its own


def shell_line(plan: SandboxPlan, program: str, version: tuple[int, int, int]) -> str:
    """Return one line for bash that builds the same sandbox by hand, ready to paste.

    Overlays have a throw-away upper there; before bubblewrap 0.11 the roots are read-only instead.
    """
    mounts = tuple(_by_hand(mount, version) for mount in plan.mounts)
    made = [m for m in mounts if isinstance(m, File | Mask)]
    numbers = {m.target: 10 + n for n, m in enumerate(made)}
    data = {m.target: m.data if isinstance(m, File) else b"" for m in made}
    inputs = [f"{n}< <(printf -- {_escaped(data[target], b'%')})" for target, n in numbers.items()]
    words = (program, *arguments(plan, mounts, numbers), "--", *plan.command)
    return " ".join(("env -i", *(_quoted(str(word)) for word in words), *inputs))


def _quoted(word: str) -> str:
    """Return a word as bash reads it, on one line and of visible letters alone, so that it can be shown as it is."""
    from shlex import quote  # not on the launch path: shlex imports re

    return quote(word) if word.isascii() and word.isprintable() else f"${_escaped(word.encode('utf-8', 'surrogateescape'))}"


def _escaped(data: bytes, more: bytes = b"") -> str:
    letters = (f"\\x{byte:02x}" if not 31 < byte < 127 or byte in b"'\\" + more else chr(byte) for byte in data)
    return f"'{''.join(letters)}'"


def _by_hand(mount: Mount, version: tuple[int, int, int]) -> Mount:
    match mount:
        case File(target, _, True):
            return Bind(target, target)
        case Overlay(target, lower, _, _):
            return Scratch(target, lower) if version >= HAS_OVERLAY else Bind(target, lower)
        case Cover(target, _, _) if version < HAS_OVERLAY:
            return Tmpfs(target, 4096)  # what it hides is worse than what it shows
        case _:
            return mount
