"""A choice that waits for the next time, beside its session: kept as far as what was chosen is still what it was."""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from agent_dev.commits.saved_resolutions import Given, heard, said
from agent_dev.diff.partial import Choice
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Change, Key
from agent_dev.overlay.selection import NOTHING, Selection

_VERSION = 1
_NAME = "draft.json"


@dataclass(frozen=True, slots=True)
class Draft:
    """What was chosen, what was looked at, where the cursor was, and how conflicts are settled, some only in part."""

    selection: Selection = NOTHING
    reviewed: frozenset[Key] = frozenset()
    at: Key | None = None
    answers: Mapping[Key, Given] = field(default_factory=dict)


def save(review: Review, draft: Draft) -> None:
    """Write a draft; an empty one is no file. A disk that has no room loses the choice and nothing else."""
    path = f"{review.session.folder}/{_NAME}"
    table = review.changes.by_key()
    try:
        if not (draft.selection.keys or draft.reviewed or draft.answers):
            os.unlink(path)
            return
        keys = {
            "chosen": [
                [*_row(key), _print(table[key]), _choice(draft.selection.choices.get(key))] for key in draft.selection.keys
            ],
            "reviewed": [[*_row(key), _print(table[key])] for key in draft.reviewed if key in table],
            "answers": [[*_row(key), _print(table[key]), said(given)] for key, given in draft.answers.items() if key in table],
        }
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, "at": _row(draft.at) if draft.at else None, **keys}, file)
        os.rename(f"{path}.new", path)
    except OSError:
        return  # the choice is a convenience: what it was about is safe in the session


def load(review: Review) -> Draft:
    """Return the draft, without what changed since; an empty one when there is none that can be read."""
    try:
        with open(f"{review.session.folder}/{_NAME}", encoding="utf-8") as file:
            return _read(json.load(file), review.changes.by_key())
    except (OSError, ValueError, LookupError, TypeError):
        return Draft()


def _read(found: Any, table: Mapping[Key, Change]) -> Draft:
    if found["version"] != _VERSION:
        return Draft()
    keys: set[Key] = set()
    choices: dict[Key, Choice] = {}
    for root, path, mark, part in found["chosen"]:
        key = Key(int(root), b64decode(path))
        if key in table and _print(table[key]) == mark:
            keys.add(key)
            if part is not None:
                blocks, old, new, mode = part
                choices[key] = Choice(frozenset(blocks), frozenset(old), frozenset(new), bool(mode))
    seen = (Key(int(root), b64decode(path)) for root, path, mark in found["reviewed"] if _is_same(table, root, path, mark))
    answers = {
        Key(int(root), b64decode(path)): heard(given)
        for root, path, mark, given in found.get("answers", ())
        if _is_same(table, root, path, mark)
    }
    at = Key(int(found["at"][0]), b64decode(found["at"][1])) if found["at"] is not None else None
    return Draft(Selection(frozenset(keys), choices), frozenset(seen), at, answers)


def _is_same(table: Mapping[Key, Change], root: int, path: str, mark: str) -> bool:
    change = table.get(Key(int(root), b64decode(path)))
    return change is not None and _print(change) == mark


def _row(key: Key) -> tuple[int, str]:
    return key.root, b64encode(key.path).decode()


def _choice(one: Choice | None) -> list[object] | None:
    return None if one is None else [sorted(one.blocks), sorted(one.old), sorted(one.new), one.mode]


def _print(change: Change) -> str:
    """Return what tells whether a change is still the same one: what stood there, what stands there now, what the agent left."""
    sides = (change.before, change.mine, change.after)
    return sha256(repr([one and (one.identity, one.mode, one.target) for one in sides]).encode()).hexdigest()[:32]
