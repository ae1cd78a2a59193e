"""File systems in a file, mounted for a test as root, and cut off as by a power failure."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHUTDOWN, _WITHOUT_LOG = 0x8004587D, 2  # _IOR('X', 125, __u32): the same number on ext4 and xfs
SIZES = {"ext4": 32 << 20, "xfs": 300 << 20}  # of those whose power can be cut
_SIZES = SIZES | {"btrfs": 256 << 20}
# Another mount namespace may keep the dead file system for a moment, and xfs minds its number.
_MOUNT = {"ext4": (), "xfs": ("-o", "nouuid"), "btrfs": ()}
_OPTIONS = {"ext4": ("-q", "-F", "-E", "lazy_itable_init=1"), "xfs": ("-q", "-f"), "btrfs": ("-q", "-f")}


def why_not(kind: str) -> str:
    """Return why a file system of this kind cannot be mounted here ("" when it can)."""
    if os.getuid() != 0:
        return "only root may mount"
    if shutil.which(f"mkfs.{kind}") is None:
        return f"no mkfs.{kind} here"
    if not os.path.exists("/dev/loop-control"):
        return "no loop devices here"
    return ""


class Disk:
    """A file system that can lose its power. `folder` is there while it is mounted."""

    def __init__(self, kind: str, place: Path, options: tuple[str, ...] = ()) -> None:
        self._kind = kind
        self._image = place / f"{kind}.img"
        self.folder = place / kind
        self.folder.mkdir()
        with open(self._image, "wb") as file:
            file.truncate(_SIZES[kind])
        run(f"mkfs.{kind}", *_OPTIONS[kind], *options, str(self._image))
        self._devices: list[str] = []

    def mount(self) -> None:
        """Mount it, and bring to rest what its log says."""
        self._devices.append(run("losetup", "--find", "--show", str(self._image)).strip())
        run("mount", "-t", self._kind, *_MOUNT[self._kind], self._devices[-1], str(self.folder))

    def reboot(self) -> None:
        """Let it come up after a cut, as it is on the disk by now: as another device, of which nothing else knows."""
        run("umount", "--lazy", str(self.folder))
        seen = self._image.with_name(f"{len(self._devices)}.img")
        run("cp", "--sparse=always", str(self._image), str(seen))
        self._image = seen
        self.mount()

    def close(self) -> None:
        """Unmount it, whoever holds something open, and give its devices back."""
        subprocess.run(("umount", "--lazy", str(self.folder)), check=False, capture_output=True)
        for device in self._devices:
            run("losetup", "--detach", device)

    def cut(self) -> None:
        """Take its power: nothing more reaches it, and what only its log in memory has is lost."""
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, _WITHOUT_LOG.to_bytes(4, "little"))
        finally:
            os.close(fd)


def run(*words: str) -> str:
    """Run a program; return what it printed."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextmanager
def disk(kind: str, *options: str) -> Iterator[Disk]:
    """Yield a new file system, mounted; whatever happens it is unmounted. `options`: of its mkfs."""
    with tempfile.TemporaryDirectory(prefix="agent-dev-loop-") as place:
        made = Disk(kind, Path(place), options)
        try:
            made.mount()
            yield made
        finally:
            made.close()
