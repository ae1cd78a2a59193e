"""A user and an agent who write where they like. Every file holds a word of its own, so that what is lost is found out."""

import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from tests.harness import trees

WORD = re.compile(rb"<[a-z]+[0-9]+>")


def words_of(*folders: Path) -> set[bytes]:
    """Return every word that stands in a file below some directories."""
    found: set[bytes] = set()
    for folder in folders:
        for place, _, names in os.walk(os.fsencode(folder)):
            for name in names:
                full = os.path.join(place, name)
                if stat.S_ISREG(os.lstat(full).st_mode):
                    with open(full, "rb") as file:
                        found |= set(WORD.findall(file.read()))
    return found


def words_at(place: Path) -> set[bytes]:
    """Return the words in a file, or in all below a directory; a link's are those of what it points to."""
    if place.is_symlink():
        return set()
    if place.is_file():
        return set(WORD.findall(place.read_bytes()))
    return words_of(place) if place.is_dir() else set()


class Hand:
    """Somebody who writes; `alive` are the words he wrote and did not take back."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._count = 0
        self.alive: set[bytes] = set()

    def text(self) -> bytes:
        """Return a new content."""
        self._count += 1
        word = b"<%b%d>" % (self._name, self._count)
        self.alive.add(word)
        return b"one\n%b\nthree\n" % word

    def lets_go(self, words: Iterable[bytes]) -> None:
        """Note what he has removed or overwritten himself."""
        self.alive -= set(words)


class User(Hand):
    """The owner of a tree. `outside`: where a directory goes that becomes a link."""

    def __init__(self, real: Path, outside: Path) -> None:
        super().__init__(b"user")
        self._real = real
        self._outside = outside
        self.overwritten: set[bytes] = set()  # what he put an end to, whoever wrote it
        outside.mkdir()

    def do(self, deed: str, path: str) -> None:
        """Do something at a path; nothing where it cannot be done."""
        place = self._real / path
        if not place.parent.is_dir():
            return
        there, is_link = os.path.lexists(place), place.is_symlink()
        is_folder = place.is_dir() and not is_link
        possible = {
            "write": not is_folder and not is_link,
            "save": not is_folder,
            "remove": there,
            "make": not there,
            "link": is_folder,
            "move": there and not is_link,
            "mode": there and not is_link,
        }
        if possible[deed]:
            getattr(self, f"_{deed}")(place)

    def _write(self, place: Path) -> None:
        self._gone(place)
        place.write_bytes(self.text())

    def _save(self, place: Path) -> None:
        """Save as editors do: by a rename."""
        self._gone(place)
        temp = place.parent / ".swap"
        temp.write_bytes(self.text())
        os.replace(temp, place)

    def _remove(self, place: Path) -> None:
        self._gone(place)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()

    def _make(self, place: Path) -> None:
        place.mkdir()
        (place / "mine").write_bytes(self.text())

    def _link(self, place: Path) -> None:
        aside = self._outside / str(self._count)
        self._count += 1
        os.rename(place, aside)
        place.symlink_to(aside)

    def _move(self, place: Path) -> None:
        os.rename(place, self._free(place))

    def _mode(self, place: Path) -> None:
        place.chmod(0o750 if place.is_dir() else 0o640)

    def _free(self, place: Path) -> Path:
        self._count += 1
        return place.with_name(f"{place.name}-moved-{self._count}")

    def _gone(self, place: Path) -> None:
        words = words_at(place) if os.path.lexists(place) else set()
        self.overwritten |= words
        self.lets_go(words)


DEEDS = ("write", "save", "remove", "make", "link", "move", "mode")


class Agent(Hand):
    """Somebody who writes into an upper, as overlayfs would: directories made of the real ones, whiteouts for what is gone."""

    def __init__(self, upper: Path, real: Path, name: bytes) -> None:
        super().__init__(name)
        self._upper = upper
        self._real = real

    def do(self, deed: str, path: str) -> None:
        """Do something at a path of his view."""
        place = self._upper / path
        if not self._reach(path):
            return
        is_whiteout = os.path.lexists(place) and stat.S_ISCHR(os.lstat(place).st_mode)
        is_folder = place.is_dir() and not place.is_symlink()
        below = self._real / path
        is_seen = os.path.lexists(place) or os.path.lexists(below)
        match deed:
            case "write" if not is_folder and (os.path.lexists(place) or not below.is_dir()):
                self._clear(place)
                place.write_bytes(self.text())
            case "make" if not is_seen or is_whiteout:
                self._clear(place)
                place.mkdir()
                if is_whiteout:
                    os.setxattr(place, "user.overlay.opaque", b"y")
                (place / "new").write_bytes(self.text())
            case "remove" if is_seen and not is_whiteout and not is_folder:
                self._clear(place)
                if os.path.lexists(below):
                    trees.whiteout(place)

    def _clear(self, place: Path) -> None:
        if os.path.lexists(place):
            self.lets_go(words_at(place) if not stat.S_ISCHR(os.lstat(place).st_mode) else ())
            place.unlink()

    def _reach(self, path: str) -> bool:
        for folder in [str(one) for one in reversed(Path(path).parents)][1:]:
            place, below = self._upper / folder, self._real / folder
            if os.path.lexists(place):
                if place.is_symlink() or not place.is_dir():
                    return False
            elif below.is_dir() and not below.is_symlink():
                place.mkdir()
                place.chmod(stat.S_IMODE(below.stat().st_mode))
            else:
                return False
        return True


AGENT_DEEDS = ("write", "make", "remove")
