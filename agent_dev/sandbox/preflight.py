"""Small looks around before a start: sessions that wait, paths nobody inside could change, the terminal's description."""

import os
import stat

from agent_dev.errors import UnreadableSession
from agent_dev.sandbox.credentials import looks_secret
from agent_dev.sandbox.plan import RUN
from agent_dev.session import store

_ENOUGH = 400  # entries looked at before the start; the rest is looked at beside the run
_TYPE, _REGULAR = 0o170000, 0o100000
_SHEBANG = 256  # bytes that the kernel looks at
_TERMINFO = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo")


def waiting(place: store.Store, root: str) -> tuple[str, ...]:
    """Return the names of sessions of a root that are neither running nor merged nor discarded."""
    names = []
    for session in store.all_sessions(place):
        try:
            record = store.read(session)
        except UnreadableSession:
            continue  # `sessions` shows it
        state = record.get("state")
        if state == store.RUNNING and not (store.is_held(session) and store.is_led(record)):
            state = store.WAITING  # its launcher was killed
        if record.get("root") == root and state == store.WAITING:
            names.append(str(record.get("name") or session.id))
    return tuple(names)


def is_interrupted(place: store.Store) -> bool:
    """Whether a merge is under way in this state directory, or was when its process was killed."""
    try:
        return bool(os.listdir(place.pending))
    except (FileNotFoundError, NotADirectoryError):
        return False


def interpreter(path: str) -> str:
    """Return the absolute path of the interpreter that a script names in its first line, "" for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""  # executable, and not for reading
    head = os.read(fd, _SHEBANG)
    os.close(fd)
    words = head[2:].split(b"\n", 1)[0].split() if head.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words and words[0].startswith(b"/") else ""


def around(root: str, uid: int, gid: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return paths near the top that the agent cannot change (another's: EOVERFLOW), and those that are named like secrets."""
    foreign: list[str] = []
    secrets: list[str] = []
    left = _ENOUGH
    folders = [root]
    while folders and left > 0:
        for entry in _entries(folders.pop(0), left):
            left -= 1
            status = entry.stat(follow_symlinks=False)
            if status.st_mode & _TYPE == _REGULAR and looks_secret(entry.name):
                secrets.append(entry.path[len(root) + 1 :])
            if status.st_uid != uid or status.st_gid != gid:
                foreign.append(entry.path)
            elif entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                folders.append(entry.path)
    return tuple(foreign), tuple(sorted(secrets))


def _entries(folder: str, most: int) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return [entry for entry, _ in zip(entries, range(most))]  # noqa: B905  (the shorter ends it)
    except OSError:
        return []


def terminfo(environ: dict[str, str], home: str) -> tuple[tuple[str, bytes], ...]:
    """Return the description of the user's terminal as a file inside, when the system has none of its own."""
    term = environ.get("TERM", "")
    if not term or "/" in term or term.startswith("."):
        return ()
    names = (f"{term[0]}/{term}", f"{ord(term[0]):x}/{term}")
    if any(os.path.exists(f"{folder}/{name}") for folder in _TERMINFO for name in names):
        return ()
    for folder in (environ.get("TERMINFO", ""), f"{home}/.terminfo", *environ.get("TERMINFO_DIRS", "").split(":")):
        for name in names:
            path = f"{folder}/{name}"
            if folder and os.path.isfile(path):
                with open(path, "rb", 0) as file:
                    return ((f"{RUN}/terminfo/{name}", file.read(1 << 16)),)
    return ()


def may_be_directory(path: str, start: int) -> bool:
    """Whether a directory is there, or a link on the way to it: what that leads to inside is not known here.

    Up to `start` the path is known to be one without links.
    """
    at = start
    while at >= 0:
        at = path.find("/", at + 1)
        try:
            mode = os.lstat(path[:at] if at > 0 else path).st_mode
        except OSError:
            return False
        if stat.S_ISLNK(mode):
            return True
    return stat.S_ISDIR(mode)
