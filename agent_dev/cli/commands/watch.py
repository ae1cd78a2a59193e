"""The subcommand `watch`: a live view of a running session."""

import json
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agent_dev.cli.activity import INTERVAL, ActivityReader, EventKind
from agent_dev.cli.commands.parser import Verb, add_color_argument, add_session_argument, make_parser
from agent_dev.cli.console import notify
from agent_dev.cli.render.colour import Palette, choose_palette
from agent_dev.cli.render.watch import LiveView, event_line, event_row, joined, screen_lines
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, AgentDevError
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession

_QUIT = (b"q", b"\x03", b"\x1b", b"")
_OPEN, _CLOSE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"


def _watch(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "Show what a running session does: changes, commands, waiting approvals, checkpoints. It changes nothing."
    parser = make_parser("watch", about, "agent-dev watch")
    add_session_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_color_argument(parser)
    args = parser.parse_args(argv)
    one = sessions.find_session(context, args.session, (store.RUNNING,))
    if one.state != store.RUNNING:
        raise AgentDevError(message=f"session {one.name} is not running", hint=f"agent-dev merge {one.name}")
    reader, palette = ActivityReader(one, context.environ), choose_palette(context.environ, args.color)
    is_screen = not args.json and os.isatty(0) and os.isatty(1) and context.environ.get("TERM", "dumb") not in ("", "dumb")
    has_ended = _draw(one, reader, palette) if is_screen else _print(reader, palette, as_json=args.json)
    if has_ended:
        notify(f"session {visible(one.name)} has ended; agent-dev merge {visible(one.name)}")
    return SUCCESS


def _print(reader: ActivityReader, palette: Palette, *, as_json: bool) -> bool:
    """Print events as lines until the session ends."""
    while True:
        for event in reader.read():
            line = json.dumps(event_row(event)) if as_json else event_line(event, palette)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
            if event.kind is EventKind.END:
                return True
        select.select([], [], [], INTERVAL)


def _draw(one: ListedSession, reader: ActivityReader, palette: Palette) -> bool:
    """Draw the live view until a key ends it, or the session ends; return whether it was the session."""
    view = LiveView(one.name, " ".join(map(str, one.record["command"])))
    with _screen() as wake:
        while True:
            for event in reader.read():
                view.add(event)
                if event.kind is EventKind.END:
                    return True
            view.count, view.waiting = reader.count, reader.waiting
            columns, rows = shutil.get_terminal_size()
            os.write(1, joined(screen_lines(view, columns, rows, palette)).encode("utf-8", "replace"))
            ready = select.select([0, wake], [], [], INTERVAL)[0]
            if wake in ready:
                os.read(wake, 512)  # the terminal was resized
            if 0 in ready and os.read(0, 64)[:1] in _QUIT:
                return False


@contextmanager
def _screen() -> Iterator[int]:
    """Show a screen of its own, with keys unbuffered; yield a descriptor that is readable after a resize or a fatal signal."""
    before = termios.tcgetattr(0)
    wake, writer = os.pipe()
    os.set_blocking(writer, False)
    old = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    handlers = {signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: None)}
    handlers |= {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(0)
        os.write(1, _OPEN.encode())
        yield wake
    finally:
        with suppress(OSError, termios.error):  # the terminal is gone
            os.write(1, _CLOSE.encode())
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.set_wakeup_fd(old)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(wake)
        os.close(writer)


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)


VERBS: dict[str, Verb] = {"watch": _watch}
