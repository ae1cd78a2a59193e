"""Actions of a user or an agent on a tree, as data: (action, path, argument). Independent of agent-dev."""

import os
import random
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

PATHS = (b"a", b"b", b"d", b"d/a", b"d/e", b"d/e/a", b"n", b"n/x", b"n/y/z", b"\xff z", b"new\nline", b"-x", b"c")
MODES = (0, 0o7, 0o77, 0o111, 0o200, 0o222, 0o333, 0o400, *(0o444, 0o500, 0o555, 0o600, 0o644, 0o700, 0o755, 0o777) * 3)
SPECIAL = (0o1755, 0o2755, 0o4755, 0o7777, 0o7000)
ACTIONS = (
    *(
        "write",
        "write",
        "edit",
        "edit",
        "edit",
        "replace",
        "remove",
        "remove",
        "mkdir",
        "link",
        "fifo",
        "chmod",
        "chmod",
        "chmod",
    ),
    *("special", "attribute", "unset", "list", "rename", "rename", "hardlink", "touch", "rewrite"),
)
Action = tuple[str, bytes, int | bytes]


def start() -> tuple[Action, ...]:
    """Return the actions that create the initial tree of histories."""
    files = (b"a", b"b", b"c", b"d/a", b"d/e/a", b"n/x", b"\xff z", b"new\nline")
    return tuple(("write", path, b"<u%06x>" % number) for number, path in enumerate(files))


def draw(chance: random.Random, who: str, count: int) -> tuple[Action, ...]:
    """Draw some actions; written content names its author and is unique."""
    return tuple(_draw(chance, who) for _ in range(count))


def _draw(chance: random.Random, who: str) -> Action:
    action, path = chance.choice(ACTIONS), chance.choice(PATHS)
    argument: int | bytes = b"<%s%06x>" % (who.encode(), chance.randrange(1 << 24))
    if action in ("rename", "hardlink"):
        argument = chance.choice(PATHS)
    elif action in ("chmod", "special"):
        argument = chance.choice(MODES if action == "chmod" else SPECIAL)
    return action, path, argument


def reported(action: Action) -> str:
    """Format an action like a shell command."""
    name, path, argument = action
    return (
        f"{name} {os.fsdecode(path)!r} {argument:o}"
        if isinstance(argument, int)
        else f"{name} {os.fsdecode(path)!r} {argument!r}"
    )


def do(root: bytes, action: Action) -> bool:
    """Perform an action below a directory; return whether it was possible. Unreadable parents are made accessible meanwhile."""
    name, path, argument = action
    place = root + b"/" + path
    try:
        with (
            _opened(root, path),
            _opened(root, argument if name in ("rename", "hardlink") and isinstance(argument, bytes) else b""),
        ):
            _ACTS[name](root, place, argument)
    except OSError:
        return False
    return True


@contextmanager
def _opened(root: bytes, path: bytes) -> Iterator[None]:
    """Make the directories above a path accessible to the owner."""
    modes: list[tuple[bytes, int, int]] = []
    place = root
    try:
        for part in path.split(b"/")[:-1]:
            place += b"/" + part
            with suppress(OSError):
                status = os.lstat(place)
                if stat.S_ISDIR(status.st_mode) and status.st_mode & 0o700 != 0o700:
                    os.chmod(place, status.st_mode & 0o7777 | 0o700)
                    modes.append((place, status.st_ino, stat.S_IMODE(status.st_mode)))
        yield
    finally:
        for one, _inode, mode in reversed(modes):
            with suppress(OSError):
                if stat.S_IMODE(os.lstat(one).st_mode) == mode | 0o700:
                    os.chmod(one, mode)


@contextmanager
def _writable(place: bytes) -> Iterator[None]:
    """Make a file readable and writable for the owner."""
    mode = None
    with suppress(OSError):
        status = os.lstat(place)
        if stat.S_ISREG(status.st_mode) and status.st_mode & 0o600 != 0o600:
            mode = stat.S_IMODE(status.st_mode)
            os.chmod(place, mode | 0o600)
    try:
        yield
    finally:
        if mode is not None:
            os.chmod(place, mode)


def _is_file(place: bytes) -> bool:
    return stat.S_ISREG(os.lstat(place).st_mode)


def _write(_root: bytes, place: bytes, token: bytes) -> None:
    """Write a new file, or replace the content of an existing one."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.lexists(place) and not _is_file(place):
        raise OSError
    with _writable(place), open(place, "wb") as file:
        file.write(b"".join(b"%s line %d\n" % (token, number) for number in range(9)))


def _edit(_root: bytes, place: bytes, token: bytes) -> None:
    """Change one line, selected by the token."""
    if not _is_file(place):
        raise OSError
    with _writable(place), open(place, "rb+") as file:
        lines = file.read().split(b"\n")
        at = int(token[-4:-1], 16) % len(lines)
        lines[at] = token + b" edited"
        file.seek(0)
        file.truncate()
        file.write(b"\n".join(lines))


def _rewrite(_root: bytes, place: bytes, _token: bytes) -> None:
    """Replace a file by a new one with the same content, as an editor does."""
    if not _is_file(place):
        raise OSError
    with _writable(place):
        with open(place, "rb") as file:
            data = file.read()
        mode = stat.S_IMODE(os.lstat(place).st_mode)
    with open(place + b".tmp", "wb") as file:
        file.write(data)
    os.chmod(place + b".tmp", mode)
    os.rename(place + b".tmp", place)


def _replace(root: bytes, place: bytes, token: bytes) -> None:
    """Replace a file by rename."""
    if not _is_file(place):
        raise OSError
    _write(root, place + b".tmp", token)
    os.rename(place + b".tmp", place)


def _remove(_root: bytes, place: bytes, _: object) -> None:
    if not stat.S_ISDIR(os.lstat(place).st_mode):
        os.unlink(place)
        return
    os.chmod(place, 0o700)
    for name in os.listdir(place):
        _remove(_root, place + b"/" + name, None)
    os.rmdir(place)


def _list(_root: bytes, place: bytes, token: bytes) -> None:
    """Set an ACL: u::rw(x), u:1:r, g::r, m::r, o::r (linux/posix_acl_xattr.h); of every other directory the default one."""
    own = b"\x07" if stat.S_ISDIR(os.lstat(place).st_mode) else b"\x06"
    who = b"%c\0\0\0" % (1 + token[1] % 5)
    value = b"\2\0\0\0\1\0" + own + b"\0\xff\xff\xff\xff\2\0\4\0" + who
    value += b"\4\0\4\0\xff\xff\xff\xff\x10\0\4\0\xff\xff\xff\xff\x20\0\4\0\xff\xff\xff\xff"
    is_default = own == b"\x07" and token[-2] % 2
    os.setxattr(place, f"system.posix_acl_{'default' if is_default else 'access'}", value, follow_symlinks=False)


def _attribute(_root: bytes, place: bytes, token: bytes) -> None:
    with _writable(place):
        os.setxattr(place, f"user.{chr(token[1])}{token[2] % 2}", token, follow_symlinks=False)


def _unset(_root: bytes, place: bytes, _: object) -> None:
    with _writable(place):
        for name in os.listxattr(place, follow_symlinks=False):
            if not name.startswith("user.overlay."):
                os.removexattr(place, name, follow_symlinks=False)


def _rename(root: bytes, place: bytes, other: bytes) -> None:
    target = root + b"/" + other
    if not os.path.isdir(os.path.dirname(target)) or (target + b"/").startswith(place + b"/"):
        raise OSError
    os.rename(place, target)


def _hardlink(root: bytes, place: bytes, other: bytes) -> None:
    os.link(place, root + b"/" + other, follow_symlinks=False)


def _mkdir(_root: bytes, place: bytes, _: object) -> None:
    os.makedirs(place)


def _link(_root: bytes, place: bytes, token: bytes) -> None:
    os.symlink(token, place)


def _fifo(_root: bytes, place: bytes, _: object) -> None:
    os.mkfifo(place)


def _chmod(_root: bytes, place: bytes, mode: int) -> None:
    if stat.S_ISLNK(os.lstat(place).st_mode):
        raise OSError
    os.chmod(place, mode)


def _touch(_root: bytes, place: bytes, _: object) -> None:
    os.utime(place, follow_symlinks=False)


_ACTS: dict[str, Any] = {
    "write": _write,
    "edit": _edit,
    "rewrite": _rewrite,
    "replace": _replace,
    "remove": _remove,
    "mkdir": _mkdir,
    "link": _link,
    "fifo": _fifo,
    "chmod": _chmod,
    "special": _chmod,
    "attribute": _attribute,
    "unset": _unset,
    "list": _list,
    "rename": _rename,
    "hardlink": _hardlink,
    "touch": _touch,
}
