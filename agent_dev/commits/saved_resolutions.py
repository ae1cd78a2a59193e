"""Answers to conflicts of commits that wait for the next time, beside their session: each known by the ids of all its sides."""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_dev.diff.merge3 import Side
from agent_dev.git.merge_tree_conflict import Blob, Clash

_VERSION = 1
_NAME = "conflicts.json"

Given = tuple[Side | bytes | None, ...] | bytes  # one for each place, None where there is none yet; or the whole file


@dataclass(frozen=True, slots=True)
class Kept:
    """What was answered, by conflict; which of them were taken; the path at which one was."""

    given: Mapping[Clash, Given] = field(default_factory=dict)
    taken: frozenset[Clash] = frozenset()
    at: bytes = b""


def load(folder: str) -> Kept:
    """Return what a session's folder keeps; nothing when that cannot be read."""
    try:
        with open(f"{folder}/{_NAME}", encoding="utf-8") as file:
            return _read(json.load(file))
    except (OSError, ValueError, LookupError, TypeError):
        return Kept()


def save(folder: str, kept: Kept) -> None:
    """Keep answers in a session's folder; without any there is no file. A disk without room loses them and nothing else."""
    path = f"{folder}/{_NAME}"
    try:
        if not kept.given:
            os.unlink(path)
            return
        rows = [[*_row(clash), said(given), clash in kept.taken] for clash, given in kept.given.items()]
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, "at": b64encode(kept.at).decode(), "answers": rows}, file)
        os.rename(f"{path}.new", path)
    except OSError:
        return  # they are a convenience: nothing was brought home


def _read(found: Any) -> Kept:
    if found["version"] != _VERSION:
        return Kept()
    given: dict[Clash, Given] = {}
    taken: set[Clash] = set()
    for path, base, mine, agent, answers, is_taken in found["answers"]:
        clash = Clash(b64decode(path), _blob(base), _blob(mine), _blob(agent))
        given[clash] = heard(answers)
        if is_taken:
            taken.add(clash)
    return Kept(given, frozenset(taken), b64decode(found["at"]))


def _row(one: Clash) -> tuple[str, Blob, Blob, Blob]:
    return b64encode(one.path).decode(), one.base, one.mine, one.agent


def _blob(found: Sequence[Any]) -> Blob:
    mode, oid = found
    return int(mode), str(oid)


def said(given: Given) -> Any:
    """Return answers as JSON has them."""
    return _said_one(given) if isinstance(given, bytes) else [_said_one(one) for one in given]


def _said_one(one: Side | bytes | None) -> Any:
    return {"bytes": b64encode(one).decode()} if isinstance(one, bytes) else one


def heard(found: Any) -> Given:
    """Return answers from JSON. Raises ValueError, LookupError or TypeError for what are none."""
    return b64decode(found["bytes"]) if isinstance(found, dict) else tuple(map(_heard_one, found))


def _heard_one(found: Any) -> Side | bytes | None:
    return None if found is None else b64decode(found["bytes"]) if isinstance(found, dict) else Side(found)
