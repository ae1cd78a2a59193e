"""The /etc of the sandbox: the parts of the host's that programs need; its files as one directory made once, bound read-only.

Each mount costs a start 0.15 ms, and there would be thirty. The image lies in the cache under a name made from what it was
copied from (inode, size, mtime of each file), so a change of the host's makes a new one. None is changed once it is made, and
none is removed that a session of the last 30 days began with.
Directories are bound over it, each as it is now: what changes below them does not show at the directory itself.
"""

import binascii
import fcntl
import os
import time

from agent_dev.fs import cache
from agent_dev.fs.rmtree import remove_tree
from agent_dev.sandbox.plan import Bind, File, Mount, Symlink

GITCONFIG = "/run/agent-dev/gitconfig"  # /etc/gitconfig points there: it is the session's own
_DIRECTORIES = ("alternatives", "crypto-policies", "fonts", "pki/ca-trust", "pki/java", "pki/tls/certs", "ssl/certs")
_DIRECTORIES_BY_PREFIX = ("java-",)
_FILES = (
    "bash.bashrc",
    "gai.conf",
    "gitattributes",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/tls/openssl.cnf",
    "profile",
    "protocols",
    "resolv.conf",
    "services",
    "ssl/openssl.cnf",
    "timezone",
)
_LARGEST = 4 << 20
_OLD = 30 * 86400  # s: past that an image that nobody began with is removed


def mounts(environ: dict[str, str], made: tuple[tuple[str, bytes], ...]) -> tuple[Mount, ...]:
    """Return what shows /etc: the image, or single mounts where the cache cannot be written. `made`: files of ours."""
    names = (*_DIRECTORIES, *(name for name in os.listdir("/etc") if name.startswith(_DIRECTORIES_BY_PREFIX)))
    folders = tuple(name for name in names if os.path.isdir(f"/etc/{name}"))
    shown = tuple(Bind(path, path) for path in (f"/etc/{name}" for name in folders))
    key = _key(folders, made)
    image = f"{cache.folder(environ)}/etc-{binascii.crc32(key):08x}"
    if _is_made(image, key) or _make_alone(image, key, folders, made):
        return (Bind("/etc", image), *shown)
    copies = tuple(File(path, data, is_copy=True) for name in _FILES if (data := _read(path := f"/etc/{name}")) is not None)
    return (*shown, *copies, *(File(f"/etc/{name}", data) for name, data in made), Symlink("/etc/gitconfig", GITCONFIG))


def _key(folders: tuple[str, ...], made: tuple[tuple[str, bytes], ...]) -> bytes:
    parts = [f"{os.getuid()}", *folders]
    for name in _FILES:
        try:
            found = os.stat(f"/etc/{name}")
            parts.append(f"{name} {found.st_ino} {found.st_size} {found.st_mtime_ns}")
        except OSError:
            continue
    return "\n".join(parts).encode() + repr(made).encode()


def _is_made(image: str, key: bytes) -> bool:
    try:
        with open(f"{image}.key", "rb", 0) as file:
            is_made = file.read() == key and os.path.isdir(image)
    except OSError:
        return False
    if is_made:
        _mark_used(image)
    return is_made


def _mark_used(image: str) -> None:
    try:
        for path in (image, f"{image}.key"):
            os.utime(path)
    except OSError:
        return  # a cache that cannot be written, where nothing is removed either


def _make_alone(image: str, key: bytes, folders: tuple[str, ...], made: tuple[tuple[str, bytes], ...]) -> bool:
    """Make an image unless another start is at it: its image must not be taken away while a sandbox is made of it."""
    place = os.path.dirname(image)
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        lock = os.open(f"{place}/etc.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _is_made(image, key) or _make(image, key, folders, made)
    except OSError:
        return False
    finally:
        os.close(lock)


def _make(image: str, key: bytes, folders: tuple[str, ...], made: tuple[tuple[str, bytes], ...]) -> bool:
    """Make an image beside its place and move it there; the key comes last and says that it is whole."""
    temp = f"{image}.{os.getpid()}"
    try:
        _remove_old(os.path.dirname(image))
        os.mkdir(temp, 0o755)
        for name in folders:
            os.makedirs(f"{temp}/{name}", 0o755, exist_ok=True)  # to be bound over
        for name in _FILES:
            _copy_file(f"/etc/{name}", f"{temp}/{name}")
        for name, data in made:
            _write(f"{temp}/{name}", data)
        os.symlink(GITCONFIG, f"{temp}/gitconfig")
        if os.path.lexists(f"{image}.key"):
            os.unlink(f"{image}.key")
        if os.path.lexists(image):  # of a key with the same checksum, or without its key: not to be trusted
            os.rename(image, f"{temp}.old")
            remove_tree(f"{temp}.old")
        os.rename(temp, image)
        _write(f"{image}.key", key)
    except OSError:
        if os.path.isdir(temp):
            remove_tree(temp)
        return False
    return True


def _copy_file(source: str, copy: str) -> None:
    data = _read(source)
    if data is not None:
        _write(copy, data)


def _read(path: str) -> bytes | None:
    """Return a small regular file that everybody may read; what is closed on the host stays closed, for root too."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    found = os.fstat(fd)
    is_open = found.st_mode & 0o170004 == 0o100004 and found.st_size <= _LARGEST
    data = os.read(fd, _LARGEST) if is_open else None
    os.close(fd)
    return data


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o444)
    os.write(fd, data)
    os.close(fd)


def _remove_old(folder: str) -> None:
    before = time.time() - _OLD
    for name in os.listdir(folder):
        path = f"{folder}/{name}"
        if name.startswith("etc-") and os.lstat(path).st_mtime < before:
            remove_tree(path)
