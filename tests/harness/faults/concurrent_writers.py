"""A user and an agent who write at any path. Every file has unique content, so that every loss is detected."""

import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from tests.harness import trees

TOKEN = re.compile(rb"<[a-z]+[0-9]+>")


def tokens_below(*folders: Path) -> set[bytes]:
    """Return every text in files below some directories."""
    found: set[bytes] = set()
    for folder in folders:
        for parent, _, names in os.walk(os.fsencode(folder)):
            for name in names:
                full = os.path.join(parent, name)
                if stat.S_ISREG(os.lstat(full).st_mode):
                    with open(full, "rb") as file:
                        found |= set(TOKEN.findall(file.read()))
    return found


def tokens_at(target: Path) -> set[bytes]:
    """Return the texts in a file or below a directory; for a symlink those of its target."""
    if target.is_symlink():
        return set()
    if target.is_file():
        return set(TOKEN.findall(target.read_bytes()))
    return tokens_below(target) if target.is_dir() else set()


class Writer:
    """A writer; `alive` are its texts that were written and not removed."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._count = 0
        self.alive: set[bytes] = set()

    def text(self) -> bytes:
        """Return a new, unique text."""
        self._count += 1
        token = b"<%b%d>" % (self._name, self._count)
        self.alive.add(token)
        return b"one\n%b\nthree\n" % token

    def forget(self, words: Iterable[bytes]) -> None:
        """Record that texts were removed or overwritten on purpose."""
        self.alive -= set(words)


class User(Writer):
    """The owner of a tree. `outside`: the directory to which replaced directories are moved."""

    def __init__(self, real: Path, outside: Path) -> None:
        super().__init__(b"user")
        self._real = real
        self._outside = outside
        self.overwritten: set[bytes] = set()  # texts the user removed, whoever wrote them
        outside.mkdir()

    def do(self, action: str, path: str) -> None:
        """Perform an action at a path, if possible."""
        target = self._real / path
        if not target.parent.is_dir():
            return
        there, is_link = os.path.lexists(target), target.is_symlink()
        is_folder = target.is_dir() and not is_link
        possible = {
            "write": not is_folder and not is_link,
            "save": not is_folder,
            "remove": there,
            "make": not there,
            "link": is_folder,
            "move": there and not is_link,
            "mode": there and not is_link,
        }
        if possible[action]:
            getattr(self, f"_{action}")(target)

    def _write(self, target: Path) -> None:
        self._forget_content(target)
        target.write_bytes(self.text())

    def _save(self, target: Path) -> None:
        """Save a file by a rename, as editors do."""
        self._forget_content(target)
        temp = target.parent / ".swap"
        temp.write_bytes(self.text())
        os.replace(temp, target)

    def _remove(self, target: Path) -> None:
        self._forget_content(target)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink()

    def _make(self, target: Path) -> None:
        target.mkdir()
        (target / "mine").write_bytes(self.text())

    def _link(self, target: Path) -> None:
        moved = self._outside / str(self._count)
        self._count += 1
        os.rename(target, moved)
        target.symlink_to(moved)

    def _move(self, target: Path) -> None:
        os.rename(target, self._free(target))

    def _mode(self, target: Path) -> None:
        target.chmod(0o750 if target.is_dir() else 0o640)

    def _free(self, target: Path) -> Path:
        self._count += 1
        return target.with_name(f"{target.name}-moved-{self._count}")

    def _forget_content(self, target: Path) -> None:
        argv = tokens_at(target) if os.path.lexists(target) else set()
        self.overwritten |= argv
        self.forget(argv)


ACTIONS = ("write", "save", "remove", "make", "link", "move", "mode")


class Agent(Writer):
    """A writer to an upper layer that does what overlayfs would do: directories created like the real ones, whiteouts."""

    def __init__(self, upper: Path, real: Path, name: bytes) -> None:
        super().__init__(name)
        self._upper = upper
        self._real = real

    def do(self, action: str, path: str) -> None:
        """Perform an action at a path of the agent's view."""
        target = self._upper / path
        if not self._reach(path):
            return
        is_whiteout = os.path.lexists(target) and stat.S_ISCHR(os.lstat(target).st_mode)
        is_folder = target.is_dir() and not target.is_symlink()
        below = self._real / path
        is_seen = os.path.lexists(target) or os.path.lexists(below)
        match action:
            case "write" if not is_folder and (os.path.lexists(target) or not below.is_dir()):
                self._clear(target)
                target.write_bytes(self.text())
            case "make" if not is_seen or is_whiteout:
                self._clear(target)
                target.mkdir()
                if is_whiteout:
                    os.setxattr(target, "user.overlay.opaque", b"y")
                (target / "new").write_bytes(self.text())
            case "remove" if is_seen and not is_whiteout and not is_folder:
                self._clear(target)
                if os.path.lexists(below):
                    trees.whiteout(target)

    def _clear(self, target: Path) -> None:
        if os.path.lexists(target):
            self.forget(tokens_at(target) if not stat.S_ISCHR(os.lstat(target).st_mode) else ())
            target.unlink()

    def _reach(self, path: str) -> bool:
        for folder in [str(one) for one in reversed(Path(path).parents)][1:]:
            target, below = self._upper / folder, self._real / folder
            if os.path.lexists(target):
                if target.is_symlink() or not target.is_dir():
                    return False
            elif below.is_dir() and not below.is_symlink():
                target.mkdir()
                target.chmod(stat.S_IMODE(below.stat().st_mode))
            else:
                return False
        return True


AGENT_ACTIONS = ("write", "make", "remove")
