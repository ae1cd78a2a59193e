"""An ended session as a directory, and the state of its upper that a rollback has to restore."""

import os
import shutil
import stat
from pathlib import Path

from agent_dev.checkpoint import checkpoint_store
from agent_dev.merge import session_access
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession
from tests.harness import trees
from tests.harness.trees import Tree


class CheckpointedSession:
    """An ended session as a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.upper = folder / "roots/0/upper"
        self.upper.mkdir(parents=True)
        self.session = store.Session("one", str(folder))
        self.record: store.Record = {**store.BLANK, "state": store.WAITING, "roots": ["/somewhere"]}
        store.write_record(self.session, self.record)
        self.listed = ListedSession(self.session, self.record, store.WAITING)

    def take_checkpoint(self, *, always: bool = True) -> int:
        return checkpoint_store.take_checkpoint(self.session, self.record, "manual", always=always).number

    def lock_again(self) -> None:
        """Lock and release the session, as the next command does first."""
        held = session_access.lock_ended(self.listed)
        store.unlock_session(held.session)

    def write(self, base: Tree, agent: Tree, noise: frozenset[bytes]) -> None:
        """Replace the content of the upper."""
        for name in os.listdir(self.upper):
            path = self.upper / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        trees.write_upper(self.upper, trees.upper_of(base, agent, noise))

    def count_contents(self) -> int:
        return len(os.listdir(self.folder / "checkpoints/objects"))


def state(upper: Path) -> dict[str, object]:
    """Return everything that a rollback has to restore: types, modes, bytes, targets, attributes, times, and hard links."""
    found: dict[str, object] = {}
    links: dict[int, list[str]] = {}
    for parent, folders, names in os.walk(upper):
        for name in [".", *folders, *names] if parent == str(upper) else [*folders, *names]:
            path = os.path.join(parent, name)
            found[os.path.relpath(path, upper)] = _state(path)
            if stat.S_ISREG(os.lstat(path).st_mode):
                links.setdefault(os.lstat(path).st_ino, []).append(path)
    return found | {f"hard links {names}": True for names in map(sorted, links.values()) if len(names) > 1}


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
