"""The HTML of a review page: no scripts, no external links, every text escaped. The same content yields the same bytes."""

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone

from agent_dev.git.formats.commit_format import CommitIdentity
from agent_dev.overlay.changes import Risk
from agent_dev.overlay.labels import format_count
from agent_dev.review_page.content import (
    ChangeSection,
    CommitFile,
    CommitList,
    CommitSection,
    Diff,
    DiffHunk,
    PageRow,
    ReviewPage,
    RiskGroup,
    ThreeWayRow,
    ThreeWayView,
)
from agent_dev.review_page.style import STYLE
from agent_dev.sanitize import visible

_MAX_LINE = 1000  # characters of a line of a file or message; longer ones are cut
_MAX_INLINE = 5000  # characters of a path or reason; a path has at most 4096 bytes
_MAX_MESSAGE_LINES = 200
_MAX_ROWS = 100  # of problems, notes, risks of one change
_TAB = "<i>\u2409   </i>"
_THREE_COLUMNS = "<colgroup>" + '<col class="number"><col>' * 3 + "</colgroup>"
_COLUMNS = '<colgroup><col class="number"><col><col class="number"><col></colgroup>'


def render_page(page: ReviewPage) -> Iterator[str]:
    """Yield the page in pieces."""
    yield _head(page.name)
    yield f"<header>\n<h1>Review of {_inline(page.name)}</h1>\n{_facts(page.facts)}"
    yield f"<p>{' · '.join(map(_inline, page.totals))}</p>\n"
    yield '<nav><a href="#changes">Changes</a> · <a href="#commits">Commits</a> · <a href="#risks">Risks</a></nav>\n</header>\n'
    yield from _list("Problems", page.problems)
    yield from _list("Notes", page.notes)
    yield from _risks(page.risks)
    yield from _changes(page)
    yield from _commits(page.commits)
    yield "</body>\n</html>\n"


def style_hash() -> str:
    """Return the style sheet's hash as Content-Security-Policy writes it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode("ascii")


def escape_text(text: str | bytes, max_length: int = _MAX_LINE) -> str:
    """Return text for HTML: markup escaped, control and bidirectional characters visible, cut after `max_length` characters."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    more = len(text) - max_length
    escaped = _TAB.join(html.escape(visible(part)) for part in text[:max_length].split("\t"))
    return f"{escaped}<i> … {format_count(more, 'more character')}</i>" if more > 0 else escaped


def _inline(text: str | bytes) -> str:
    """Return escaped text whose writing direction does not reorder the text around it."""
    return f"<bdi>{escape_text(text, _MAX_INLINE)}</bdi>"


def _head(name: str) -> str:
    policy = f"default-src 'none'; style-src '{style_hash()}'; base-uri 'none'; form-action 'none'"
    title = html.escape(visible(name[:_MAX_LINE]))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Review of {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{escape_text(name)}</dt><dd>{_inline(value)}</dd>\n" for name, value in facts)
    return f"<dl>\n{rows}</dl>\n" if rows else ""


def _list(title: str, rows: tuple[str, ...]) -> Iterator[str]:
    if rows:
        yield f"<section>\n<h2>{title}</h2>\n{_items(rows)}</section>\n"


def _items(rows: tuple[str, ...]) -> str:
    shown = "".join(f"<li>{_inline(row)}</li>\n" for row in rows[:_MAX_ROWS])
    more = f"<li>… {len(rows) - _MAX_ROWS:,} more</li>\n" if len(rows) > _MAX_ROWS else ""
    return f"<ul>\n{shown}{more}</ul>\n"


def _risks(groups: tuple[RiskGroup, ...]) -> Iterator[str]:
    yield '<section id="risks">\n<h2>Risks</h2>\n'
    if not groups:
        yield "<p>No risks were found.</p>\n"
    for group in groups:
        count = format_count(len(group.paths) + group.omitted, "change")
        yield f'<details open>\n<summary><b class="risk">{_inline(group.risk.rule)}</b> · {count}</summary>\n<div class="body">\n'
        yield f"<p>{_reason(group.risk)}</p>\n<ul>\n"
        yield from (f"<li>{_reference(number, path)}</li>\n" for number, path in group.paths)
        more = f"<li>… {group.omitted:,} more</li>\n" if group.omitted else ""
        yield f"{more}</ul>\n</div>\n</details>\n"
    yield "</section>\n"


def _reference(number: int, path: str) -> str:
    shown = f"<code>{_inline(path)}</code>"
    return f'<a href="#change-{number}">{shown}</a>' if number else shown


def _reason(risk: Risk) -> str:
    check = f" Check: {_inline(risk.check)}" if risk.check else ""
    return f"{_inline(risk.why)}{check}"


def _changes(page: ReviewPage) -> Iterator[str]:
    yield f'<section id="changes">\n<h2>Changes ({page.total:,})</h2>\n'
    if not page.total:
        yield "<p>No changes.</p>\n"
    for change in page.changes:
        yield from _change(change)
    if page.total > page.shown:
        yield f'<p class="block">{format_count(page.total - page.shown, "more change")} not on this page '
        yield "(<code>agent-dev status --json</code> lists them).</p>\n"
    yield "</section>\n"


def _change(change: ChangeSection) -> Iterator[str]:
    is_open = " open" if change.risks or change.block else ""
    parts = [f'<span class="kind">{escape_text(change.kind)}</span> {_names(change.old_path, change.path)}']
    if change.insertions is not None and change.deletions is not None:
        parts.append(f'<span class="dim">+{change.insertions:,} -{change.deletions:,}</span>')
    parts += _labels(change.labels)
    parts += _rules(change.risks)
    if change.block:
        parts.append('<b class="block">\u2717 conflict</b>')
    yield f'<details id="change-{change.number:d}"{is_open}>\n<summary>{" ".join(parts)}</summary>\n<div class="body">\n'
    if change.block:
        yield f'<p class="block">{_inline(change.block)}</p>\n'
    yield from (f'<p class="risk">! {_inline(risk.rule)}: {_reason(risk)}</p>\n' for risk in change.risks[:_MAX_ROWS])
    yield _facts(change.facts)
    yield from _three_way(change.three_way)
    yield from _diff(change.diff)
    yield "</div>\n</details>\n"


def _names(old: str | bytes, new: str | bytes) -> str:
    before = f"<code>{_inline(old)}</code> → " if old else ""
    return f"{before}<code>{_inline(new)}</code>"


def _labels(labels: Iterable[str]) -> list[str]:
    return [f'<span class="label">{_inline(label)}</span>' for label in labels]


def _rules(risks: tuple[Risk, ...]) -> list[str]:
    return [f'<b class="risk">! {_inline(", ".join(risk.rule for risk in risks[:_MAX_ROWS]))}</b>'] if risks else []


def _diff(diff: Diff) -> Iterator[str]:
    if diff.reason:
        yield f'<p class="dim">{_inline(diff.reason)}</p>\n'
    if diff.hunks:
        yield f"<table>{_COLUMNS}\n"
        for hunk in diff.hunks:
            yield from _hunk(hunk)
        yield "</table>\n"
    yield from _omitted(diff.omitted)


def _three_way(view: ThreeWayView) -> Iterator[str]:
    if view.hunks:
        yield f"<table>{_THREE_COLUMNS}\n"
        names = "".join(f'<td colspan="2">{name}</td>' for name in ("base", "yours", "agent"))
        yield f'<tr class="hunk">{names}</tr>\n'
        for hunk in view.hunks:
            kind = "block" if hunk.is_conflict else "dim"
            yield f'<tr class="hunk"><td colspan="6"><b class="{kind}">{escape_text(hunk.heading)}</b></td></tr>\n'
            yield from (f"<tr>{_three_cells(row)}</tr>\n" for row in hunk.rows)
        yield "</table>\n"
    yield from _omitted(view.omitted)


def _three_cells(row: ThreeWayRow) -> str:
    kinds = ("deleted", "added", "added") if row.is_changed else ("same",) * 3
    base = row.base[1]
    sides = ((*row.yours, kinds[1]), (*row.agent, kinds[2]))
    is_edited = any(line != base for _, line, _ in sides)
    first = _cell(*row.base, kinds[0] if is_edited else "same")
    return first + "".join(_cell(number, line, "same" if line == base else kind) for number, line, kind in sides)


def _omitted(count: int) -> Iterator[str]:
    if count:
        yield f'<p class="block">… {format_count(count, "more row")} not on this page</p>\n'


def _hunk(hunk: DiffHunk) -> Iterator[str]:
    yield f'<tr class="hunk"><td colspan="4">{escape_text(hunk.header)}</td></tr>\n'
    for row in hunk.rows:
        yield _row(row)


def _row(row: PageRow) -> str:
    old = _cell(row.old_number, row.old, "deleted" if row.is_changed else "same")
    return f"<tr>{old}{_cell(row.new_number, row.new, 'added' if row.is_changed else 'same')}</tr>\n"


def _cell(number: int, line: bytes | None, kind: str) -> str:
    if line is None:
        return '<td class="number"></td><td class="none"></td>'
    end = "" if line.endswith(b"\n") else "<i> (no newline at the end)</i>"
    text = escape_text(line.removesuffix(b"\n"))
    return f'<td class="number">{number:d}</td><td class="{kind}">{text}{end}</td>'


def _commits(commits: CommitList) -> Iterator[str]:
    yield f'<section id="commits">\n<h2>Commits ({commits.total:,})</h2>\n'
    if not commits.total:
        yield "<p>No commits.</p>\n"
    for commit in commits.sections:
        yield from _commit(commit)
    if commits.total > len(commits.sections):
        yield f'<p class="block">{format_count(commits.total - len(commits.sections), "more commit")} not on this page '
        yield "(<code>agent-dev commits</code> lists them).</p>\n"
    if commits.notes:
        yield _items(commits.notes)
    yield "</section>\n"


def _commit(commit: CommitSection) -> Iterator[str]:
    risks = tuple(dict.fromkeys(risk for file in commit.files for risk in file.risks))
    head = " ".join([f"<code>{escape_text(commit.id[:10])}</code>", _inline(commit.subject), *_rules(risks)])
    yield f'<details>\n<summary>{head}</summary>\n<div class="body">\n'
    facts = [("commit", commit.id), ("author", _person(commit.author)), ("date", _date(commit.author))]
    if commit.committer != commit.author:
        facts += [("committer", _person(commit.committer)), ("committed", _date(commit.committer))]
    if len(commit.parents) > 1:
        facts.append(("merge of", " ".join(commit.parents)))
    yield _facts((*facts, *(("note", note) for note in commit.notes[:_MAX_ROWS])))
    lines = commit.message.rstrip(b"\n").split(b"\n")
    more = len(lines) - _MAX_MESSAGE_LINES
    message = "\n".join(map(escape_text, lines[:_MAX_MESSAGE_LINES]))
    yield f"<pre>{message}</pre>\n"
    if more > 0:
        yield f'<p class="block">… {format_count(more, "more line")} not on this page</p>\n'
    if commit.reason:
        yield f'<p class="dim">{_inline(commit.reason)}</p>\n'
    for file in commit.files:
        yield from _commit_file(file)
    yield "</div>\n</details>\n"


def _commit_file(file: CommitFile) -> Iterator[str]:
    head = " ".join([_names(file.old_path, file.path), *_labels(file.labels), *_rules(file.risks)])
    yield f'<details>\n<summary>{head}</summary>\n<div class="body">\n'
    yield from (f'<p class="risk">! {_inline(risk.rule)}: {_reason(risk)}</p>\n' for risk in file.risks[:_MAX_ROWS])
    yield from _diff(file.diff)
    yield "</div>\n</details>\n"


def _person(one: CommitIdentity) -> str:
    return f"{one.name} <{one.email}>"


def _date(one: CommitIdentity) -> str:
    """Return a commit's date in its own time zone; an invalid one in seconds."""
    zone = one.zone
    try:
        if len(zone) != 5 or zone[0] not in "+-" or not (zone[1:].isascii() and zone[1:].isdigit()):
            raise ValueError(zone)
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:]))
        local = datetime.fromtimestamp(one.time, timezone(-offset if zone[0] == "-" else offset))
    except (ValueError, OverflowError, OSError):
        return f"{one.time} seconds since 1970"
    return f"{local:%Y-%m-%d %H:%M:%S} {zone}"
