"""Refuse unsafe paths, each with a reason, before anything is created."""

from agent_dev.paths import RUN, is_below
from agent_dev.value import Value

AGENT_HOME = "the agent home"  # the label of a path that is requested and protected
_OWN_MOUNTS = (RUN, "/var/tmp")  # mounted below directories of the system


class RequestedPath(Value):
    """A path to show in the sandbox, and its label in messages ("the repository", "--ro")."""

    label: str
    path: str
    is_root: bool = False
    is_writable: bool = False  # bound directly, so the agent writes to it


class ProtectedPaths(Value):
    """Protected paths that no shown path may contain or lie in, with their labels, and the host's mounts."""

    home: str
    own_directories: tuple[tuple[str, str], ...]  # ("the state directory", path) …
    mounts: tuple[str, ...] = ()
    git_dirs: tuple[str, ...] = ()  # the user's git dirs; an agent only gets copies
    trusted_files: tuple[str, ...] = ()  # agent-dev's own settings and programs, which it trusts


def refusal_reason(wanted: tuple[RequestedPath, ...], protected: ProtectedPaths) -> tuple[str, str] | None:
    """Return the first reason to refuse and a hint, or None."""
    for name, own in protected.own_directories:
        if is_below(protected.home, own):
            return f"{name} {own} contains your home directory", "use a separate directory for it"
    for request in wanted:
        found = _refusal_of(request, protected)
        if found:
            return found
    return _nested([request for request in wanted if request.is_root])


def _refusal_of(request: RequestedPath, protected: ProtectedPaths) -> tuple[str, str] | None:
    if found := _never_shown(request):
        return found
    if request.path == protected.home and request.is_root:
        return f"{request.label} is your home directory", "run it in a repository or another directory below it"
    for name, own in protected.own_directories:
        if name == request.label:
            continue
        if is_below(own, request.path):
            return f"{request.label} {request.path} contains {name} ({own})", f"use a smaller directory, or move {name}"
        if is_below(request.path, own):
            return f"{request.label} {request.path} is in {name} ({own})", "use another directory"
    found = _trusted_files(request, protected) if request.is_writable else None
    if found or request.is_root:
        return found or _mount_below(request, protected)
    return _git_dir(request, protected) if request.is_writable else None


def _never_shown(request: RequestedPath) -> tuple[str, str] | None:
    if request.path == "/":
        return f"{request.label} is /, the whole system", "run it in a repository"
    if is_below(request.path, "/proc") or (is_below(request.path, "/dev") and not is_below(request.path, "/dev/shm")):
        return f"{request.label} is {request.path}: a sandbox has processes and devices of its own", "use another directory"
    for own in _OWN_MOUNTS:
        if (request.is_root or request.is_writable) and is_below(own, request.path) and own != request.path:
            return f"{request.label} {request.path} contains {own}, which the sandbox replaces", "use a smaller directory"
    return None


def _trusted_files(request: RequestedPath, protected: ProtectedPaths) -> tuple[str, str] | None:
    trusted = _overlapping(request, protected.trusted_files)
    if trusted is None:
        return None
    message = f"{request.label} {request.path} would let the agent write to {trusted}, which agent-dev trusts"
    return message, "use another or a smaller directory"


def _git_dir(request: RequestedPath, protected: ProtectedPaths) -> tuple[str, str] | None:
    git = _overlapping(request, protected.git_dirs)
    if git is None:
        return None
    message = f"{request.label} {request.path} would let the agent write to {git}: git runs hooks and programs configured there"
    return message, "drop that option: the agent can change the repository and commit in its own copy anyway"


def _overlapping(request: RequestedPath, paths: tuple[str, ...]) -> str | None:
    """Return the first path that contains the requested one or lies in it."""
    return next((path for path in paths if is_below(path, request.path) or is_below(request.path, path)), None)


def _mount_below(request: RequestedPath, protected: ProtectedPaths) -> tuple[str, str] | None:
    below = [mount for mount in protected.mounts if is_below(mount, request.path) and mount != request.path]
    if below:
        return (
            f"{below[0]} is a mount below {request.path}, which an overlay does not support",
            "unmount it, or use another directory",
        )
    return None


def _nested(roots: list[RequestedPath]) -> tuple[str, str] | None:
    for one in roots:
        for other in roots:
            if one is not other and is_below(one.path, other.path):
                return f"{one.label} {one.path} is in {other.path}, which already has an overlay", "drop that option"
    return None


def mount_points(mountinfo: bytes) -> tuple[bytes, ...]:
    """Return the mount points in a /proc/self/mountinfo (proc(5)), with octal escapes decoded."""
    found = []
    for line in mountinfo.splitlines():
        fields = line.split(b" ", 5)
        if len(fields) > 5:
            found.append(_unescape(fields[4]))
    return tuple(found)


def _unescape(text: bytes) -> bytes:
    first, *rest = text.split(b"\\")
    return first + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in rest)
