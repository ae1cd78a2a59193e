"""The /etc of the sandbox: the parts of the host's that programs need. Its files are in an image, made once and bound read-only.

Thirty mounts would each cost 0.15 ms at the start. The image is cached under a key of its sources (inode, size, mtime of each
file), so a change on the host causes a new one. Images are never changed; those unused for long are removed with other caches.
Directories are bound over the image: changes of their content are visible, replacing a directory is not.
"""

import binascii
import fcntl
import os

from agent_dev.fs import cache
from agent_dev.fs.rmtree import remove_tree
from agent_dev.sandbox.plan import HOSTNAME, Bind, File, Mount, Symlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE, LOCK = "etc-", "etc.lock"  # in the cache folder: how the names of images begin, and the lock on them
GITCONFIG = "/run/agent-dev/gitconfig"  # /etc/gitconfig links to it; each session has its own
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
_HOSTS = "hosts"
_MAX_SIZE = 4 << 20


def own_network_files() -> tuple[tuple[str, bytes], ...]:
    """Return the files for a network of the sandbox's own: names are resolved by the gateway, not by the host's table."""
    hosts = b"127.0.0.1\tlocalhost\n::1\tlocalhost\n"
    return ("hosts", _with_own_name(hosts)), ("resolv.conf", b"nameserver 198.18.0.1\n")


def etc_mounts(environ: dict[str, str], generated: tuple[tuple[str, bytes], ...]) -> tuple[Mount, ...]:
    """Return the mounts for /etc: the image, or single mounts if the cache is not writable."""
    names = (*_DIRECTORIES, *(name for name in os.listdir("/etc") if name.startswith(_DIRECTORIES_BY_PREFIX)))
    folders = tuple(name for name in names if os.path.isdir(f"/etc/{name}"))
    directory_binds = tuple(Bind(path, path) for path in (f"/etc/{name}" for name in folders))
    key = _key(folders, generated)
    image = f"{cache.folder(environ)}/{IMAGE}{binascii.crc32(key):08x}"
    if _is_current(image, key, generated) or _make_locked(image, key, folders, generated):
        return (Bind("/etc", image), *directory_binds)
    replaced = dict(generated)
    copies = tuple(File(f"/etc/{name}", data, name != _HOSTS) for name, data in _contents() if name not in replaced)
    return (
        *directory_binds,
        *copies,
        *(File(f"/etc/{name}", data) for name, data in generated),
        Symlink("/etc/gitconfig", GITCONFIG),
    )


def _key(folders: tuple[str, ...], generated: tuple[tuple[str, bytes], ...]) -> bytes:
    parts = [f"{os.getuid()}", HOSTNAME, *folders]
    for name in _FILES:
        try:
            status = os.stat(f"/etc/{name}")
            parts.append(f"{name} {status.st_ino} {status.st_size} {status.st_mtime_ns}")
        except OSError:
            continue
    return "\n".join(parts).encode() + repr(generated).encode()


def _is_current(image: str, key: bytes, generated: tuple[tuple[str, bytes], ...]) -> bool:
    _mark_used(image)  # first: `remove_unused` takes the key away before it looks at the time
    try:
        with open(f"{image}.key", "rb", 0) as file:
            return file.read() == key + _sizes(image, generated)
    except OSError:
        return False


def _sizes(image: str, generated: tuple[tuple[str, bytes], ...]) -> bytes:
    """Return the size of each file of an image, to detect one truncated by a full disk. Raises OSError."""
    names = (*_FILES, *(name for name, _ in generated))
    sizes = [f"{name} {os.stat(path).st_size}" for name in names if os.path.lexists(path := f"{image}/{name}")]
    return "\n".join(["", *sizes]).encode()


def _mark_used(image: str) -> None:
    try:
        for path in (image, f"{image}.key"):
            os.utime(path)
    except OSError:
        return  # there is none, or the cache is not writable, so nothing is removed either


def remove_unused(image: str, used: int) -> bool:
    """Remove an image that was last used at `used` (ns), and what killed processes left of it. Return False if it was used since.

    A start that finds the key has marked the image before, which is seen here; one that does not find it makes a new image.
    """
    lock = _lock(os.path.dirname(image))
    key, hidden = f"{image}.key", f"{image}.key.old"
    try:
        if os.path.lexists(key):
            os.rename(key, hidden)
        if os.path.lexists(image) and os.lstat(image).st_mtime_ns > used:
            if os.path.lexists(hidden):
                os.rename(hidden, key)
            return False
        folder, name = os.path.split(image)
        for one in os.listdir(folder):
            if one == name or one.startswith(f"{name}."):
                remove_tree(f"{folder}/{one}")
    finally:
        os.close(lock)
    return True


def _lock(cache_folder: str) -> int:
    """Take the lock on the images of a folder until the descriptor is closed."""
    lock = os.open(f"{cache_folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        os.close(lock)
        raise
    return lock


def _make_locked(image: str, key: bytes, folders: tuple[str, ...], generated: tuple[tuple[str, bytes], ...]) -> bool:
    """Make an image under a lock: no other start may remove it while a sandbox uses it."""
    cache_folder = os.path.dirname(image)
    try:
        os.makedirs(cache_folder, 0o700, exist_ok=True)
        lock = _lock(cache_folder)
    except OSError:
        return False
    try:
        return _is_current(image, key, generated) or _make(image, key, folders, generated)
    finally:
        os.close(lock)


def _make(image: str, key: bytes, folders: tuple[str, ...], generated: tuple[tuple[str, bytes], ...]) -> bool:
    """Make an image next to its path and rename it; the key is written last and marks it complete."""
    temp = f"{image}.{os.getpid()}"
    try:
        os.mkdir(temp, 0o755)
        for name in folders:
            os.makedirs(f"{temp}/{name}", 0o755, exist_ok=True)  # mount points
        for name, data in {**dict(_contents()), **dict(generated)}.items():
            _write(f"{temp}/{name}", data)
        os.symlink(GITCONFIG, f"{temp}/gitconfig")
        if os.path.lexists(f"{image}.key"):
            os.unlink(f"{image}.key")
        if os.path.lexists(image):  # without a key, or from a checksum collision: not trusted
            os.rename(image, f"{temp}.old")
            remove_tree(f"{temp}.old")
        os.rename(temp, image)
        _write(f"{image}.key", key + _sizes(image, generated))
    except OSError:
        if os.path.isdir(temp):
            remove_tree(temp)
        return False
    return True


def _contents() -> "Iterator[tuple[str, bytes]]":
    """Yield the files of /etc to show, by name, with their content in the sandbox."""
    for name in _FILES:
        data = _read(f"/etc/{name}")
        if name == _HOSTS:
            yield name, _with_own_name(data or b"127.0.0.1\tlocalhost\n")
        elif data is not None:
            yield name, data


def _with_own_name(hosts: bytes) -> bytes:
    """Add the sandbox's host name to hosts(5) unless a line has it: programs look themselves up."""
    name = HOSTNAME.encode()
    if any(name in line.partition(b"#")[0].split()[1:] for line in hosts.lower().splitlines()):
        return hosts
    return hosts.rstrip(b"\n") + b"\n127.0.1.1\t" + name + b"\n"


def _read(path: str) -> bytes | None:
    """Return a small world-readable regular file; others stay unreadable in the sandbox, even if root starts it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(fd)
    is_open = status.st_mode & 0o170004 == 0o100004 and status.st_size <= _MAX_SIZE
    data = os.read(fd, _MAX_SIZE) if is_open else None
    os.close(fd)
    return data


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o444)
    os.write(fd, data)
    os.close(fd)
