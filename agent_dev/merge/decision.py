"""What becomes of one path that the agent changed, when the real tree may have changed too: a table over three entries."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from agent_dev.overlay.changes import Entry, FileType


class Verdict(StrEnum):
    """What to do with a path."""

    CLEAN_AGENT = "clean-agent"  # what the agent left (bytes, a link, a directory, nothing) takes the place of the real one
    ALREADY = "already"  # nothing: the real tree holds it
    KEEP_MINE = "keep-mine"  # the bytes stay, mode or attributes become the agent's
    MERGE_TEXT = "merge-text"  # both edited the bytes: `threeway.merge`, which may still find conflicts
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict; for a conflict `why`, one short sentence; else the mode and the attributes that the result has.

    `mode` is 12 bits (setuid, setgid and sticky are the plan's to strip). Both mean nothing where nothing is left.
    """

    verdict: Verdict
    why: str = ""
    mode: int = 0
    attributes: tuple[tuple[str, bytes], ...] = ()


class Digests(NamedTuple):
    """What tells the bytes of regular files apart: equal exactly when they are; None for unknown or no file."""

    base: bytes | None = None
    mine: bytes | None = None
    agent: bytes | None = None


def decide(
    base: Entry | None,
    mine: Entry | None,
    agent: Entry | None,
    digests: Digests = Digests(),  # noqa: B008  (a constant)
    *,
    is_text: bool = True,
) -> Decision:
    """Decide about one path: what the base held, what the real tree holds now, what the agent left (None: nothing).

    `is_text`: no side is binary or too large for lines. Times, inodes and link counts mean nothing here; what lies in a
    directory is decided path by path, and what the user put into one that the agent took away is found by commands/review.

        base        mine        agent            becomes
        ----------  ----------  ---------------  ---------------------------------------------------------------
        any         = agent     any              ALREADY
        any         any         = base           ALREADY: the agent did nothing
        any         = base      any              CLEAN_AGENT
        no dir.     directory   directory        ALREADY: two new directories are one, with my mode
        nothing     A           B                CONFLICT: both added it
        any         nothing     B                CONFLICT: deleted here, changed there
        any         A           nothing          CONFLICT: changed here, deleted there
        any         one type    another type     CONFLICT: type against type
        file        bytes       bytes            MERGE_TEXT, or CONFLICT when binary
        link        target      target           CONFLICT
        other type  A           B                CONFLICT: both replaced it, each by another file or link
        same type   bytes       mode             KEEP_MINE: my bytes, the agent's mode
        same type   mode        bytes            CLEAN_AGENT: the agent's bytes, my mode
        same type   mode        another mode     CONFLICT, whatever the bytes
        same type   mode+bytes  the same mode    ALREADY; with bytes of its own, as the bytes say
        file        bytes unknown on any side    CONFLICT: unknown bytes equal nothing

    "bytes" are a file's, or a link's target; "mode" stands for the mode and, apart from it, the user's attributes.
    """
    was, own, new = (_version(*one) for one in zip((base, mine, agent), digests, strict=True))
    if _is_same(own, new) or _is_same(was, new):
        return _already(own)
    if _is_same(was, own):
        return _decided(Verdict.CLEAN_AGENT, new)
    return _both_changed(was, own, new, is_text=is_text)


@dataclass(frozen=True, slots=True)
class _Version:
    """What of an entry counts; `content` is None where the bytes of a file are not known, and then equals nothing."""

    type: FileType
    content: bytes | None
    mode: int
    attributes: tuple[tuple[str, bytes], ...]


_WORDS = {
    FileType.FILE: "a file",
    FileType.DIRECTORY: "a directory",
    FileType.SYMLINK: "a symlink",
    FileType.FIFO: "a fifo",
    FileType.SOCKET: "a socket",
    FileType.DEVICE: "a device",
}


def _version(entry: Entry | None, digest: bytes | None) -> _Version | None:
    if entry is None:
        return None
    if entry.type is FileType.SYMLINK:  # a link's mode is 0777 and means nothing (symlink(7))
        return _Version(entry.type, entry.target, 0o777, entry.attributes)
    return _Version(entry.type, digest if entry.type is FileType.FILE else b"", entry.mode, entry.attributes)


def _is_same(one: _Version | None, other: _Version | None) -> bool:
    return one == other and (one is None or one.content is not None)


def _both_changed(base: _Version | None, mine: _Version | None, agent: _Version | None, *, is_text: bool) -> Decision:
    if mine is None:
        return _conflict("you deleted it, the agent changed it")
    if agent is None:
        return _conflict("you changed it, the agent deleted it")
    if mine.type is not agent.type:
        return _conflict(f"{_history(base)}: yours is {_WORDS[mine.type]}, the agent's {_WORDS[agent.type]}")
    if base is None or base.type is not mine.type:
        return _new_on_both(base, mine, agent)
    return _one_type(base, mine, agent, is_text=is_text)


def _history(base: _Version | None) -> str:
    return f"it was {_WORDS[base.type]}" if base else "both added it"


def _new_on_both(base: _Version | None, mine: _Version, agent: _Version) -> Decision:
    """Decide about two things of one type where nothing, or something else, stood."""
    if mine.type is FileType.DIRECTORY:
        return _already(mine)
    if mine.type is FileType.SYMLINK and mine.content != agent.content:
        what = "targets"
    elif mine.content != agent.content or mine.content is None:
        what = "contents"
    else:
        what = "modes" if mine.mode != agent.mode else "attributes"
    return _conflict(f"{_history(base)}{', both replaced it' if base else ''}, with different {what}")


def _one_type(base: _Version, mine: _Version, agent: _Version, *, is_text: bool) -> Decision:
    """Decide about what was, and on both sides still is, of one type: bytes, mode and attributes each by themselves."""
    why = _obstacle(base, mine, agent)
    if why:
        return _conflict(why)
    merged = replace(
        mine,
        mode=mine.mode if agent.mode == base.mode else agent.mode,
        attributes=mine.attributes if agent.attributes == base.attributes else agent.attributes,
    )
    if agent.content in (base.content, mine.content):
        return _already(mine) if merged == mine else _decided(Verdict.KEEP_MINE, merged)
    if mine.content == base.content:
        return _decided(Verdict.CLEAN_AGENT, merged)
    if mine.type is FileType.SYMLINK:
        return _conflict("both changed where the link points")
    return _decided(Verdict.MERGE_TEXT, merged) if is_text else _conflict("both changed it, and it is not text")


def _obstacle(base: _Version, mine: _Version, agent: _Version) -> str:
    """Return why three versions of one type cannot be merged whatever their bytes are; empty when they can."""
    if None in {base.content, mine.content, agent.content}:
        return "its bytes are not known on every side"
    if len({base.mode, mine.mode, agent.mode}) == 3:
        return "both changed its mode"
    return "both changed its attributes" if len({base.attributes, mine.attributes, agent.attributes}) == 3 else ""


def _already(mine: _Version | None) -> Decision:
    return _decided(Verdict.ALREADY, mine)


def _decided(verdict: Verdict, result: _Version | None) -> Decision:
    return Decision(verdict, "", result.mode, result.attributes) if result else Decision(verdict)


def _conflict(why: str) -> Decision:
    return Decision(Verdict.CONFLICT, why)
