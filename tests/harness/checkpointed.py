"""A session that has ended, as a folder, and all that a rollback has to bring back of its upper."""

import os
import shutil
import stat
from pathlib import Path

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Listed
from tests.harness import trees
from tests.harness.trees import Tree


class World:
    """A session that has ended, as a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.upper = folder / "roots/0/upper"
        self.upper.mkdir(parents=True)
        self.session = store.Session("one", str(folder))
        self.record: store.Record = {**store.BLANK, "state": store.WAITING, "roots": ["/somewhere"]}
        store.write(self.session, self.record)
        self.listed = Listed(self.session, self.record, store.WAITING)

    def take(self, *, always: bool = True) -> int:
        return checkpoints.take(self.session, self.record, "manual", always=always).number

    def hold_again(self) -> None:
        """Do what the next command does first."""
        held = sessions.hold(self.listed)
        store.let_go(held.session)

    def write(self, base: Tree, agent: Tree, noise: frozenset[bytes]) -> None:
        """Let the upper be another one."""
        for name in os.listdir(self.upper):
            place = self.upper / name
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink()
        trees.write_upper(self.upper, trees.upper_of(base, agent, noise))

    def contents(self) -> int:
        return len(os.listdir(self.folder / "checkpoints/objects"))


def state(upper: Path) -> dict[str, object]:
    """All that is to be brought back: types, modes, bytes, link targets, attributes, times, and who is a twin of whom."""
    found: dict[str, object] = {}
    twins: dict[int, list[str]] = {}
    for place, folders, names in os.walk(upper):
        for name in [".", *folders, *names] if place == str(upper) else [*folders, *names]:
            path = os.path.join(place, name)
            found[os.path.relpath(path, upper)] = _state(path)
            if stat.S_ISREG(os.lstat(path).st_mode):
                twins.setdefault(os.lstat(path).st_ino, []).append(path)
    return found | {f"twins of {names}": True for names in map(sorted, twins.values()) if len(names) > 1}


def _state(path: str) -> object:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    if stat.S_ISCHR(status.st_mode):
        return "whiteout"
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    if stat.S_ISREG(status.st_mode):
        return (status.st_mode, status.st_mtime_ns, attributes, Path(path).read_bytes())
    return (status.st_mode, attributes)
