"""Take a lower snapshot (decision 0006), while the agent starts (`overlay/lower_snapshot_process.py`).

Records the bytes on disk, without `git add`, which runs filters and stores other bytes: an identity for every path; the blob's
name for files that match git's index; for other files that are not ignored (edited, just edited, untracked, converted) the raw
bytes, up to a limit. It executes nothing from the repository and writes nothing to it.
"""

import os
import time
from collections.abc import Sequence
from itertools import chain

from agent_dev.fs import fast_json, state_files
from agent_dev.fs.unlocked_directories import UnlockedDirectories
from agent_dev.overlay import lower_snapshot_git, lower_snapshot_table, lower_snapshot_walk, raw_json, rows_before_merge
from agent_dev.overlay.lower_snapshot import encode_manifest, read_manifest
from agent_dev.overlay.lower_snapshot_request import PriorChanges, SnapshotRequest
from agent_dev.overlay.lower_snapshot_row import recorded_path
from agent_dev.overlay.lower_snapshot_table import Table

_RESUME = "resume"  # in place of a merge's session in the name of a file of rows


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
    if older:
        _store_replaced_rows(folder, request, older["roots"], packed)
    state_files.replace_file(f"{folder}/manifest", encode_manifest(about, packed), is_durable=True)
    if request.touched and os.path.lexists(f"{folder}/merged"):
        os.unlink(f"{folder}/merged")  # included in the new manifest


def _store_replaced_rows(
    folder: str, request: SnapshotRequest, older: Sequence[Table], packed: Sequence[tuple[dict[str, object], list[bytes]]]
) -> None:
    """Store the rows that the new snapshot replaces, for a rollback to a checkpoint from before this run.

    The session's files are then older than the user's edits since, which a merge would take for lines that the agent removed.
    """
    now = request.since or time.time_ns()
    for number, (table, (header, columns)) in enumerate(zip(older, packed, strict=False)):
        new = Table(header, [memoryview(column) for column in columns])
        changed = {*table.differing_paths(new), *new.differing_paths(table)}

        def encoded_row(path: bytes, table: Table = table) -> bytes:
            return fast_json.dumps(table.row(path)) if path in table else raw_json.NULL

        rows_before_merge.store_rows(
            folder, f"{_RESUME}.{now // 1_000_000:x}", number, sorted(changed), encoded_row, edited=changed
        )


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
