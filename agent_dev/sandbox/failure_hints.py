"""What a failure to build a sandbox means on this machine, and what to do about it."""

import errno
import os

from agent_dev.errors import AgentDevError, BwrapFailed, CannotStart, DoesNotStart, StateUnusable
from agent_dev.sandbox import launch
from agent_dev.sandbox.plan import SandboxPlan
from agent_dev.sandbox.terminal import Terminal

APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_SWITCHES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "sudo sysctl user.max_user_namespaces=15000"),
)
PROFILE = "docs/apparmor.md says which profile to install; or: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"


def keeper(error: CannotStart, plan: SandboxPlan) -> AgentDevError:
    """Return the error of a keeper that could not prepare the sandbox, with its meaning."""
    number, reason = error.values.get("number"), str(error.values.get("reason"))
    if "overlay" in reason and number in (errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP, errno.ELOOP):
        hint = "an upper needs ext4, xfs, btrfs or tmpfs: set `state:` in config.yaml to a directory there"
        return StateUnusable(path="of this session", reason=f"the overlay is refused: {reason}", hint=hint)
    if number in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS):
        return CannotStart(message=f"this system does not let you make namespaces: {reason}", hint=userns_hint())
    if number in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
        hint = f"something is in the way in the agent home {plan.agent_home}"
        return CannotStart(message=f"the sandbox cannot be prepared: {reason}", hint=hint)
    if number == errno.ENOSYS:
        return CannotStart(message=f"this kernel is too old: {reason}", hint="Linux 5.12 or newer is needed")
    error.hint = error.hint or "agent-dev doctor"
    return error


def userns_hint() -> str:
    """Return what stands in the way of user namespaces here."""
    if _read(APPARMOR).strip() == "1":
        return f"AppArmor restricts user namespaces (Ubuntu 23.10 and later): {PROFILE}"
    for path, cure in _SWITCHES:
        if _read(path).strip() == "0":
            return f"user namespaces are switched off: {cure}"
    if is_container():
        return "inside a container: start it with --security-opt seccomp=unconfined, or --privileged"
    return "agent-dev doctor says what is missing"


def is_container() -> bool:
    """Whether this looks like the inside of a container."""
    return any(os.path.exists(path) for path in ("/.dockerenv", "/run/.containerenv", "/run/systemd/container"))


def failure(plan: SandboxPlan, program: str, version: tuple[int, int, int], empty: str) -> AgentDevError:
    """Return the error of a sandbox in which the agent never started.

    Bubblewrap's message went to the user's terminal; to know what it said, the same sandbox is built once more around `true`,
    with its message caught. If that works, it was the command that could not be executed.
    """
    said, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(w, 2)
            _build_once(plan.but(command=("/bin/true",)), program, version, empty)
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(said, "rb") as file:
        text = file.read().decode("utf-8", "replace").strip().removeprefix("bwrap: ")
    os.waitpid(pid, 0)
    if text:
        return BwrapFailed(message=text, hint=meaning(text))
    hint = "it is a dangling link inside, or its interpreter is missing there"
    return DoesNotStart(command=plan.command[0], hint=hint)


def _build_once(plan: SandboxPlan, program: str, version: tuple[int, int, int], empty: str) -> None:
    sandbox = launch.start_best(plan, program, version, empty, launch.Keeper(), Terminal())
    launch.release(sandbox)
    launch.is_over(sandbox, 5000)
    launch.kill(sandbox)
    launch.exit_code(sandbox)
    launch.reap(sandbox)


def meaning(text: str) -> str:
    """Return what a message of bubblewrap's means and what to do."""
    known = (
        (
            ("No permissions to create new namespace", "setting up uid map", "Creating new namespace failed"),
            userns_hint(),
        ),
        (
            ("Failed to make / slave",),
            "inside a container or chroot without a mount of its own: start it with --privileged",
        ),
        (("Can't mount overlay", "overlay"), "an upper needs ext4, xfs, btrfs or tmpfs: set `state:` in config.yaml"),
        (
            ("Can't mount proc",),
            "inside a container: /proc is masked there; start it with --security-opt systempaths=unconfined",
        ),
        (("Can't find source path",), "a path of the profile is gone: agent-dev show AGENT"),
        (("Unknown option",), "this bubblewrap is too old: 0.5 or newer is needed"),
    )
    return next((cure for signs, cure in known if any(sign in text for sign in signs)), "agent-dev doctor")


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
