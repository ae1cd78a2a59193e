"""Base snapshots taken, beside the start of the agent (decision 0006).

The bytes on disk, never `git add`, which runs filters and stores other bytes. An identity for every path; for what git's
index vouches for the name of its blob; for the rest that is not ignored (edited, just edited, untracked, converted) the raw
bytes, up to a bound. Nothing of the repository's is executed and nothing in it is written.
"""

import os
import time

from agent_dev.overlay import lower_snapshot_git as base_git
from agent_dev.overlay import lower_snapshot_walk as base_walk
from agent_dev.overlay.lower_snapshot import encoded, manifest, row_of
from agent_dev.value import Value


class Wish(Value):
    """What to take: the roots, the first one's git dir (or ""), git itself (or "") and the user's environment."""

    roots: tuple[str, ...]
    git: str = ""
    program: str = ""
    environ: dict[str, str] = {}  # noqa: RUF012  (Value: a default, never written to)
    touched: tuple["Touched", ...] = ()  # of a resumed session, by root: there an older base stays true
    since: int = 0  # when the agent started, in ns since 1970: what moved after that is no base of anything


class Touched(Value):
    """What an upper held before a session was resumed: its paths, and those that hide all below them."""

    paths: frozenset[bytes] = frozenset()
    hiding: tuple[bytes, ...] = ()

    def covers(self, path: bytes) -> bool:
        """Whether the agent had changed a path."""
        return path in self.paths or any(path.startswith(folder + b"/") for folder in self.hiding)


def begin(folder: str, wish: Wish, lock: int = -1) -> int:
    """Start taking a base into `folder` in a process of its own; return its pid for `wait_for` or `cancel`.

    `lock`: that of the session, which it holds on when the launcher is killed: nobody shall merge before it is done.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C in the terminal is not for it
            _let_go_of_all_but(lock)
            take(folder, wish)
            code = 0
        except OSError as error:
            _note(folder, f"the base could not be taken: {error}")
        finally:
            os._exit(code)
    return pid


def _let_go_of_all_but(lock: int) -> None:
    """Close what is the launcher's, the lock of the agent home and its streams among it: they would stay open after it."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, lock)
    os.closerange(max(lock, 2) + 1, 4096)


def wait_for(pid: int) -> None:
    """Wait until a base is taken."""
    os.waitpid(pid, 0)


def cancel(pid: int) -> None:
    """Stop taking a base that nobody needs."""
    for end in (os.killpg, os.kill):  # the group: a git that waits for a FIFO would stay; there may be none yet
        try:
            end(pid, 9)
        except ProcessLookupError:
            continue
    os.waitpid(pid, 0)


def _note(folder: str, text: str) -> None:
    try:
        with open(f"{folder}/problem", "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return  # the manifest is missing then, and everything that moved is a conflict


def take(folder: str, wish: Wish) -> None:
    """Take the base of all roots into `folder`, new or (for a resumed session) beside an older one."""
    os.makedirs(f"{folder}/content", 0o700, exist_ok=True)
    budget = base_walk.Budget(until=time.monotonic() + base_walk.MANY_SECONDS)
    older = (manifest(folder) if wish.touched else None) or {}
    stores: list[str] = list(older.get("stores", ()))  # in their places: older rows name blobs in them
    tables = []
    for number in range(len(wish.roots)):
        taking = _begin_root(folder, number, wish, budget, stores)
        kept = [
            table.row(path)
            for table in older.get("roots", ())[number : number + 1]
            for path in table
            if taking.touched.covers(path)
        ]
        tables.append(kept + [row_of(found, stored) for found, stored in base_walk.take(taking)])
    about = {
        "complete": not budget.cut,
        "stores": stores,
        "program": wish.program,
        "cut": budget.cut,
        "dropped": budget.dropped,
        "marked": [budget.many_marked, *budget.marked],
    }
    with open(f"{folder}/manifest.new", "wb") as file:
        file.writelines(encoded(about, tables))
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{folder}/manifest.new", f"{folder}/manifest")
    if wish.touched and os.path.lexists(f"{folder}/merged"):
        os.unlink(f"{folder}/merged")  # the new manifest has it


def _begin_root(folder: str, number: int, wish: Wish, budget: base_walk.Budget, stores: list[str]) -> base_walk.Taking:
    """Ask git about a root; what is no repository, or of a git that is not there, has nothing ignored."""
    root, known = wish.roots[number], base_git.Known(unknown=[b""])
    if wish.program and (wish.git if number == 0 else os.path.lexists(f"{root}/.git")):
        question = base_git.Question(wish.program, wish.environ, f"{folder}/index{number or ''}", budget.until)
        known = base_git.ask(root, question, stores)
    touched = wish.touched[number] if number < len(wish.touched) else Touched()
    return base_walk.Taking(folder, root, known, budget, wish.since, touched, wish.program, stores)
