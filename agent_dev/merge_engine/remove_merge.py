"""Remove a merge that changed no tree, and stages in the user's directories."""

import os
from collections.abc import Iterable

from agent_dev.fs import durable
from agent_dev.fs.rmtree import remove_tree
from agent_dev.merge_engine import pending_marks
from agent_dev.session.store import Store


def remove_merge_files(store: Store, merge_id: str, stages: Iterable[str]) -> None:
    """Remove a merge that changed no tree: external stages first, then its folder by one rename."""
    for path in stages:
        if path and not path.startswith(f"{store.merges}/"):
            remove_stage(path)
    gone = f"{store.removals_folder}/{merge_id}"
    try:
        os.makedirs(store.removals_folder, 0o700, exist_ok=True)
        os.rename(f"{store.merges}/{merge_id}", gone)
        durable.sync_path(store.merges)  # else a power cut may restore it without its journal
    except FileNotFoundError:
        pass
    remove_tree(gone)
    pending_marks.remove_mark(store, merge_id)


def remove_stage(path: str) -> None:
    """Remove a stage in the user's directories; durable on return, because nobody searches for it again."""
    try:
        remove_tree(path)
        durable.sync_path(os.path.dirname(path))
    except FileNotFoundError:
        pass  # removed with its parent directory


def try_remove_merge_files(store: Store, merge_id: str, stages: Iterable[str]) -> None:
    """Remove a merge as `remove_merge_files`; on a disk error the next command removes it."""
    try:
        remove_merge_files(store, merge_id, stages)
    except OSError:
        return
