"""The subcommand `watch`, which shows a running session: a live view on a terminal, else one line per event."""

import os
import select
import sys
import time

from agent_dev.cli.ask_session import ask_session
from agent_dev.cli.console import write_stdout
from agent_dev.cli.parser import add_color_argument, add_session_argument, make_parser
from agent_dev.cli.render.colour import Palette, choose_palette
from agent_dev.cli.render.format import command_text
from agent_dev.cli.watch.activity import ActivityReader
from agent_dev.cli.watch.event_output import event_line, event_row, event_text
from agent_dev.cli.watch.events import Event, EventKind
from agent_dev.cli.watch.live_screen import LiveScreen
from agent_dev.cli.watch.live_view import LiveView, screen_lines
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, AgentDevError, UsageError
from agent_dev.session import sessions, store
from agent_dev.session.origin import typed_words
from agent_dev.session.sessions import CommandContext, ListedSession

INTERVAL = 1.0  # seconds between two updates


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `watch`."""
    about = "Show what a running session does: changes, commands, waiting approvals, checkpoints. It changes nothing."
    parser = make_parser("watch", about, "agent-dev watch")
    add_session_argument(parser, "the running one here")
    parser.add_argument("--json", action="store_true", help="print one JSON object per event, each on one line")
    add_color_argument(parser)
    args = parser.parse_args(argv)
    one = _find_running(context, args.session, can_ask=not args.json)
    palette, reader = choose_palette(context.environ, args.color), ActivityReader(one, context.environ)
    try:
        if args.json or not _can_draw(context):
            return _print_events(reader, palette, as_json=args.json)
        return _show(one, reader, palette)
    finally:
        reader.close()


def _can_draw(context: CommandContext) -> bool:
    return os.isatty(0) and os.isatty(1) and context.environ.get("TERM", "") not in ("", "dumb")


def _find_running(context: CommandContext, name: str, *, can_ask: bool) -> ListedSession:
    """Return the session to watch. Raises AgentDevError if it is not running, UsageError if there are several."""
    if name:
        one = sessions.find_session(context, name)
        if one.state != store.RUNNING:
            hint = f"agent-dev merge {one.name}" if one.state in sessions.OPEN else "agent-dev sessions --all"
            raise AgentDevError(message=f"session {one.name} is {one.state}, not running", hint=hint)
        return one
    found = sessions.sessions_of_repository(context)
    running = [one for one in found if one.state == store.RUNNING]
    if not running:
        waiting = [one.name for one in found if one.state in (store.WAITING, store.KILLED)]
        hint = f"agent-dev merge {waiting[-1]} reviews an ended session" if waiting else "agent-dev AGENT starts one"
        raise AgentDevError(message=f"no running session for {context.root}", hint=hint)
    if len(running) == 1:
        return running[0]
    hint = f"agent-dev watch {running[-1].name}"
    if not can_ask:
        raise UsageError(message=f"several sessions are running: {', '.join(one.name for one in running)}", hint=hint)
    return ask_session(running, ("running", "watch", "selected"), hint)


def _print_events(reader: ActivityReader, palette: Palette, *, as_json: bool) -> int:
    """Print events as lines until the session ends, or nothing reads them."""
    poll = select.poll()
    poll.register(1, 0)  # reports only a closed pipe
    while True:
        events = reader.read()
        write_stdout("".join(f"{event_row(event) if as_json else event_line(event, palette)}\n" for event in events))
        if _has_ended(events):
            return SUCCESS
        if not reader.is_behind and poll.poll(INTERVAL * 1000):
            raise BrokenPipeError


def _show(one: ListedSession, reader: ActivityReader, palette: Palette) -> int:
    """Show the live view until the user quits, or the session ends."""
    view = LiveView(one.name, command_text(typed_words(one.record)), one.record["started"])
    end: Event | None = None
    try:
        with LiveScreen() as screen:
            screen.draw(screen_lines(view, *screen.size, palette))
            look = 0.0
            while end is None:
                if time.monotonic() >= look or reader.is_behind:
                    end = _update(view, reader)
                    look = time.monotonic() + INTERVAL
                screen.draw(screen_lines(view, *screen.size, palette))
                if end is None and screen.wait(0 if reader.is_behind else max(0.0, look - time.monotonic())):
                    return SUCCESS
    except KeyboardInterrupt:
        return SUCCESS  # Ctrl-C quits like q
    sys.stdout.write(f"{event_text(end)}\n")
    return SUCCESS


def _update(view: LiveView, reader: ActivityReader) -> Event | None:
    """Add new events to the view; return the end event, if there is one."""
    events = reader.read()
    for event in events:
        view.add(event)
    view.change_count, view.waiting = reader.change_count, reader.waiting
    return next((event for event in events if event.kind is EventKind.END), None)


def _has_ended(events: list[Event]) -> bool:
    return any(event.kind is EventKind.END for event in events)
