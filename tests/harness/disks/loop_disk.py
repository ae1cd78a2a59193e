"""File systems in image files, mounted for tests as root, that can lose power."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHUTDOWN, _WITHOUT_LOG = 0x8004587D, 2  # _IOR('X', 125, __u32): the same number on ext4 and xfs
SIZES = {"ext4": 32 << 20, "xfs": 300 << 20}  # sizes of file systems that can lose power
_SIZES = SIZES | {"btrfs": 256 << 20}
# Another mount namespace may still use the dead file system for a moment, and xfs rejects a duplicate UUID.
_MOUNT = {"ext4": (), "xfs": ("-o", "nouuid"), "btrfs": ()}
_OPTIONS = {"ext4": ("-q", "-F", "-E", "lazy_itable_init=1"), "xfs": ("-q", "-f"), "btrfs": ("-q", "-f")}


# Mounts of this module and of case_insensitive_disk.py, which other running tests make and remove at any time.
OTHER_TESTS_MOUNT = re.compile(r"/agent-dev-(loop|folding)-")


def missing_requirement(kind: str) -> str:
    """Return why a file system of this kind cannot be mounted here; "" if it can be."""
    if os.getuid() != 0:
        return "only root may mount"
    if shutil.which(f"mkfs.{kind}") is None:
        return f"no mkfs.{kind} here"
    if not os.path.exists("/dev/loop-control"):
        return "no loop devices here"
    return ""


class Disk:
    """A file system that can lose power. `folder` exists while it is mounted."""

    def __init__(self, kind: str, parent: Path, options: tuple[str, ...] = ()) -> None:
        self._kind = kind
        self._image = parent / f"{kind}.img"
        self.folder = parent / kind
        self.folder.mkdir()
        with open(self._image, "wb") as file:
            file.truncate(_SIZES[kind])
        run(f"mkfs.{kind}", *_OPTIONS[kind], *options, str(self._image))
        self._devices: list[str] = []

    def mount(self) -> None:
        """Mount the file system and replay its log."""
        self._devices.append(run("losetup", "--find", "--show", str(self._image)).strip())
        run("mount", "-t", self._kind, *_MOUNT[self._kind], self._devices[-1], str(self.folder))

    def reboot(self) -> None:
        """Mount the current content after a power cut, on a new device that is in no cache."""
        run("umount", "--lazy", str(self.folder))
        seen = self._image.with_name(f"{len(self._devices)}.img")
        run("cp", "--sparse=always", str(self._image), str(seen))
        self._image = seen
        self.mount()

    def close(self) -> None:
        """Unmount the file system, even if it is in use, and release its devices."""
        subprocess.run(("umount", "--lazy", str(self.folder)), check=False, capture_output=True)
        for device in self._devices:
            run("losetup", "--detach", device)

    def cut_power(self) -> None:
        """Cut the power: nothing more reaches the disk, and the log in memory is lost."""
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, _WITHOUT_LOG.to_bytes(4, "little"))
        finally:
            os.close(fd)


def run(*argv: str) -> str:
    """Run a program; return its output."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@contextmanager
def disk(kind: str, *options: str) -> Iterator[Disk]:
    """Yield a new mounted file system, which is unmounted in any case. `options`: of mkfs."""
    with tempfile.TemporaryDirectory(prefix="agent-dev-loop-") as parent:
        created = Disk(kind, Path(parent), options)
        try:
            created.mount()
            yield created
        finally:
            created.close()
