"""The merge screen, the questions in plain lines, or what to type: whatever the terminal carries and the flags say."""

import os
import sys

from agent_dev.cli.main import say
from agent_dev.cli.screen import subprocess_screen as apart
from agent_dev.errors import DONE, PARTLY, AgentDevError, UsageError
from agent_dev.merge.retention import expire as retention
from agent_dev.merge.review import Review, open_review
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here, Listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.cli.screen.conflicts_source import Bring, Settling
    from agent_dev.cli.screen.review_source import Reviewing
    from agent_dev.commits.bring import Brought
    from tui.theme import Looks


def is_possible(environ: dict[str, str]) -> bool:
    """Whether there is a terminal that can carry the merge screen."""
    if not (os.isatty(0) and os.isatty(2)) or environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    from tui.terminal.terminal_setup import is_capable

    return is_capable(environ, sys.stdin, sys.__stderr__)


def show(review: Review, where: Here, *, is_plain: bool = False) -> int:
    """Let the user choose and merge; without a capable terminal say what to type."""
    if not (review.changes.changes or review.changes.problems or _has_commits(review, where, is_plain=is_plain)):
        say("there is nothing to merge")
        return DONE
    if is_plain:
        return _ask(review, where)
    if not is_possible(where.environ):
        from agent_dev.cli.render import changes as looking

        looking.summary(review, len(review.changes.changes), 0)
        say("no terminal for the merge screen:  agent-dev merge --all  |  merge --take PATH  |  merge --plain")
        return PARTLY
    # The screen is not needed by words that only print.
    from agent_dev.cli.screen.review_source import Reviewing
    from tui.app import review as choose

    looks = _looks(where)

    def run() -> int:
        source = Reviewing(review, where.store, with_trailers=where.profile.commit_trailers)
        return _told(source, choose(source, looks))

    code = apart.run(run, say)
    review.record = store.read(review.session)  # what was merged there is written down
    return code


def _has_commits(review: Review, where: Here, *, is_plain: bool) -> bool:
    """Whether there are commits, where no file differs, and something to show them on."""
    from agent_dev.cli.screen import commits_source as homecoming

    return (is_plain or is_possible(where.environ)) and bool(homecoming.listed(review))


def settle(review: Review, where: Here, stopped: "Brought", again: "Bring") -> int:
    """Let the user settle conflicts of commits, that were met when they were to come home; then they do."""
    from agent_dev.cli.screen.conflicts_source import Settling
    from tui.app import review as choose

    looks = _looks(where)
    about = (str(review.record["name"] or review.session.id), str(review.record["root"]))

    def run() -> int:
        source = Settling(stopped, again, about, where.environ, review.session.folder)
        return _told(source, choose(source, looks) or PARTLY)  # left without settling, nothing came

    code = apart.run(run, say)
    review.record = store.read(review.session)
    return code


def _told(source: "Reviewing | Settling", code: int) -> int:
    """Say what came of it at last, and return the exit code."""
    last: Reviewing | Settling | None = source
    ended = None
    while last is not None:
        ended, last = last.ended or ended, last.settling()
    for line in ended.lines if ended is not None else ("nothing was merged",):
        say(line)
    return ended.code if ended is not None else code


def _looks(where: Here) -> "Looks":
    """Return the user's keys and colours. Raises UsageError for a key that does nothing."""
    from tui.keys.bindings import REVIEW
    from tui.theme import Looks

    unknown = [name for name, _ in where.profile.keys if name not in REVIEW]
    if unknown:
        hint = f"what keys do is called {', '.join(REVIEW)}"
        raise UsageError(message=f"config.yaml: keys: there is no {unknown[0]}", hint=hint)
    return Looks(where.profile.theme, dict(where.profile.keys))


def _ask(review: Review, where: Here) -> int:
    """Ask about the commits, then about the files that are left."""
    from tui.plain import commits as plain_commits

    ended = plain_commits.review(_source(review, where), _Lines())
    if ended is None:
        return _ask_files(review, where) if review.changes.changes or review.changes.problems else DONE
    for line in ended.lines:
        say(line)
    review.record = store.read(review.session)
    if review.record["state"] not in (store.WAITING, store.KILLED):
        return ended.code
    left = open_review(review.session, where.environ)  # what came with the commits is no change any more
    try:
        return max(ended.code, _ask_files(left, where)) if left.changes.changes else ended.code
    finally:
        left.close()


def _ask_files(review: Review, where: Here) -> int:
    from tui.plain import review as plain

    source = _source(review, where)
    code = plain.review(source, _Lines())
    for line in source.ended.lines if source.ended is not None else ():
        say(line)
    return source.ended.code if source.ended is not None else code


def _source(review: Review, where: Here) -> "Reviewing":
    from agent_dev.cli.screen.review_source import Reviewing

    return Reviewing(review, where.store, with_trailers=where.profile.commit_trailers)


class _Lines:
    """Questions on stdout, answers from stdin."""

    def say(self, line: str) -> None:
        """Print a line."""
        sys.stdout.write(f"{line}\n")

    def ask(self, question: str) -> str | None:
        """Return an answer; None at the end of the input."""
        sys.stdout.write(visible(question))
        sys.stdout.flush()
        return sys.stdin.readline() or None


def watch(one: Listed, where: Here) -> int:
    """Show what a running session has changed so far; nothing can be chosen."""
    if not is_possible(where.environ):
        raise AgentDevError(
            message=f"session {one.name} is still running", hint=f"agent-dev stop {one.name}, or wait for its end"
        )
    from agent_dev.cli.screen.review_source import Watching
    from tui.app import review as choose

    source = Watching(one.session, where)
    try:
        return choose(source, _looks(where))
    finally:
        source.close()


def every(where: Here, *, is_plain: bool) -> int:
    """Show the sessions of this repository that wait, one after the other, the oldest first."""
    waiting = [one for one in sessions.of_root(where) if one.state in (store.WAITING, store.KILLED)]
    if not waiting:
        say("no session waits here")
        return DONE
    codes = []
    for number, one in enumerate(waiting, 1):
        say(f"session {one.name} ({number} of {len(waiting)})")
        held = sessions.hold(one)
        try:
            review = open_review(held.session, where.environ)
            try:
                codes.append(show(review, where, is_plain=is_plain))
            finally:
                review.close()
        finally:
            store.let_go(held.session)
    retention.thin(where, say)
    return max(codes)
