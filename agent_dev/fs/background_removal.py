"""Remove directories in a child process."""

import errno
import os

from agent_dev.fs.rmtree import remove_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def make_removal_directory(folder: str, name: str) -> str:
    """Create an empty directory in `folder` for things to remove; return its path."""
    path, count = f"{folder}/{name}", 0
    while True:
        try:
            os.makedirs(path, 0o700)
        except FileExistsError:
            count += 1  # an earlier one of that name is still being removed
            path = f"{folder}/{name}.{count}"
        else:
            return path


def move_for_removal(folder: str, path: str) -> str:
    """Rename a directory into `folder`, on the same file system, and return its new path."""
    os.makedirs(folder, 0o700, exist_ok=True)
    name, count = os.path.basename(path), 0
    gone = f"{folder}/{name}"
    while True:
        try:
            os.rename(path, gone)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            count += 1  # an earlier one of that name is still being removed
            gone = f"{folder}/{name}.{count}"
        else:
            return gone


def remove_in_background(path: str, run_first: "Callable[[], None] | None" = None) -> None:
    """Remove a directory made by `make_removal_directory`, in a child process that nobody waits for.

    Removing thirty directories and some mount points takes longer than starting bubblewrap; freeing thousands of files takes
    longer than merging them. If the child is killed, `removal.sweep_leftovers` or the next session that leaves the home
    finishes its work.
    """

    def work(_: int) -> None:
        if run_first is not None:
            run_first()
        else:
            os.closerange(3, 4096)  # includes our locks
        remove_session(path)

    run_in_background(work, waits=run_first is None)


def run_in_background(work: "Callable[[int], None]", *, waits: bool = True) -> None:
    """Run `work` in a child with its own process group; if it `waits`, until the child has closed the descriptor that it gets."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            for standard in range(3):
                os.close(standard)  # a reader of our output must not wait for the child
            work(write_end)
        finally:
            os._exit(0)
    os.close(write_end)
    if waits:
        os.read(read_end, 1)  # end of file: the child holds no lock any more
    os.close(read_end)
    try:
        os.setpgid(pid, pid)  # here too: if we are a session leader, our exit sends SIGHUP to our group
    except OSError:
        pass  # it has exited
