"""Take a lower snapshot while the agent starts (decision 0006).

Records the bytes on disk, without `git add`, which runs filters and stores other bytes: an identity for every path; the blob's
name for files that match git's index; for other files that are not ignored (edited, just edited, untracked, converted) the raw
bytes, up to a limit. It executes nothing from the repository and writes nothing to it.
"""

import os
import time

from agent_dev.fs import state_files
from agent_dev.overlay import lower_snapshot_git, lower_snapshot_walk
from agent_dev.overlay.lower_snapshot import encode_manifest, read_manifest, row_of
from agent_dev.overlay.lower_snapshot_request import PriorChanges, SnapshotRequest


def start(folder: str, request: SnapshotRequest, lock: int = -1) -> int:
    """Start taking a snapshot into `folder` in a new process; return its pid for `wait_for` or `cancel`.

    `lock`: the session's lock, which the process keeps if the launcher is killed, so that no merge starts before it is done.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C in the terminal must not stop it
            _close_all_but(lock)
            take_snapshot(folder, request)
            code = 0
        except OSError as error:
            _write_problem(folder, f"the lower snapshot could not be taken: {error}")
        finally:
            os._exit(code)
    return pid


def _close_all_but(lock: int) -> None:
    """Close the launcher's descriptors, such as the agent home's lock and the streams: they would outlive the launcher."""
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
    for end in (os.killpg, os.kill):  # the group too: a git blocked on a FIFO would stay; it may not exist yet
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


def take_snapshot(folder: str, request: SnapshotRequest) -> None:
    """Take the snapshot of all roots into `folder`, which is new or (for a resumed session) has an older one."""
    os.makedirs(f"{folder}/content", 0o700, exist_ok=True)
    budget = lower_snapshot_walk.Budget(deadline=time.monotonic() + lower_snapshot_walk.MAX_SECONDS)
    older = (read_manifest(folder) if request.touched else None) or {}
    stores: list[str] = list(older.get("stores", ()))  # same order: older rows refer to stores by number
    tables = []
    for number in range(len(request.roots)):
        taking = _open_root(folder, number, request, budget, stores)
        kept = [
            table.row(path)
            for table in older.get("roots", ())[number : number + 1]
            for path in table
            if taking.touched.includes(path)
        ]
        taken = lower_snapshot_walk.record_root(taking)
        tables.append(kept + [row_of(found, stored, has_attributes=knows) for found, stored, knows in taken])
    about = {
        "complete": not budget.stop_reason,
        "stores": stores,
        "program": request.program,
        "cut": budget.stop_reason,
        "dropped": budget.dropped,
        "marked": [budget.marked_count, *budget.marked_paths],
    }
    state_files.replace_file(f"{folder}/manifest", encode_manifest(about, tables), is_durable=True)
    if request.touched and os.path.lexists(f"{folder}/merged"):
        os.unlink(f"{folder}/merged")  # included in the new manifest


def _open_root(
    folder: str, number: int, request: SnapshotRequest, budget: lower_snapshot_walk.Budget, stores: list[str]
) -> lower_snapshot_walk.RootSnapshot:
    """Query git about a root; outside a repository, or without git, nothing is ignored."""
    root, known = request.roots[number], lower_snapshot_git.GitView(ignored_unknown=[b""])
    if request.program and (request.git if number == 0 else os.path.lexists(f"{root}/.git")):
        question = lower_snapshot_git.GitQuery(request.program, request.environ, f"{folder}/index{number or ''}", budget.deadline)
        known = lower_snapshot_git.query_root(root, question, stores)
    touched = request.touched[number] if number < len(request.touched) else PriorChanges()
    return lower_snapshot_walk.RootSnapshot(
        folder, root, known, budget, request.since, touched, request.program, stores, request.skip
    )
