"""Explain why a sandbox cannot be built on this machine, and how to fix it."""

import errno
import os

from agent_dev.errors import AgentDevError, CannotStart, UnusableStateDirectory
from agent_dev.sandbox.plan import SandboxPlan

APPARMOR_SYSCTL = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_SWITCHES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "sudo sysctl user.max_user_namespaces=15000"),
)
APPARMOR_REMEDY = "install the profile in docs/apparmor.md, or: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"

SECCOMP_FLAG = "--security-opt seccomp=unconfined"
_PODMAN_FILE = "/run/.containerenv"


def explain_setup_failure(error: CannotStart, plan: SandboxPlan) -> AgentDevError:
    """Return an explained error for a setup process that failed."""
    number, reason = error.values.get("number"), str(error.values.get("reason"))
    if "overlay" in reason and number in (errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP, errno.ELOOP):
        hint = "set `state:` in config.yaml to a directory on ext4, xfs, btrfs or tmpfs"
        return UnusableStateDirectory(path="of this session", reason=f"the overlay cannot be mounted: {reason}", hint=hint)
    if number in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS):
        return CannotStart(message=f"namespaces cannot be created: {reason}", hint=userns_hint())
    if number in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
        hint = f"a file or link in the agent home blocks a mount point: {plan.agent_home}"
        return CannotStart(message=f"the sandbox cannot be set up: {reason}", hint=hint)
    if number == errno.ENOSYS:
        return CannotStart(message=f"this kernel is too old: {reason}", hint="Linux 5.12 or newer is required")
    error.hint = error.hint or "run `agent-dev doctor`"
    return error


def userns_hint() -> str:
    """Return why user namespaces do not work here, and the fix."""
    if _read(APPARMOR_SYSCTL).strip() == "1":
        return f"AppArmor restricts user namespaces (Ubuntu 23.10 and later): {APPARMOR_REMEDY}"
    for path, fix in _SWITCHES:
        if _read(path).strip() == "0":
            return f"user namespaces are disabled: {fix}"
    if is_container():
        return f"start this container with {SECCOMP_FLAG} {proc_flag()}"
    return "run `agent-dev doctor`"


def is_container() -> bool:
    """Return whether this looks like a container."""
    return any(os.path.exists(path) for path in ("/.dockerenv", _PODMAN_FILE, "/run/systemd/container"))


def proc_flag() -> str:
    """Return the flag of the container engine that leaves /proc unmasked."""
    return "--security-opt unmask=ALL" if os.path.exists(_PODMAN_FILE) else "--security-opt systempaths=unconfined"


def bwrap_hint(text: str) -> str:
    """Return a hint for a message of bubblewrap's."""
    known = (
        (
            ("No permissions to create new namespace", "setting up uid map", "Creating new namespace failed"),
            userns_hint(),
        ),
        (
            ("Failed to make / slave",),
            "the root of this container or chroot is not a mount: start it with --privileged",
        ),
        (("Can't mount overlay", "overlay"), "set `state:` in config.yaml to a directory on ext4, xfs, btrfs or tmpfs"),
        (
            ("Can't mount proc", "/ns/ns failed"),
            f"/proc is masked in this container: start it with {proc_flag()}",
        ),
        (("Can't set hostname",), f"start this container with {SECCOMP_FLAG}"),
        (("Can't find source path",), "a path in the profile does not exist: agent-dev show AGENT"),
        (("Unknown option",), "this bubblewrap is too old: 0.5 or newer is required"),
    )
    return next((fix for patterns, fix in known if any(pattern in text for pattern in patterns)), "run `agent-dev doctor`")


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
