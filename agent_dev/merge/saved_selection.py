"""The selection and the notes of an unfinished review, saved with its session.

The selection is restored for changes that are still the same.
"""

import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from agent_dev.diff.partial_selection import LineSelection
from agent_dev.diff.review_note import ReviewNote
from agent_dev.fs import checksummed_json
from agent_dev.fs.entry import Key
from agent_dev.fs.state_files import replace_file
from agent_dev.merge.resolution_codec import FileResolution, decode_resolution, encode_resolution
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Change
from agent_dev.overlay.selection import EMPTY_SELECTION, Selection
from agent_dev.quick_dataclass import dataclass, field

_VERSION = 1
_NAME = "draft.json"


@dataclass(frozen=True, slots=True)
class SavedSelection:
    """Selected and reviewed changes, the cursor position, conflict resolutions, some of them partial, and notes to the agent."""

    selection: Selection = EMPTY_SELECTION
    reviewed: frozenset[Key] = frozenset()
    cursor: Key | None = None
    resolutions: Mapping[Key, FileResolution] = field(default_factory=dict)
    notes: tuple[ReviewNote, ...] = ()


def save(review: Review, draft: SavedSelection) -> None:
    """Save a draft; an empty one removes the file. On a full disk only the draft is lost."""
    path = f"{review.session.folder}/{_NAME}"
    table = review.changes.by_key()
    try:
        if not (draft.selection.keys or draft.reviewed or draft.resolutions or draft.notes):
            os.unlink(path)
            return
        keys = {
            "selected": [
                [*_row(key), _fingerprint(table[key]), _choice_row(draft.selection.partial.get(key))]
                for key in draft.selection.keys
                if key in table
            ],
            "reviewed": [[*_row(key), _fingerprint(table[key])] for key in draft.reviewed if key in table],
            "answers": [
                [*_row(key), _fingerprint(table[key]), encode_resolution(given)]
                for key, given in draft.resolutions.items()
                if key in table
            ],
            "notes": [_note_row(note) for note in draft.notes],
        }
        document = {"version": _VERSION, "at": _row(draft.cursor) if draft.cursor else None, **keys}
        replace_file(path, checksummed_json.dumps(document))
    except OSError:
        return  # a draft is a convenience; the changes are safe in the session


def load(review: Review) -> SavedSelection:
    """Return the saved draft without changes that differ by now; an empty draft if there is none or it is unreadable."""
    try:
        with open(f"{review.session.folder}/{_NAME}", "rb") as file:
            return _read(checksummed_json.loads(file.read()), review.changes.by_key())
    except (OSError, ValueError, LookupError, TypeError):
        return SavedSelection()


def load_notes(folder: str) -> tuple[ReviewNote, ...]:
    """Return the saved notes of a session, given its folder; none if they are missing or unreadable."""
    try:
        with open(f"{folder}/{_NAME}", "rb") as file:
            return _notes(checksummed_json.loads(file.read()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ()


def remove_notes(folder: str) -> None:
    """Remove the saved notes of a session once they are sent, and the selection, which was applied or is outdated."""
    try:
        os.unlink(f"{folder}/{_NAME}")
    except OSError:
        return  # nothing saved, or the next review shows them again


def _notes(saved: Any) -> tuple[ReviewNote, ...]:
    rows = saved.get("notes", ()) if saved["version"] == _VERSION else ()
    return tuple(
        ReviewNote(int(root), b64decode(path), str(text), int(line), bool(is_old), str(quote))
        for root, path, text, line, is_old, quote in rows
    )


def _note_row(note: ReviewNote) -> list[object]:
    return [note.root, b64encode(note.path).decode(), note.text, note.line, note.is_old, note.quote]


def _read(saved: Any, table: Mapping[Key, Change]) -> SavedSelection:
    if saved["version"] != _VERSION:
        return SavedSelection()
    keys: set[Key] = set()
    choices: dict[Key, LineSelection] = {}
    for root, path, mark, part in saved["selected"]:
        key = Key(int(root), b64decode(path))
        if key in table and _fingerprint(table[key]) == mark:
            keys.add(key)
            if part is not None:
                blocks, old, new, mode = part
                choices[key] = LineSelection(frozenset(blocks), frozenset(old), frozenset(new), bool(mode))
    seen = (Key(int(root), b64decode(path)) for root, path, mark in saved["reviewed"] if _is_same(table, root, path, mark))
    answers = {
        Key(int(root), b64decode(path)): decode_resolution(given)
        for root, path, mark, given in saved.get("answers", ())
        if _is_same(table, root, path, mark)
    }
    at = Key(int(saved["at"][0]), b64decode(saved["at"][1])) if saved["at"] is not None else None
    return SavedSelection(Selection(frozenset(keys), choices), frozenset(seen), at, answers, _notes(saved))


def _is_same(table: Mapping[Key, Change], root: int, path: str, mark: str) -> bool:
    change = table.get(Key(int(root), b64decode(path)))
    return change is not None and _fingerprint(change) == mark


def _row(key: Key) -> tuple[int, str]:
    return key.root, b64encode(key.path).decode()


def _choice_row(one: LineSelection | None) -> list[object] | None:
    return None if one is None else [sorted(one.hunks), sorted(one.old_lines), sorted(one.new_lines), one.mode]


def _fingerprint(change: Change) -> str:
    """Return a fingerprint of a change: of its base version, the user's entry and the agent's."""
    sides = (change.before, change.yours, change.after)
    return sha256(repr([one and (one.identity, one.mode, one.target) for one in sides]).encode()).hexdigest()[:32]
