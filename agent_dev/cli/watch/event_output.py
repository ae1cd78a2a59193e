"""An event as a line of text, or as a row of JSON. All text from an agent passes through `visible`."""

import json
import time
from collections.abc import Mapping

from agent_dev.cli.render.colour import OutputTone, Palette
from agent_dev.cli.watch.events import Event, EventKind
from agent_dev.config.decisions import ALLOW, DENY
from agent_dev.overlay.changes import ChangeKind
from agent_dev.overlay.labels import SIGNS
from agent_dev.sanitize import visible

_MAX_TEXT = 1000  # characters of a line's text
_TONES = {
    EventKind.APPROVAL: OutputTone.RISK,
    EventKind.CHECKPOINT: OutputTone.HEADING,
    EventKind.REVERTED: OutputTone.DIM,
    EventKind.MORE: OutputTone.DIM,
    EventKind.EXIT: OutputTone.DIM,
    EventKind.SESSION: OutputTone.STRONG,
    EventKind.END: OutputTone.STRONG,
}


def event_line(event: Event, palette: Palette) -> str:
    """Return an event as a line of text, whose first word is its kind."""
    when = time.strftime("%H:%M:%S", time.localtime(event.time // 10**9))
    return palette.paint(f"{when}  {event.kind:<10}  {event_text(event)}", event_tone(event))


def event_row(event: Event) -> str:
    """Return an event as one JSON object."""
    return json.dumps({"event": str(event.kind), "time": event.time, **event.details})


def event_tone(event: Event) -> OutputTone | None:
    """Return the tone of an event."""
    is_refused = event.details.get("decision") == DENY or event.details.get("answer") in ("no", "none")
    failed = event.kind is EventKind.EXIT and event.details.get("exit") not in (None, 0)
    return OutputTone.REMOVED if is_refused or failed else _TONES.get(event.kind)


def event_text(event: Event) -> str:
    """Return the text of an event without its kind, escaped."""
    text = event.text[:_MAX_TEXT]
    details = event.details
    match event.kind:
        case EventKind.CHANGE | EventKind.REVERTED:
            origin = f" (from {details['from']})" if details.get("from") else ""
            text = f"{details['kind']}  {text}{origin}"
        case EventKind.COMMAND:
            text = describe_verdict(details) + text
        case EventKind.EXIT:
            text = f"{text}  ({describe_exit(details)})"
        case EventKind.APPROVAL:
            text = f"{details['number']}: {text}  (agent-dev approve {details['number']})"
        case EventKind.END if details["next"]:
            text = f"{text}; next: {details['next']}"
        case _:
            pass
    return visible(text)


def sign_of(event: Event) -> str:
    """Return the sign of a change's kind."""
    return SIGNS[ChangeKind(str(event.details["kind"]))]


def describe_verdict(details: Mapping[str, object]) -> str:
    """Return the policy's decision on a command as a prefix; "" for a command that was simply allowed."""
    decision, answer = details.get("decision"), details.get("answer")
    if decision in (None, ALLOW):
        return ""
    if answer:
        return {"yes": "approved: ", "no": "denied by you: "}.get(str(answer), "denied, no answer: ")
    return {DENY: "denied: "}.get(str(decision), f"{decision}: ")


def describe_exit(details: Mapping[str, object]) -> str:
    """Return how a command ended."""
    spent = details.get("duration")
    after = f", {spent / 1000:.1f} s" if isinstance(spent, (int, float)) else ""
    return ("ended" if details.get("exit") is None else f"exit status {details['exit']}") + after
