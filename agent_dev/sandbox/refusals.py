"""What is refused before anything is created, and why."""

from agent_dev.sandbox.plan import is_below
from agent_dev.value import Value


class Wanted(Value):
    """A path that would be shown inside, and the words it came by ("the repository", "--ro")."""

    word: str
    path: str
    is_root: bool = False
    is_writable: bool = False  # shown as it is, for the agent to write


class Ground(Value):
    """Places that no path inside may hold or lie in, by what they are called, and the mounts of the host."""

    home: str
    own: tuple[tuple[str, str], ...]  # ("the state directory", path) …
    mounts: tuple[str, ...] = ()
    git: tuple[str, ...] = ()  # the user's git dirs, of which an agent only ever gets copies
    believed: tuple[str, ...] = ()  # settings and programs of agent-dev's own: what an agent wrote there would be believed


def reason(wanted: tuple[Wanted, ...], ground: Ground) -> tuple[str, str] | None:
    """Return the first reason to refuse and a hint, or None."""
    for name, own in ground.own:
        if is_below(ground.home, own):
            return f"{name} {own} holds your home directory", "choose a directory of its own"
    for want in wanted:
        found = _one(want, ground)
        if found:
            return found
    return _nested([want for want in wanted if want.is_root])


def _one(want: Wanted, ground: Ground) -> tuple[str, str] | None:
    if want.path == "/":
        return f"{want.word} is /, the whole system", "go into a repository"
    if want.path == ground.home and want.is_root:
        return f"{want.word} is your home directory", "go into a repository, or a directory below"
    for name, own in ground.own:
        if is_below(own, want.path):
            return f"{want.word} {want.path} holds {name} ({own})", "choose a smaller directory, or move it"
        if is_below(want.path, own):
            return f"{want.word} {want.path} lies in {name} ({own})", "work somewhere else"
    found = _believed(want, ground) if want.is_writable else None
    if found or want.is_root:
        return found or _mount_below(want, ground)
    return _git_dir(want, ground) if want.is_writable else None


def _believed(want: Wanted, ground: Ground) -> tuple[str, str] | None:
    place = _opened(want, ground.believed)
    if place is None:
        return None
    message = f"{want.word} {want.path} would open {place}, settings or programs of agent-dev's own, to be written"
    return message, "choose a smaller directory"


def _git_dir(want: Wanted, ground: Ground) -> tuple[str, str] | None:
    git = _opened(want, ground.git)
    if git is None:
        return None
    message = f"{want.word} {want.path} would open {git} itself, and git runs hooks and programs that are named there"
    return message, "leave it out: the agent can change all of the repository and commit, in a copy of its own"


def _opened(want: Wanted, places: tuple[str, ...]) -> str | None:
    """Return the first of some places that is reached by what is wanted: it lies in it, or the other way round."""
    return next((place for place in places if is_below(place, want.path) or is_below(want.path, place)), None)


def _mount_below(want: Wanted, ground: Ground) -> tuple[str, str] | None:
    below = [mount for mount in ground.mounts if is_below(mount, want.path) and mount != want.path]
    if below:
        return f"{below[0]} is a mount below {want.path}, and an overlay cannot hold one", "unmount it, or work elsewhere"
    return None


def _nested(roots: list[Wanted]) -> tuple[str, str] | None:
    for one in roots:
        for other in roots:
            if one is not other and is_below(one.path, other.path):
                return f"{one.word} {one.path} lies in {other.path}, which has an overlay already", "leave it out"
    return None


def mount_points(mountinfo: bytes) -> tuple[bytes, ...]:
    """Return the mount points of a /proc/self/mountinfo (proc(5)), with its octal escapes undone."""
    found = []
    for line in mountinfo.splitlines():
        fields = line.split(b" ", 5)
        if len(fields) > 5:
            found.append(_unescaped(fields[4]))
    return tuple(found)


def _unescaped(text: bytes) -> bytes:
    first, *rest = text.split(b"\\")
    return first + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in rest)
