"""The process that takes a lower snapshot while the agent starts."""

import gc
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.overlay.lower_snapshot_request import SnapshotRequest


def start(folder: str, request: "SnapshotRequest", lock: int = -1) -> int:
    """Start taking a snapshot into `folder` in a new process; return its pid for `wait_for` or `cancel`.

    `lock`: the session's lock, which the process keeps if the launcher is killed, so that no merge starts before it is done.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C in the terminal must not stop it
            _close_all_but(lock)
            gc.disable()  # no reference cycles here; in a repository of 200,000 files, collections take a tenth of the time
            from agent_dev.overlay import lower_snapshot_take  # here, since a run that ends soon needs none of it

            lower_snapshot_take.take_snapshot(folder, request)
            code = 0
        except (OSError, ImportError) as error:
            _write_problem(folder, f"the lower snapshot could not be taken: {error}")
        finally:
            os._exit(code)
    return pid


def _close_all_but(lock: int) -> None:
    """Close the launcher's descriptors, such as the agent home's lock and the streams, which would otherwise outlive it."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, lock)
    os.closerange(max(lock, 2) + 1, 4096)


def wait_for(pid: int) -> None:
    """Wait until a snapshot is taken."""
    os.waitpid(pid, 0)


def cancel(pid: int) -> None:
    """Stop taking a snapshot that is not needed."""
    for end in (os.killpg, os.kill):  # the group, too, which may not exist yet: a git blocked on a FIFO would remain
        try:
            end(pid, 9)
        except ProcessLookupError:
            continue
    os.waitpid(pid, 0)


def _write_problem(folder: str, text: str) -> None:
    try:
        with open(f"{folder}/problem", "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return  # without a manifest every changed path is a conflict
