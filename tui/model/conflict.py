"""A conflict as a document: yours, result and agent in three columns or, if columns would cut a line, one below the other."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import zip_longest

from agent_dev.diff import hunks, merge3
from agent_dev.diff.binary import is_binary
from agent_dev.diff.merge3 import ConflictSide, LineConflict, LineMerge, MergedRegion, RegionSource, Resolutions
from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay.changes import Change
from agent_dev.overlay.labels import format_count, path_text, type_name
from agent_dev.quick_dataclass import replace
from tui.model import file_type
from tui.model.document import DiffOptions, DiffRow, Document, RowKind, Tone
from tui.model.wrapping import line_width, row_count, stacked_width
from tui.text import labels
from tui.text.cells import clean_text, wrap

Region = LineConflict | MergedRegion

_HEADS = DiffRow(RowKind.CONFLICT, Tone.DIM, cells=(b"yours", b"result", b"agent"))
_BY = {RegionSource.AGENT: "by the agent", RegionSource.YOURS: "by you", RegionSource.SAME: "by you and the agent"}
_COLUMNS = ("yours", "result", "agent")
_YOURS, _RESULT, _AGENT = range(3)
_BY_AGENT, _BY_YOU, _BY_BOTH, _ALL = (_YOURS, _RESULT), (_AGENT, _RESULT), (_RESULT,), (_YOURS, _AGENT, _RESULT)
_SHOWN = {RegionSource.AGENT: _BY_AGENT, RegionSource.YOURS: _BY_YOU, RegionSource.SAME: _BY_BOTH}
_TONES = (Tone.CHANGED, Tone.PLAIN, Tone.ADDED)


def conflict_document(
    change: Change, header: tuple[DiffRow, ...], merged: LineMerge, answers: Resolutions, look: DiffOptions
) -> Document:
    """Return the regions of a merge as rows; `answers` are the resolutions of its first choices, the others have the default."""
    has_choices = not merged.is_clean
    defaults = merged.default_resolutions() if has_choices else ()
    answers = (*answers, *defaults[len(answers) :])
    options, look = look, _with_layout(look, merged.regions)
    rows = [*header, *(_hint(_help(merged, change), look) if has_choices else ()), DiffRow(RowKind.TEXT), *_heads(look)]
    starts: list[int] = []
    conflicts = 0
    for at, region in enumerate(merged.regions):
        if isinstance(region, LineConflict):
            conflicts += 1
            rows += _heads(look) if conflicts > 1 else ()
            starts.append(len(rows))
            rows += _conflict(region, len(starts) - 1, conflicts, answers[len(starts) - 1], merged.line_end, look)
        elif has_choices and region.is_choice:
            starts.append(len(rows))
            is_applied = answers[len(starts) - 1] is not ConflictSide.YOURS
            rows += _edit(region, len(starts) - 1, look, is_applied=is_applied)
        else:
            rows += _region(region, look, is_first=not at, is_last=at == len(merged.regions) - 1)
    count = conflicts if has_choices else -1
    return Document(
        change.key,
        tuple(rows),
        tuple(starts),
        _max_width(rows),
        conflict_count=count,
        default_resolutions=defaults,
        options=options,
    )


def _with_layout(look: DiffOptions, regions: Iterable[Region]) -> DiffOptions:
    """Return the options with three columns if these show every differing line in full, or if the user wants them."""
    sides = (side for one in regions if not _is_unchanged(one) for side in (one.yours, one.base, one.agent))
    widest = max((line_width(line) for side in sides for line in hunks.split_lines(side)), default=0)
    return replace(look, is_split=widest <= (look.columns - 4) // 3 or (look.is_split and not look.is_wrapped))


def _is_unchanged(region: Region) -> bool:
    return isinstance(region, MergedRegion) and region.source is RegionSource.UNCHANGED


def _heads(look: DiffOptions) -> tuple[DiffRow, ...]:
    return (_HEADS,) if look.is_split else ()


def _max_width(rows: Iterable[DiffRow]) -> int:
    return max((line_width(cell) for row in rows for cell in row.cells if cell is not None), default=0)


def _help(merged: LineMerge, change: Change) -> str:
    sides = "< yours, > agent's, b both, e edit"
    has_edits = len(merged.choices) > len(merged.conflicts) and not change.is_from_commit
    return f"{sides}; space leaves out an edit" if has_edits else sides


def edited_document(change: Change, header: tuple[DiffRow, ...], merged: LineMerge, edited: bytes, look: DiffOptions) -> Document:
    """Return a conflict that was resolved in an editor: the result between both sides, compared line by line."""
    yours = b"".join(region.yours for region in merged.regions)
    agents = b"".join(region.agent for region in merged.regions)
    regions = merge3.merge_lines(edited, yours, agents).regions
    options, look = look, _with_layout(look, regions)
    rows = [*header, *_hint("resolved in an editor (e: edit again)", look), DiffRow(RowKind.TEXT), *_heads(look)]
    starts = []
    for at, region in enumerate(regions):
        if isinstance(region, MergedRegion) and region.source is RegionSource.UNCHANGED:
            rows += _stable(region, look, is_first=not at, is_last=at == len(regions) - 1)
            continue
        starts.append(len(rows))
        rows.append(DiffRow(RowKind.HEADING, Tone.HEADING, "edited"))
        rows += _sides((region.yours, region.base, region.agent), Tone.CHANGED, look, _ALL)
    defaults = merged.default_resolutions()
    return Document(
        change.key,
        tuple(rows),
        tuple(starts),
        _max_width(rows),
        conflict_count=len(merged.conflicts),
        default_resolutions=defaults,
        is_edited=True,
        options=options,
    )


def region_lines(region: MergedRegion) -> Iterator[str]:
    """Yield a change outside the conflicts as lines with `-` and `+`, with a heading."""
    yield _heading(region)
    yield from (f"-{_text(line)}" for line in hunks.split_lines(region.base))
    yield from (f"+{_text(line)}" for line in hunks.split_lines(region.data))


def _hint(text: str, look: DiffOptions) -> Iterator[DiffRow]:
    """Yield the keys that resolve a conflict."""
    yield from (DiffRow(RowKind.TEXT, Tone.DIM, part) for part in (wrap(text, look.columns) if look.shows_keys else ()))


def _region(region: MergedRegion, look: DiffOptions, *, is_first: bool, is_last: bool) -> Iterator[DiffRow]:
    if region.source is RegionSource.UNCHANGED:
        yield from _stable(region, look, is_first=is_first, is_last=is_last)
        return
    yield DiffRow(RowKind.HEADING, Tone.HEADING, _heading(region))
    if look.shows_base:
        yield from _base_rows(region.base)
    yield from _sides((region.yours, region.data, region.agent), Tone.CHANGED, look, _SHOWN[region.source])


def _edit(region: MergedRegion, choice: int, look: DiffOptions, *, is_applied: bool) -> Iterator[DiffRow]:
    """Yield an edit that only the agent made; if it is left out, the result is the base."""
    heading = _heading(region) + ("" if is_applied else ": left out")
    yield DiffRow(RowKind.HEADING, Tone.HEADING, heading, hunk=choice, is_applied=is_applied)
    if look.shows_base:
        yield from _base_rows(region.base)
    result = region.data if is_applied else region.base
    tone, shown = (Tone.CHANGED, _BY_AGENT) if is_applied else (Tone.PLAIN, (_YOURS, _AGENT))
    yield from _sides((region.yours, result, region.agent), tone, look, shown, choice)


def _heading(region: MergedRegion) -> str:
    verb = "added" if not region.base else "deleted" if not region.data else "changed"
    lines = max(len(hunks.split_lines(region.base)), len(hunks.split_lines(region.data)))
    return f"{format_count(lines, 'line')} {verb} {_BY[region.source]}"


def _stable(region: MergedRegion, look: DiffOptions, *, is_first: bool, is_last: bool) -> Iterator[DiffRow]:
    lines, context = hunks.split_lines(region.data), look.context
    if len(lines) <= 2 * context:
        yield from _context(region.data, look)
        return
    head, tail = () if is_first else lines[:context], () if is_last else lines[len(lines) - context :]
    yield from _context(b"".join(head), look)
    yield DiffRow(RowKind.HEADING, Tone.HEADING, f"… {format_count(len(lines) - len(head) - len(tail), 'line')} unchanged")
    yield from _context(b"".join(tail), look)


def _context(text: bytes, look: DiffOptions) -> Iterator[DiffRow]:
    if look.is_split:
        yield from _sides((text,) * 3, Tone.PLAIN, look, ())
    else:
        yield from _block("", _RESULT, text, Tone.PLAIN, look, -1)


def _sides(
    texts: tuple[bytes, bytes, bytes], tone: Tone, look: DiffOptions, shown: tuple[int, ...], at: int = -1
) -> Iterator[DiffRow]:
    """Yield the three texts in columns, or those in `shown` one below the other."""
    if look.is_split:
        for yours, result, agents in zip_longest(*map(hunks.split_lines, texts)):
            yield DiffRow(RowKind.CONFLICT, tone, hunk=at, cells=(yours, result, agents))
    else:
        for side in shown:
            yield from _block(_COLUMNS[side], side, texts[side], _TONES[side], look, at)
    unterminated = [name for name, text in zip(_COLUMNS, texts, strict=True) if text and not text.endswith(b"\n")]
    if unterminated:
        yield DiffRow(RowKind.TEXT, Tone.DIM, f"\\ No newline at end of file: {', '.join(unterminated)}", hunk=at)


def _block(label: str, side: int, text: bytes, tone: Tone, look: DiffOptions, at: int) -> Iterator[DiffRow]:
    """Yield the lines of one text with a label, wrapped if the user wants that."""
    cells = stacked_width(look)
    for number, line in enumerate(hunks.split_lines(text) or (b"",)):
        row = DiffRow(RowKind.STACKED, tone, "" if number else label, hunk=at, cells=_only(line, side))
        for turn in range(row_count(line, cells) if look.is_wrapped else 1):
            yield replace(row, wrap_index=turn, text="" if turn else row.text)


def _only(line: bytes, side: int) -> tuple[bytes | None, bytes | None, bytes | None]:
    return (line if side == _YOURS else None, line if side == _RESULT else None, line if side == _AGENT else None)


def _base_rows(base: bytes) -> Iterator[DiffRow]:
    yield from (DiffRow(RowKind.TEXT, Tone.DIM, f"base: {_text(line)}") for line in hunks.split_lines(base))


def _conflict(
    one: LineConflict, choice: int, number: int, answer: ConflictSide | bytes | None, line_end: bytes, look: DiffOptions
) -> Iterator[DiffRow]:
    labels_of = {None: "unresolved", ConflictSide.YOURS: "yours", ConflictSide.AGENT: "agent's", ConflictSide.BOTH: "both"}
    label = "edited" if isinstance(answer, bytes) else labels_of[answer]
    tone = Tone.ERROR if answer is None else Tone.CHANGED
    yield DiffRow(RowKind.HEADING, tone, f"conflict {number}: {label}", hunk=choice)
    if look.shows_base:
        yield from _base_rows(one.base)
    shown = _ALL if answer is not None else (_YOURS, _AGENT)
    yield from _sides((one.yours, _result(one, answer, line_end), one.agent), tone, look, shown, choice)


def _text(line: bytes) -> str:
    return line.rstrip(b"\n").decode("utf-8", "surrogateescape")


def _result(one: LineConflict, answer: ConflictSide | bytes | None, line_end: bytes) -> bytes:
    match answer:
        case None:
            return b""
        case ConflictSide.YOURS:
            return one.yours
        case ConflictSide.AGENT:
            return one.agent
        case ConflictSide.BOTH:
            return hunks.join_lines((one.yours, one.agent), line_end)
        case _:
            return answer


Contents = tuple[bytes | None, bytes | None]


def whole_file_document(
    change: Change, header: tuple[DiffRow, ...], contents: Contents, answers: Resolutions, look: DiffOptions
) -> Document:
    """Return the rows of a conflict of whole files: your version and the agent's, texts in full."""
    rows = [*header, *_hint("< yours, > agent's", look), DiffRow(RowKind.TEXT)]
    for label, entry, content in (("yours", change.yours, contents[0]), ("agent", change.after, contents[1])):
        text = f"{label + ':':<7}{_describe(entry, content)}"
        rows += [DiffRow(RowKind.TEXT, Tone.PLAIN, part) for part in wrap(clean_text(text), look.columns)]
    rows += _texts(change, contents, answers[0] if answers else None, look)
    return Document(change.key, tuple(rows), max_width=_max_width(rows), conflict_count=0, options=look)


def _texts(change: Change, contents: Contents, answer: ConflictSide | bytes | None, look: DiffOptions) -> Iterator[DiffRow]:
    yours, agents = contents
    kinds = {entry.type for entry in (change.yours, change.after) if entry is not None}
    if yours is None or agents is None or kinds != {FileType.FILE}:
        return
    if is_binary(yours) or is_binary(agents) or not hunks.is_diffable(yours, agents):
        return
    yield DiffRow(RowKind.TEXT)
    whole = LineConflict(b"", yours, agents)
    look = _with_layout(look, (whole,))
    yield from _heads(look)
    result = _result(whole, answer, hunks.detect_line_end(yours, agents))
    yield from _sides((yours, result, agents), Tone.CHANGED, look, _ALL if answer is not None else (_YOURS, _AGENT))


def _describe(entry: Entry | None, content: bytes | None) -> str:
    if entry is None:
        return "nothing"
    if entry.type is FileType.DIRECTORY and content:
        return path_text(content)
    if entry.type is FileType.SYMLINK:
        return f"a symlink to {path_text(entry.target)}"
    if entry.type is FileType.FILE and content is not None:
        kind = file_type.describe_type(content) if is_binary(content) else "text"
        return f"{kind}, mode {entry.mode:04o}, {labels.exact_size(len(content))}, sha256 {sha256(content).hexdigest()[:16]}…"
    return f"a {type_name(entry.type)}, mode {entry.mode:04o}"
