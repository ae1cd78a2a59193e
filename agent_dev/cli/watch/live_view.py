"""The live view as text: the state that events build up, and the lines of a screen of any size."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from agent_dev.cli.render.colour import OutputTone, Palette
from agent_dev.cli.render.question_words import short_question
from agent_dev.cli.watch.event_output import describe_verdict, event_tone, sign_of
from agent_dev.cli.watch.events import Event, EventKind
from agent_dev.quick_dataclass import dataclass, field
from tui.text.cells import clean_text, crop, crop_start, width

_KEPT = 300  # events of each section
_MAX_APPROVALS, _MAX_CHECKPOINTS = 4, 3  # rows
_MIN_ROWS = 3  # of changes and of commands, before the other gets more
_SHORT = 16  # rows: a lower screen has neither empty lines nor checkpoints, and fewer approvals
_LONGEST = 4000  # characters of a text that are cleaned
_TONES = {"+": OutputTone.ADDED, "-": OutputTone.REMOVED}
_KEYS = "q quit    agent-dev approve answers, agent-dev status lists all changes"

Section = tuple[str, list[str]]  # heading, rows


@dataclass(slots=True)
class LiveView:
    """The latest events of a session, its waiting approvals, and counts."""

    name: str
    command: str
    started: int
    change_count: int | None = None
    changes: dict[str, Event] = field(default_factory=dict)  # by path, the latest last
    commands: deque[Event] = field(default_factory=lambda: deque(maxlen=_KEPT))
    command_count: int = 0
    exits: dict[tuple[object, str], Event] = field(default_factory=dict)  # by pid and command line
    checkpoints: deque[Event] = field(default_factory=lambda: deque(maxlen=_MAX_CHECKPOINTS))
    checkpoint_count: int = 0
    waiting: Mapping[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Add an event; a path that changes again becomes the latest."""
        match event.kind:
            case EventKind.CHANGE | EventKind.REVERTED:
                self.changes.pop(event.text, None)
                if event.kind is EventKind.CHANGE:
                    self.changes[event.text] = event
                    _limit(self.changes)
            case EventKind.COMMAND:
                self.commands.append(event)
                self.command_count += 1
            case EventKind.EXIT:
                self.exits[(event.details.get("pid"), event.text)] = event
                _limit(self.exits)
            case EventKind.CHECKPOINT | EventKind.LOG:
                self.checkpoints.append(event)
                self.checkpoint_count += event.kind is EventKind.CHECKPOINT
            case _:
                return


def _limit(found: dict[Any, Event]) -> None:
    if len(found) > _KEPT:
        del found[next(iter(found))]


def screen_lines(view: LiveView, columns: int, rows: int, palette: Palette) -> list[str]:
    """Return the lines of a screen: exactly `rows`, none wider than `columns`."""
    is_short = rows < _SHORT
    approvals = _approvals(view, columns, palette, 1 if is_short else _MAX_APPROVALS)
    checkpoints = ("", []) if is_short else _checkpoints(view, columns)
    sections = [section for section in (approvals, checkpoints) if section[1]]
    gap = 0 if is_short else 1
    fixed = 2 + 2 * gap + sum(len(section[1]) + 1 + gap for section in sections) + 2 + gap
    free = max(0, rows - fixed)
    for_commands = min(max(len(view.commands), 1), max(_MIN_ROWS, free // 2, free - max(len(view.changes), 1)), free)
    changes = _changes(view, columns, palette, free - for_commands)
    commands = _commands(view, columns, palette, for_commands)
    lines = [_header(view, columns, palette)]
    for heading, body in (s for s in (approvals, changes, commands, checkpoints) if s[1]):
        lines += [*[""] * gap, palette.paint(crop(heading, columns), OutputTone.HEADING), *body]
    lines = lines[: max(0, rows - 1)]
    return [*lines, *[""] * (rows - 1 - len(lines)), palette.paint(crop(_KEYS, columns), OutputTone.DIM)]


def _header(view: LiveView, columns: int, palette: Palette) -> str:
    minutes = max(0, time.time_ns() - view.started) // (60 * 10**9)
    spent = f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
    right = f"running, {spent}"
    left = f"agent-dev watch  {_clean(view.name)}  {_clean(view.command)}"
    free = columns - len(right) - 2
    text = f"{crop(left, free)}" if free > 0 else ""
    padding = " " * max(2, columns - width(text) - len(right))
    return palette.paint(crop(f"{text}{padding}{right}" if text else left, columns), OutputTone.STRONG)


def _approvals(view: LiveView, columns: int, palette: Palette, limit: int) -> Section:
    now, rows = time.time_ns(), []
    waiting = list(view.waiting.items())
    for number, row in waiting[:limit]:
        until = row.get("until")
        left = f"  {max(0, until - now) // 10**9} s left" if isinstance(until, int) else ""
        text = crop(f"  {number}  {_clean(short_question(row))}", columns - len(left))
        rows.append(palette.paint(text + left if columns > len(left) else text, OutputTone.RISK))
    if len(waiting) > limit > 1:
        rows.append(crop(f"  and {len(waiting) - limit} more", columns))
    return f"Waiting for your answer {len(waiting)}  (agent-dev approve)", rows


def _changes(view: LiveView, columns: int, palette: Palette, limit: int) -> Section:
    events = _latest(view.changes.values(), limit)
    rows = []
    for event in events:
        sign, kind = sign_of(event), str(event.details["kind"])
        start = f"  {sign} {kind:<8}  "
        path = crop_start(_clean(event.text), columns - width(start))
        rows.append(palette.paint(crop(start + path, columns), _TONES.get(sign, OutputTone.CHANGED)))
    if not rows and limit > 0:
        rows = [crop("  comparing…" if view.change_count is None else "  none", columns)]
    return f"Changes {'' if view.change_count is None else view.change_count}".rstrip(), rows


def _commands(view: LiveView, columns: int, palette: Palette, limit: int) -> Section:
    rows = []
    for event in _latest(view.commands, limit):
        end = view.exits.get((event.details.get("pid"), event.text), event)
        code = end.details.get("exit")
        left = f"  {describe_verdict(event.details)}{_clean(event.text)}"
        right = "" if code in (None, 0) else f"  exit {code}"
        text = crop(left, columns - len(right)) + right if columns > len(right) else crop(left, columns)
        rows.append(palette.paint(text, OutputTone.REMOVED if right else event_tone(event)))
    return f"Commands {view.command_count}", rows or ([crop("  none logged", columns)] if limit > 0 else [])


def _checkpoints(view: LiveView, columns: int) -> Section:
    return f"Checkpoints {view.checkpoint_count}", [
        crop(f"  {_clean(event.text)}", columns) for event in reversed(view.checkpoints)
    ]


def _latest(events: Any, limit: int) -> Sequence[Event]:
    return [*reversed([*events])][: max(0, limit)]


def _clean(text: str) -> str:
    return clean_text(text[:_LONGEST])
