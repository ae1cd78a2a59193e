"""`SandboxPlan` → arguments of bubblewrap, and what the launcher mounts itself."""

from agent_dev.core.plan import Bind, Dev, File, Mask, Mount, Overlay, Proc, SandboxPlan, Symlink, Tmpfs, is_below
from agent_dev.value import Value

# Who mounts what an agent could have put a link in the way of, and the overlays.
BY_BWRAP = "bwrap"  # bubblewrap >= 0.12: has --overlay and refuses links while it makes mount points
BY_LAUNCHER = "launcher"  # in a mount namespace of the launcher's own, on descriptors opened without following links

SAFE_OVERLAY = (0, 12, 0)


class Share(Value):
    """The plan's mounts, divided: the launcher's come first in time, bubblewrap binds what they left."""

    bwrap: tuple[Mount, ...]
    launcher: tuple[Mount, ...]


def default_way(version: tuple[int, int, int]) -> str:
    """Return who mounts overlays with a bubblewrap of this version."""
    return BY_BWRAP if version >= SAFE_OVERLAY else BY_LAUNCHER


def divide(plan: SandboxPlan, way: str) -> Share:
    """Divide the mounts of a plan for one way of making overlays; both ways show the same inside."""
    if way == BY_BWRAP:
        return Share(plan.mounts, ())
    places = plan.writable()
    ours: list[Mount] = []
    theirs: list[Mount] = []
    for mount in plan.mounts:
        below = any(is_below(mount.target, place) and mount.target != place for place in places)
        if isinstance(mount, Overlay) or below:
            ours.append(mount)
            if not below:
                theirs.append(Bind(mount.target, mount.target, writable=True))
        else:
            theirs.append(mount)
    return Share(tuple(theirs), tuple(ours))


def mount_points(plan: SandboxPlan) -> tuple[str, ...]:
    """Return the directories that must exist in the agent home for the plan, relative to it, outermost first."""
    inside = plan.home.rstrip("/") + "/"
    below = [m.target[len(inside) :] for m in plan.mounts if m.target.startswith(inside) and not isinstance(m, File | Mask)]
    return tuple(sorted(below))


def arguments(plan: SandboxPlan, mounts: tuple[Mount, ...], descriptors: dict[str, int]) -> tuple[str, ...]:
    """Return bubblewrap's options, without the command; `descriptors` hold the data of files, by target."""
    words = ["--die-with-parent", "--cap-drop", "ALL", "--hostname", plan.hostname]
    words += [f"--unshare-{name}" for name in plan.unshare]
    for name, value in plan.env:
        words += ("--setenv", name, value)
    for mount in mounts:
        words += _mount(mount, descriptors)
    words += ("--chdir", plan.cwd, "--remount-ro", "/")
    return tuple(words)


def _mount(mount: Mount, descriptors: dict[str, int]) -> tuple[str, ...]:
    match mount:
        case File(target, _):
            return ("--perms", "0444", "--file", str(descriptors[target]), target)
        case Mask(target):
            return ("--perms", "0444", "--ro-bind-data", str(descriptors[target]), target)
        case Bind(target, source, writable):
            return ("--bind" if writable else "--ro-bind", source, target)
        case Overlay(target, lower, upper, work):
            return ("--overlay-src", lower, "--overlay", upper, work, target)
        case Tmpfs(target, size, mode):
            return ("--perms", mode, "--size", str(size), "--tmpfs", target)
        case Symlink(target, points_to):
            return ("--symlink", points_to, target)
        case Proc(target):
            return ("--proc", target)
        case Dev(target):
            return ("--dev", target)


def shell_line(plan: SandboxPlan, bwrap: str) -> str:
    """Return one shell line that builds the same sandbox by hand (for `show`); files come from here-strings' like."""
    from shlex import quote  # not on the launch path: shlex imports re

    files = [m.target for m in plan.mounts if isinstance(m, File | Mask)]
    numbers = {target: 10 + n for n, target in enumerate(files)}
    words = arguments(plan, plan.mounts, numbers)
    data = {m.target: m.data for m in plan.mounts if isinstance(m, File)}
    inputs = [f"{n}< <(printf %s {quote(data.get(target, b'').decode('utf-8', 'replace'))})" for target, n in numbers.items()]
    line = " ".join(quote(word) for word in (bwrap, *words, "--", *plan.command))
    return " ".join(("env -i", line, *inputs))
