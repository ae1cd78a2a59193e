"""The live view of a running session: a screen of fixed size, lines for a pipe, rows for JSON."""

import shlex
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_dev.cli.activity import Activity, EventKind
from agent_dev.cli.render.colour import Palette, Tone
from agent_dev.overlay.labels import SIGNS, format_count
from agent_dev.sanitize import visible
from tui.text.cells import clean_text, crop

_KEPT = 200  # events of each kind
_MIN_ROWS = 6
_LABELS = {
    EventKind.CHANGE: "changed",
    EventKind.REVERTED: "reverted",
    EventKind.COMMAND: "command",
    EventKind.DENIED: "denied",
    EventKind.APPROVAL: "waiting",
    EventKind.CHECKPOINT: "checkpoint",
    EventKind.END: "end",
}
_TONES = {EventKind.DENIED: Tone.RISK, EventKind.APPROVAL: Tone.RISK, EventKind.REVERTED: Tone.DIM, EventKind.END: Tone.STRONG}


@dataclass(slots=True)
class LiveView:
    """The latest events of a session, and its waiting approvals."""

    name: str
    command: str
    count: int = 0
    changes: deque[Activity] = field(default_factory=lambda: deque(maxlen=_KEPT))
    commands: deque[Activity] = field(default_factory=lambda: deque(maxlen=_KEPT))
    waiting: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    checkpoints: int = 0
    command_count: int = 0

    def add(self, event: Activity) -> None:
        """Add an event; a path that changes again moves to the front."""
        match event.kind:
            case EventKind.CHANGE | EventKind.REVERTED:
                self.changes = deque((one for one in self.changes if one.text != event.text), maxlen=_KEPT)
                if event.kind is EventKind.CHANGE:
                    self.changes.appendleft(event)
            case EventKind.COMMAND | EventKind.DENIED:
                self.commands.appendleft(event)
                self.command_count += 1
            case EventKind.CHECKPOINT:
                self.checkpoints += 1
            case _:
                return


def screen_lines(view: LiveView, columns: int, rows: int, palette: Palette) -> list[str]:
    """Return the lines of the screen, at most `rows`, none wider than `columns`."""
    title = f"agent-dev watch  {visible(view.name)}  {visible(view.command)}"
    lines = [palette.paint(_cut(title, columns), Tone.STRONG), ""]
    for number, row in view.waiting.items():
        text = f"waiting  {number}: {visible(shlex.join(map(str, row.get('argv', ()))))}  (agent-dev approve {number})"
        lines.append(palette.paint(_cut(text, columns), Tone.RISK))
    free = max(_MIN_ROWS, rows) - len(lines) - 5
    for_commands = min(len(view.commands), max(2, free // 3))
    heading = f"{format_count(view.count, 'change')}, {format_count(view.checkpoints, 'checkpoint')}"
    lines.append(palette.paint(heading, Tone.HEADING))
    lines += [_cut(f"  {_change(one)}", columns) for one in list(view.changes)[: max(1, free - for_commands)]]
    lines += ["", palette.paint(format_count(view.command_count, "command"), Tone.HEADING)]
    lines += [
        palette.paint(_cut(f"  {_command(one)}", columns), _TONES.get(one.kind)) for one in list(view.commands)[:for_commands]
    ]
    lines = lines[: max(1, rows - 1)]
    return [*lines, *[""] * (rows - 1 - len(lines)), palette.paint(_cut("q quit", columns), Tone.DIM)]


def event_line(event: Activity, palette: Palette) -> str:
    """Return an event as a line."""
    if event.kind is EventKind.CHANGE:
        text = _change(event)
    elif event.kind in (EventKind.APPROVAL, EventKind.CHECKPOINT):
        text = f"{event.number}: {visible(event.text)}"
    else:
        text = visible(event.text)
    return palette.paint(f"{_LABELS[event.kind]:<10}  {text}", _TONES.get(event.kind))


def event_row(event: Activity) -> dict[str, object]:
    """Return an event as a row of JSON."""
    more = {"number": event.number} if event.number else {}
    kind = {"change": str(event.change)} if event.change else {}
    return {"event": str(event.kind), "text": event.text, **kind, **more}


def _change(event: Activity) -> str:
    return f"{SIGNS[event.change] if event.change else ' '} {visible(event.text)}"


def _command(event: Activity) -> str:
    return f"denied: {visible(event.text)}" if event.kind is EventKind.DENIED else visible(event.text)


def _cut(text: str, columns: int) -> str:
    return crop(clean_text(text), columns)


def joined(lines: Iterable[str]) -> str:
    """Return the escape sequences and lines that draw a screen in place."""
    return "\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J"
