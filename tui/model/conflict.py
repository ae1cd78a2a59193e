"""A conflict as a document in three columns: mine, what lands, the agent's."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import zip_longest

from agent_dev.diff import hunks as blocks
from agent_dev.diff.merge3 import Conflict, Merged, Region, Side, Source
from agent_dev.overlay.changes import Change, Entry, FileType
from tui.model import file_type as media
from tui.model.document import Document, Look, Row, RowKind, Tone
from tui.text import labels as words
from tui.text.cells import clean, wrap

_HEADS = Row(RowKind.CONFLICT, Tone.DIM, cells=(b"yours", b"result", b"the agent's"))

Answers = Sequence[Side | bytes | None]


def document(change: Change, top: tuple[Row, ...], merged: Merged, answers: Answers, look: Look) -> Document:
    """Return the regions of a merge as rows; `answers` settle its conflicts in order, where they are settled."""
    hint = () if merged.is_clean else _hint("< takes yours, > the agent's, b both, e opens an editor", look)
    rows = [*top, *hint, Row(RowKind.WORDS), _HEADS]
    starts: list[int] = []
    for at, region in enumerate(merged.regions):
        if isinstance(region, Region):
            rows += _region(region, look.context, is_first=not at, is_last=at == len(merged.regions) - 1)
            continue
        answer = answers[len(starts)] if len(starts) < len(answers) else None
        starts.append(len(rows))
        rows += [_HEADS] if len(starts) > 1 else []
        is_edited = answer is None and change.is_clean
        rows += _conflict(region, len(starts) - 1, answer, has_base=look.has_base, is_edited=is_edited)
    return Document(change.key, tuple(rows), tuple(starts), conflicts=-1 if merged.is_clean else len(starts), look=look)


def _hint(text: str, look: Look) -> Iterator[Row]:
    yield from (Row(RowKind.WORDS, Tone.DIM, part) for part in wrap(text, look.columns))


def _region(region: Region, context: int, *, is_first: bool, is_last: bool) -> Iterator[Row]:
    lines = blocks.lines(region.data)
    if region.source is Source.STABLE and len(lines) > 2 * context:
        head, tail = () if is_first else lines[:context], () if is_last else lines[len(lines) - context :]
        yield from (_row(line, line, line) for line in head)
        yield Row(RowKind.HUNK, Tone.HUNK, f"… {words.number(len(lines) - len(head) - len(tail), 'line')} as before")
        yield from (_row(line, line, line) for line in tail)
        return
    mine, agent = region.source is not Source.AGENT, region.source is not Source.MINE
    tone = Tone.PLAIN if region.source is Source.STABLE else Tone.CHANGED
    for line in lines:
        yield _row(line if mine else None, line, line if agent else None, tone)


def _row(mine: bytes | None, result: bytes | None, agent: bytes | None, tone: Tone = Tone.PLAIN, at: int = -1) -> Row:
    return Row(RowKind.CONFLICT, tone, block=at, cells=(mine, result, agent))


def _conflict(one: Conflict, at: int, answer: Side | bytes | None, *, has_base: bool, is_edited: bool) -> Iterator[Row]:
    said = {None: "not settled", Side.MINE: "yours", Side.AGENT: "the agent's", Side.BOTH: "both"}
    how = "from the editor" if is_edited or isinstance(answer, bytes) else said[answer]
    tone = Tone.WRONG if answer is None and not is_edited else Tone.CHANGED
    yield Row(RowKind.HUNK, tone, f"conflict {at + 1}: {how}", block=at)
    if has_base:
        yield from (Row(RowKind.WORDS, Tone.DIM, f"before: {_text(line)}") for line in blocks.lines(one.base))
    columns = (blocks.lines(part) for part in (one.mine, _result(one, answer), one.agent))
    for mine, result, agent in zip_longest(*columns):
        yield _row(mine, result, agent, tone, at)


def _text(line: bytes) -> str:
    return line.rstrip(b"\n").decode("utf-8", "surrogateescape")


def _result(one: Conflict, answer: Side | bytes | None) -> bytes:
    match answer:
        case None:
            return b""
        case Side.MINE:
            return one.mine
        case Side.AGENT:
            return one.agent
        case Side.BOTH:
            return blocks.joined((one.mine, one.agent), b"\n")
        case _:
            return answer


Contents = tuple[bytes | None, bytes | None]


def of_wholes(change: Change, top: tuple[Row, ...], contents: Contents, answers: Answers, look: Look) -> Document:
    """Return the rows of a conflict that is not of lines: what stands there, and what the agent left; texts in full."""
    rows = [*top, *_hint("< keeps yours, > takes the agent's", look), Row(RowKind.WORDS)]
    for label, entry, content in (("yours", change.mine, contents[0]), ("the agent's", change.after, contents[1])):
        text = f"{label + ':':<13}{_what(entry, content)}"
        rows += [Row(RowKind.WORDS, Tone.PLAIN, part) for part in wrap(clean(text), look.columns)]
    rows += _texts(change, contents, answers[0] if answers else None)
    return Document(change.key, tuple(rows), conflicts=0, look=look)


def _texts(change: Change, contents: Contents, answer: Side | bytes | None) -> Iterator[Row]:
    mine, agent = contents
    kinds = {entry.type for entry in (change.mine, change.after) if entry is not None}
    if mine is None or agent is None or kinds != {FileType.FILE}:
        return
    if any(blocks.is_binary(one) or len(one) > blocks.LARGEST for one in (mine, agent)):
        return
    yield Row(RowKind.WORDS)
    yield _HEADS
    columns = (blocks.lines(one) for one in (mine, _result(Conflict(b"", mine, agent), answer), agent))
    for left, middle, right in zip_longest(*columns):
        yield _row(left, middle, right, Tone.CHANGED)


def _what(entry: Entry | None, content: bytes | None) -> str:
    if entry is None:
        return "nothing"
    if entry.type is FileType.DIRECTORY and content:
        return words.text(content)
    if entry.type is FileType.SYMLINK:
        return f"a link to {words.text(entry.target)}"
    if entry.type is FileType.FILE and content is not None:
        what = media.kind(content) if blocks.is_binary(content) else "text"
        return f"{what}, mode {entry.mode:04o}, {words.size(len(content))}, sha256 {sha256(content).hexdigest()[:16]}…"
    return f"a {entry.type}, mode {entry.mode:04o}"
