"""Quick checks before a start: for entries that the agent cannot change, likely secrets, script interpreters, and terminfo."""

import os
import stat

from agent_dev.paths import RUN
from agent_dev.sandbox.credentials import looks_secret

_MAX_ENTRIES = 400  # entries checked before the start
_TYPE, _REGULAR = 0o170000, 0o100000
_SHEBANG = 256  # bytes that the kernel reads
_TERMINFO = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/lib/terminfo")


def script_interpreter(path: str) -> str:
    """Return the absolute path of the interpreter in a script's first line, "" if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""  # executable but not readable
    head = os.read(fd, _SHEBANG)
    os.close(fd)
    arguments = head[2:].split(b"\n", 1)[0].split() if head.startswith(b"#!") else []
    return os.fsdecode(arguments[0]) if arguments and arguments[0].startswith(b"/") else ""


def scan_top_level(root: str, uid: int, gid: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return entries near the top that the agent cannot change (other owner: EOVERFLOW), and names that look like secrets."""
    foreign: list[str] = []
    secrets: list[str] = []
    entries_left = _MAX_ENTRIES
    folders = [root]
    while folders and entries_left > 0:
        for entry in _entries(folders.pop(0), entries_left):
            entries_left -= 1
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone, or its path is too long
            if status.st_mode & _TYPE == _REGULAR and looks_secret(entry.name):
                secrets.append(entry.path[len(root) + 1 :])
            if status.st_uid != uid or status.st_gid != gid:
                foreign.append(entry.path)
            elif entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                folders.append(entry.path)
    return tuple(foreign), tuple(sorted(secrets))


def _entries(folder: str, limit: int) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return [entry for entry, _ in zip(entries, range(limit))]  # noqa: B905  (the shorter one limits)
    except OSError:
        return []


def terminfo(environ: dict[str, str], home: str) -> tuple[tuple[str, bytes], ...]:
    """Return the terminfo entry of the user's terminal as a file of the sandbox, if the system has none."""
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
    """Return whether a path is a directory or passes through a link, whose target in the sandbox is not known here.

    The path is known to have no links up to `start`.
    """
    end = start
    while end >= 0:
        end = path.find("/", end + 1)
        try:
            mode = os.lstat(path[:end] if end > 0 else path).st_mode
        except OSError:
            return False
        if stat.S_ISLNK(mode):
            return True
    return stat.S_ISDIR(mode)
