"""A file system that is reset in a few milliseconds, including inodes, times and device number (root only)."""

import ctypes
import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_dev.linux import syscalls

_FLUSH = 0x1261  # BLKFLSBUF: drop the kernel's cache of a block device
_BLOCK = 64 << 10  # bytes compared at once
_libc = ctypes.CDLL(None, use_errno=True)


class Image:
    """An ext4 file system in a file on a loop device, mounted in this process's own mount namespace."""

    def __init__(self, file: Path, folder: Path, device: str) -> None:
        self._file, self._folder, self._device = file, folder, device
        self._template = b""

    def mount(self) -> None:
        """Mount the image; the device number is always the same."""
        syscalls.mount(self._device, str(self._folder), "ext4", 0)

    def unmount(self) -> None:
        """Unmount the image. Raises OSError while it is in use."""
        if _libc.umount2(os.fsencode(self._folder), 0):
            raise OSError(ctypes.get_errno(), "umount", str(self._folder))

    def save(self) -> None:
        """Save the unmounted content for `restore`."""
        self._flush()
        self._template = self._file.read_bytes()

    def restore(self) -> None:
        """Restore the saved content, unmounted; only differing blocks are written."""
        self._flush()
        with self._file.open("r+b", buffering=0) as file:
            data = file.read()
            for at in range(0, len(data), _BLOCK):
                if data[at : at + _BLOCK] != self._template[at : at + _BLOCK]:
                    os.pwrite(file.fileno(), self._template[at : at + _BLOCK], at)
        self._flush()

    def _flush(self) -> None:
        fd = os.open(self._device, os.O_RDWR)
        try:
            os.fsync(fd)
            fcntl.ioctl(fd, _FLUSH)
        finally:
            os.close(fd)


@contextmanager
def new_image(place: Path, mib: int) -> Iterator[Image]:
    """Yield an empty image, not mounted yet, for mounting at `place/mounted`; this process leaves its mount namespace."""
    file, folder = place / "image", place / "mounted"
    folder.mkdir()
    with file.open("wb") as created:
        created.truncate(mib << 20)
    subprocess.run(("mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", "-E", "lazy_itable_init=0", file), check=True)
    syscalls.unshare(syscalls.NEWNS)
    syscalls.mount(None, "/", None, syscalls.SLAVE | syscalls.REC)
    found = subprocess.run(("losetup", "--find", "--show", file), check=True, capture_output=True, text=True)
    device = found.stdout.strip()
    try:
        yield Image(file, folder, device)
    finally:
        _libc.umount2(os.fsencode(folder), 2)
        subprocess.run(("losetup", "--detach", device), check=True)
