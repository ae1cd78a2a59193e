"""Take a lower snapshot (decision 0006), while the agent starts (`overlay/lower_snapshot_process.py`).

Records the bytes on disk, without `git add`, which runs filters and stores other bytes: an identity for every path; the blob's
name for files that match git's index; for other files that are not ignored (edited, just edited, untracked, converted) the raw
bytes, up to a limit. It executes nothing from the repository and writes nothing to it.
"""

import os
import time
from itertools import chain

from agent_dev.fs import state_files
from agent_dev.fs.unlocked_directories import UnlockedDirectories
from agent_dev.overlay import lower_snapshot_git, lower_snapshot_table, lower_snapshot_walk
from agent_dev.overlay.lower_snapshot import encode_manifest, read_manifest
from agent_dev.overlay.lower_snapshot_request import PriorChanges, SnapshotRequest
from agent_dev.overlay.lower_snapshot_row import recorded_path


def take_snapshot(folder: str, request: SnapshotRequest, opened: UnlockedDirectories | None = None) -> None:
    """Take the snapshot of all roots into `folder`, which is new or (for a resumed session) has an older one.

    `opened`: unlocks directories of the first root that keep their owner out.
    """
    os.makedirs(f"{folder}/content", 0o700, exist_ok=True)
    budget = lower_snapshot_walk.Budget(deadline=time.monotonic() + lower_snapshot_walk.MAX_SECONDS)
    older = (read_manifest(folder) if request.touched else None) or {}
    stores: list[str] = list(older.get("stores", ()))  # same order: older rows refer to stores by number
    packed = []
    for number in range(len(request.roots)):
        taking = _open_root(folder, number, request, budget, stores)
        taking.opened = opened if number == 0 else None
        earlier = older.get("roots", ())[number : number + 1]
        kept = (recorded_path(table.row(path)) for table in earlier for path in table if taking.touched.includes(path))
        packed.append(lower_snapshot_table.pack(chain(kept, lower_snapshot_walk.record_root(taking))))
    about = {
        "complete": not budget.stop_reason,
        "stores": stores,
        "program": request.program,
        "cut": budget.stop_reason,
        "dropped": budget.dropped,
        "marked": [budget.marked_count, *budget.marked_paths],
    }
    state_files.replace_file(f"{folder}/manifest", encode_manifest(about, packed), is_durable=True)
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
