"""Decide about a path that the agent, and perhaps also the user, changed, given its three entries."""

from enum import StrEnum
from typing import NamedTuple

from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay.labels import type_name
from agent_dev.quick_dataclass import dataclass, replace


class Verdict(StrEnum):
    """The decision about a path."""

    USE_AGENT = "clean-agent"  # the agent's entry (or its deletion) replaces the real one
    ALREADY_APPLIED = "already"  # nothing to do: the real tree already has it
    KEEP_YOURS = "keep-yours"  # keep your bytes, use the agent's mode or attributes
    MERGE_TEXT = "merge-text"  # both edited the bytes: `merge3.merge_lines` may still find conflicts
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class PathDecision:
    """The outcome; for a conflict the reason in one short sentence, else the mode and attributes of the result.

    `mode` is 12 bits (the plan strips setuid, setgid and sticky). Both are meaningless if the result is a deletion.
    """

    verdict: Verdict
    why: str = ""
    mode: int = 0
    attributes: tuple[tuple[str, bytes], ...] = ()


class Digests(NamedTuple):
    """Digests of regular files; None for an unknown file or another type."""

    base: bytes | None = None
    yours: bytes | None = None
    agent: bytes | None = None


def decide(
    base: Entry | None,
    yours: Entry | None,
    agent: Entry | None,
    digests: Digests = Digests(),  # noqa: B008  (a constant)
    *,
    is_text: bool = True,
) -> PathDecision:
    """Decide about one path from the base version, the real tree's entry and the agent's entry (None: does not exist).

    `is_text`: no side is binary or too large. Times, inodes and link counts are ignored. Contents of a directory are decided path
    by path; merge/review detects files that the user added to a directory that the agent deleted.

        base        yours       agent            result
        ----------  ----------  ---------------  ---------------------------------------------------------------
        any         = agent     any              ALREADY_APPLIED
        any         any         = base           ALREADY_APPLIED: the agent changed nothing
        any         = base      any              USE_AGENT
        no dir.     directory   directory        ALREADY_APPLIED: two new directories become one, with your mode
        nothing     A           B                CONFLICT: both added it
        any         nothing     B                CONFLICT: you deleted it, the agent changed it
        any         A           nothing          CONFLICT: you changed it, the agent deleted it
        any         one type    another type     CONFLICT: different types
        file        bytes       bytes            MERGE_TEXT, or CONFLICT if binary
        link        target      target           CONFLICT
        other type  A           B                CONFLICT: both replaced it with different entries
        same type   bytes       mode             KEEP_YOURS: your bytes, the agent's mode
        same type   mode        bytes            USE_AGENT: the agent's bytes, your mode
        same type   mode        another mode     CONFLICT, regardless of the bytes
        same type   mode+bytes  the same mode    ALREADY_APPLIED; if the agent's bytes changed too, as for bytes
        file        bytes unknown on any side    CONFLICT: unknown bytes equal nothing

    "bytes" means a file's content or a link's target; "mode" means the mode and, separately, the user attributes.
    """
    was, own, new = (_version(*one) for one in zip((base, yours, agent), digests, strict=True))
    if _is_same(own, new) or _is_same(was, new):
        return _already(own)
    if _is_same(was, own):
        return _decided(Verdict.USE_AGENT, new)
    return _both_changed(was, own, new, is_text=is_text)


@dataclass(frozen=True, slots=True)
class _Version:
    """The relevant parts of an entry; `content` is None for a file with unknown bytes, which equals nothing."""

    type: FileType
    content: bytes | None
    mode: int
    attributes: tuple[tuple[str, bytes], ...]


def _version(entry: Entry | None, digest: bytes | None) -> _Version | None:
    if entry is None:
        return None
    if entry.type is FileType.SYMLINK:  # a link's mode is 0777 and means nothing (symlink(7))
        return _Version(entry.type, entry.target, 0o777, entry.attributes)
    return _Version(entry.type, digest if entry.type is FileType.FILE else b"", entry.mode, entry.attributes)


def _is_same(one: _Version | None, other: _Version | None) -> bool:
    return one == other and (one is None or one.content is not None)


def _both_changed(base: _Version | None, yours: _Version | None, agent: _Version | None, *, is_text: bool) -> PathDecision:
    if yours is None:
        return _conflict("you deleted it, the agent changed it")
    if agent is None:
        return _conflict("you changed it, the agent deleted it")
    if yours.type is not agent.type:
        return _conflict(f"{_history(base)}: yours is a {type_name(yours.type)}, the agent's a {type_name(agent.type)}")
    if base is None or base.type is not yours.type:
        return _new_on_both(base, yours, agent)
    return _one_type(base, yours, agent, is_text=is_text)


def _history(base: _Version | None) -> str:
    return f"it was a {type_name(base.type)}" if base else "both added it"


def _new_on_both(base: _Version | None, yours: _Version, agent: _Version) -> PathDecision:
    """Decide about two entries of one type that replaced another type or no entry."""
    if yours.type is FileType.DIRECTORY:
        return _already(yours)
    if yours.type is FileType.SYMLINK and yours.content != agent.content:
        differing = "targets"
    elif yours.content != agent.content or yours.content is None:
        differing = "contents"
    else:
        differing = "modes" if yours.mode != agent.mode else "attributes"
    return _conflict(f"{_history(base)}{', both replaced it' if base else ''}, with different {differing}")


def _one_type(base: _Version, yours: _Version, agent: _Version, *, is_text: bool) -> PathDecision:
    """Decide about three entries of one type: bytes, mode and attributes separately."""
    why = _obstacle(base, yours, agent)
    if why:
        return _conflict(why)
    merged = replace(
        yours,
        mode=yours.mode if agent.mode == base.mode else agent.mode,
        attributes=yours.attributes if agent.attributes == base.attributes else agent.attributes,
    )
    if agent.content in (base.content, yours.content):
        return _already(yours) if merged == yours else _decided(Verdict.KEEP_YOURS, merged)
    if yours.content == base.content:
        return _decided(Verdict.USE_AGENT, merged)
    if yours.type is FileType.SYMLINK:
        return _conflict("both changed the link's target")
    return _decided(Verdict.MERGE_TEXT, merged) if is_text else _conflict("both changed it, and it is not a text file")


def _obstacle(base: _Version, yours: _Version, agent: _Version) -> str:
    """Return why three versions of one type cannot be merged regardless of their bytes, or ""."""
    if None in {base.content, yours.content, agent.content}:
        return "its content is unknown on one side"
    if len({base.mode, yours.mode, agent.mode}) == 3:
        return "both changed its mode"
    return "both changed its attributes" if len({base.attributes, yours.attributes, agent.attributes}) == 3 else ""


def _already(yours: _Version | None) -> PathDecision:
    return _decided(Verdict.ALREADY_APPLIED, yours)


def _decided(verdict: Verdict, result: _Version | None) -> PathDecision:
    return PathDecision(verdict, "", result.mode, result.attributes) if result else PathDecision(verdict)


def _conflict(why: str) -> PathDecision:
    return PathDecision(Verdict.CONFLICT, why)
