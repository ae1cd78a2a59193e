"""A case-insensitive file system for tests as root: a view of a directory through FUSE (linux/fuse.h).

Kernels of build machines seldom support one (ext4's casefold, xfs's ascii-ci, vfat). Like those it preserves the case of names,
and supports everything that the directory below supports, including RENAME_EXCHANGE and RENAME_NOREPLACE.
"""

import errno
import os
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_dev.linux import syscalls

_HEAD, _ANSWER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
_ATTRIBUTES, _ENTRY = struct.Struct("<QQQQQQIIIIIIIIII"), struct.Struct("<QQQQII")
_SETATTR, _READ, _WRITE = struct.Struct("<IIQQQQQQIIIIIIII"), struct.Struct("<QQIIQII"), struct.Struct("<QQIIQII")
_STATFS, _OPENED = struct.Struct("<QQQQQIIII24x"), struct.Struct("<QII")
_MOST = 1 << 17  # bytes in one write
_MODE, _OWNER, _GROUP, _SIZE, _ATIME, _MTIME, _ATIME_NOW, _MTIME_NOW = 1, 2, 4, 8, 16, 32, 128, 256
_NO_ANSWER = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
_DESTROY = 38


def missing_requirement() -> str:
    """Return why such a file system cannot be used here; "" if it can."""
    if os.getuid() != 0:
        return "only root may mount"
    return "" if os.path.exists("/dev/fuse") else "no FUSE here"


@contextmanager
def case_insensitive_directory() -> Iterator[Path]:
    """Yield an empty directory of such a file system."""
    with tempfile.TemporaryDirectory(prefix="agent-dev-folding-") as folder:
        below, seen = Path(folder) / "below", Path(folder) / "seen"
        below.mkdir()
        seen.mkdir()
        fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
        syscalls.mount("folding", str(seen), "fuse", 0, options)
        server = os.fork()
        if server == 0:
            try:
                _Server(fd, below).serve()
            finally:
                os._exit(0)
        os.close(fd)
        try:
            yield seen
        finally:
            subprocess.run(("umount", "--lazy", str(seen)), check=True)
            os.waitpid(server, 0)


class _Server:
    """A FUSE server for the kernel's requests. Each inode known to the kernel stays open, by number; the root is 1."""

    def __init__(self, fd: int, below: Path) -> None:
        self._fd = fd
        self._nodes = {1: os.open(below, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)}
        self._answers: dict[int, Callable[[int, bytes], bytes]] = {
            1: lambda node, data: self._look_up(node, _words(data)[0]),
            3: lambda node, _: self._attributes(node),
            4: self._set_attributes,
            5: lambda node, _: os.readlink(b"", dir_fd=self._nodes[node]),
            6: self._symlink,
            8: self._mknod,
            9: self._mkdir,
            10: lambda node, data: self._remove(os.unlink, node, data),
            11: lambda node, data: self._remove(os.rmdir, node, data),
            12: lambda node, data: self._rename(node, data[:8], 0, data[8:]),
            13: self._link,
            14: self._open,
            15: lambda _, data: os.pread(_READ.unpack_from(data)[0], _READ.unpack_from(data)[2], _READ.unpack_from(data)[1]),
            16: self._write,
            17: self._statfs,
            18: self._release,
            20: self._sync,
            21: self._set_attribute,
            22: lambda node, data: self._sized(data, os.getxattr(self._path(node), _words(data[8:])[0])),
            23: lambda node, data: self._sized(
                data, b"".join(os.fsencode(one) + b"\0" for one in os.listxattr(self._path(node)))
            ),
            24: self._remove_attribute,
            25: lambda _, __: b"",
            26: lambda _, data: struct.pack(
                "<IIIIHHIIHH32x", 7, 31, struct.unpack_from("<I", data, 8)[0], 0, 0, 0, _MOST, 1, 0, 0
            ),
            27: self._open,
            28: self._read_folder,
            29: self._release,
            30: self._sync,
            35: self._create,
            45: lambda node, data: self._rename(node, data[:8], struct.unpack_from("<I", data, 8)[0], data[16:]),
        }

    def serve(self) -> None:
        """Answer until unmounted."""
        while True:
            try:
                asked = os.read(self._fd, _MOST + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return
            _, call, unique, node, *_ = _HEAD.unpack_from(asked)
            if call == _DESTROY:
                return
            if call not in _NO_ANSWER:
                self._answer(call, unique, node, asked[_HEAD.size :])

    def _answer(self, call: int, unique: int, node: int, data: bytes) -> None:
        number, response = 0, b""
        try:
            response = self._answers[call](node, data)
        except KeyError:
            number = errno.ENOSYS
        except OSError as error:
            number = error.errno or errno.EIO
        try:
            os.write(self._fd, _ANSWER.pack(_ANSWER.size + len(response), -number, unique) + response)
        except FileNotFoundError:
            return  # the requesting process was killed

    # Names and inodes

    def _path(self, node: int) -> str:
        if stat.S_ISLNK(os.fstat(self._nodes[node]).st_mode):
            raise OSError(errno.ENOTSUP, "a link has none")
        return f"/proc/self/fd/{self._nodes[node]}"

    def _name(self, node: int, name: bytes) -> bytes:
        """Return the name of an existing entry, regardless of case."""
        folder = self._nodes[node]
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            names = map(os.fsencode, os.listdir(f"/proc/self/fd/{folder}"))
            return next((one for one in names if one.lower() == name.lower()), name)
        return name

    def _look_up(self, node: int, name: bytes) -> bytes:
        fd = os.open(self._name(node, name), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._nodes[node])
        number = os.fstat(fd).st_ino
        if self._nodes.setdefault(number, fd) != fd:
            os.close(fd)
        return _ENTRY.pack(number, 0, 0, 0, 0, 0) + self._packed(number)

    def _packed(self, node: int) -> bytes:
        one = os.fstat(self._nodes[node])
        times = [divmod(at, 10**9) for at in (one.st_atime_ns, one.st_mtime_ns, one.st_ctime_ns)]
        seconds, parts = zip(*times, strict=True)
        about = (one.st_mode, one.st_nlink, one.st_uid, one.st_gid, one.st_rdev, one.st_blksize, 0)
        return _ATTRIBUTES.pack(one.st_ino, one.st_size, one.st_blocks, *seconds, *parts, *about)

    def _attributes(self, node: int) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self._packed(node)

    def _set_attributes(self, node: int, data: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, owner, group, _ = _SETATTR.unpack_from(data)
        path, fd = f"/proc/self/fd/{self._nodes[node]}", self._nodes[node]
        if valid & (_OWNER | _GROUP):
            os.chown(b"", owner if valid & _OWNER else -1, group if valid & _GROUP else -1, dir_fd=fd, follow_symlinks=False)
        if valid & _MODE:
            os.chmod(path, stat.S_IMODE(mode))
        if valid & _SIZE:
            os.truncate(path, size)
        if valid & (_ATIME | _MTIME | _ATIME_NOW | _MTIME_NOW):
            now = os.fstat(fd)
            times = (atime * 10**9 + atime_ns if valid & _ATIME else now.st_atime_ns, mtime * 10**9 + mtime_ns)
            os.utime(path, ns=times if valid & _MTIME else (times[0], now.st_mtime_ns))
        return self._attributes(node)

    # Creating and removing

    def _symlink(self, node: int, data: bytes) -> bytes:
        name, target = _words(data)[:2]
        self._refuse_collision(node, name)
        os.symlink(target, name, dir_fd=self._nodes[node])
        return self._look_up(node, name)

    def _mknod(self, node: int, data: bytes) -> bytes:
        mode, device = struct.unpack_from("<II", data)
        name = _words(data[16:])[0]
        self._refuse_collision(node, name)
        os.mknod(name, mode, device, dir_fd=self._nodes[node])
        return self._look_up(node, name)

    def _mkdir(self, node: int, data: bytes) -> bytes:
        name = _words(data[8:])[0]
        self._refuse_collision(node, name)
        os.mkdir(name, struct.unpack_from("<I", data)[0], dir_fd=self._nodes[node])
        return self._look_up(node, name)

    def _refuse_collision(self, node: int, name: bytes) -> None:
        if self._name(node, name) != name:
            raise FileExistsError(errno.EEXIST, "it is there in another case")

    def _remove(self, call: Callable[..., None], node: int, data: bytes) -> bytes:
        call(self._name(node, _words(data)[0]), dir_fd=self._nodes[node])
        return b""

    def _link(self, node: int, data: bytes) -> bytes:
        name = _words(data[8:])[0]
        self._refuse_collision(node, name)
        old = f"/proc/self/fd/{self._nodes[struct.unpack_from('<Q', data)[0]]}"
        os.link(old, name, dst_dir_fd=self._nodes[node], follow_symlinks=True)
        return self._look_up(node, name)

    def _rename(self, node: int, target: bytes, flags: int, names: bytes) -> bytes:
        into = int.from_bytes(target, "little")
        old, new = _words(names)[:2]
        syscalls.rename(self._nodes[node], self._name(node, old), self._nodes[into], self._name(into, new), flags)
        return b""

    # Contents

    def _open(self, node: int, data: bytes) -> bytes:
        flags = struct.unpack_from("<I", data)[0] & ~(os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL)
        return _OPENED.pack(os.open(f"/proc/self/fd/{self._nodes[node]}", flags | os.O_CLOEXEC), 1, 0)  # 1: FOPEN_DIRECT_IO

    def _create(self, node: int, data: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", data)
        name = _words(data[16:])[0]
        fd = os.open(self._name(node, name), flags | os.O_CREAT | os.O_CLOEXEC, mode, dir_fd=self._nodes[node])
        return self._look_up(node, name) + _OPENED.pack(fd, 1, 0)

    def _write(self, _: int, data: bytes) -> bytes:
        fd, at, size, *_rest = _WRITE.unpack_from(data)
        return struct.pack("<II", os.pwrite(fd, data[_WRITE.size : _WRITE.size + size], at), 0)

    def _release(self, _: int, data: bytes) -> bytes:
        os.close(struct.unpack_from("<Q", data)[0])
        return b""

    def _sync(self, _: int, data: bytes) -> bytes:
        os.fsync(struct.unpack_from("<Q", data)[0])
        return b""

    def _read_folder(self, node: int, data: bytes) -> bytes:
        _, start, size, *_rest = _READ.unpack_from(data)
        response = b""
        names = sorted(map(os.fsencode, os.listdir(f"/proc/self/fd/{self._nodes[node]}")))
        for at, name in enumerate(names[start:], start + 1):
            inode = os.stat(name, dir_fd=self._nodes[node], follow_symlinks=False).st_ino
            row = struct.pack("<QQII", inode, at, len(name), 0) + name
            row += bytes(-len(row) % 8)
            if len(response) + len(row) > size:
                break
            response += row
        return response

    def _set_attribute(self, node: int, data: bytes) -> bytes:
        size, flags = struct.unpack_from("<II", data)
        name = _words(data[8:])[0]
        value = data[8 + len(name) + 1 :][:size]
        os.setxattr(self._path(node), name, value, flags)
        return b""

    def _remove_attribute(self, node: int, data: bytes) -> bytes:
        os.removexattr(self._path(node), _words(data)[0])
        return b""

    def _sized(self, data: bytes, value: bytes) -> bytes:
        size = struct.unpack_from("<I", data)[0]
        if not size:
            return struct.pack("<II", len(value), 0)
        if len(value) > size:
            raise OSError(errno.ERANGE, "it is longer")
        return value

    def _statfs(self, node: int, _: bytes) -> bytes:
        one = os.fstatvfs(self._nodes[node])
        about = (one.f_bsize, one.f_namemax, one.f_frsize, 0)
        return _STATFS.pack(one.f_blocks, one.f_bfree, one.f_bavail, one.f_files, one.f_ffree, *about)


def _words(data: bytes) -> list[bytes]:
    return data.split(b"\0")
