"""Compare a running session with the repository repeatedly, at little cost while nothing changes."""

import os
import time
from collections.abc import Sequence

from agent_dev.agent_git import refs
from agent_dev.cli.watch.events import Event, EventKind
from agent_dev.errors import AgentDevError
from agent_dev.merge import running_session
from agent_dev.overlay.changes import Change
from agent_dev.overlay.labels import display_path
from agent_dev.session.sessions import ListedSession

MAX_LISTED = 1000  # changes listed per look; the others are counted
MAX_TRACKED = 20_000  # changes whose state is remembered
_WAIT = 9  # times the duration of a look that pass until the next one: looks take at most a tenth of the time
_BITS = (1 << 64) - 1

_Place = tuple[int, bytes]
_State = tuple[str, int, str]  # the kind of a change, a hash of its entry, its path


class ChangeReader:
    """Finds new, changed and reverted changes. `count`: the number of changes at the last look; None before the first."""

    def __init__(self, one: ListedSession, environ: dict[str, str]) -> None:
        self._one, self._environ = one, environ
        self._known: dict[_Place, _State] = {}
        self._beyond = 0  # changes that are not tracked
        self._digest: int | None = None
        self._next = 0.0
        self.count: int | None = None

    def read(self, *, is_last: bool = False) -> list[Event]:
        """Return the events since the last look; none if it is too early for one, or the upper layers are unchanged.

        `is_last`: the session has ended; changes that are gone may have been merged, and are not reported.
        """
        start = time.monotonic()
        if start < self._next and not is_last:
            return []
        digest = self._upper_digest()
        events = [] if digest == self._digest else self._compare(digest, is_last=is_last)
        now = time.monotonic()
        self._next = now + (now - start) * _WAIT
        return events

    def _compare(self, digest: int, *, is_last: bool) -> list[Event]:
        try:
            with running_session.open_during(self._one.session, self._environ) as review:
                changes, roots = review.folded.changes, review.record["roots"]
        except (OSError, AgentDevError):
            return []  # the agent changes it right now, or it was just removed
        self._digest = digest
        now = time.time_ns()
        found = {_place(change): _state(change, roots) for change in changes[:MAX_TRACKED]}
        beyond = len(changes) - len(found)
        changed = [change for change in changes[:MAX_TRACKED] if self._known.get(_place(change)) != found[_place(change)]]
        events = [_change_event(change, found[_place(change)][2], roots, now) for change in changed]
        if not is_last:
            present = {_place(change) for change in changes} if beyond else found.keys()
            gone = [state for place, state in self._known.items() if place not in present]
            events += [Event(EventKind.REVERTED, now, state[2], {"kind": state[0], "path": state[2]}) for state in gone]
        unlisted = beyond if beyond != self._beyond else 0
        self._known, self._beyond, self.count = found, beyond, len(changes)
        return _limit(events, unlisted, now)

    def _upper_digest(self) -> int:
        """Return a digest of the upper layers: of each entry's name, inode, size, mode and times, in any order."""
        total = 0
        for number in range(len(self._one.record["roots"])):
            upper = self._one.session.root(number, "").upper
            private = f"{upper}/.git" if refs.has_private_git_dir(self._one.record, number) else ""
            folders = [upper]
            while folders:
                try:
                    with os.scandir(folders.pop()) as entries:
                        for entry in entries:
                            if entry.path == private:
                                continue
                            seen = entry.stat(follow_symlinks=False)
                            total += hash((entry.path, seen.st_ino, seen.st_size, seen.st_mode, seen.st_ctime_ns))
                            if entry.is_dir(follow_symlinks=False):
                                folders.append(entry.path)
                except OSError:
                    continue  # removed, or unreadable
        return total & _BITS


def _place(change: Change) -> _Place:
    return change.key.root, change.key.path


def _state(change: Change, roots: Sequence[str]) -> _State:
    return change.kind, hash(change.after), display_path(change.key, roots)


def _change_event(change: Change, path: str, roots: Sequence[str], now: int) -> Event:
    when = min(now, change.after.ctime) if change.after and change.after.ctime else now
    origin = display_path(change.renamed_from, roots) if change.renamed_from else None
    return Event(EventKind.CHANGE, when, path, {"kind": str(change.kind), "path": path, "from": origin})


def _limit(events: list[Event], unlisted: int, now: int) -> list[Event]:
    """Return the latest events in order, and how many others there are."""
    events.sort(key=lambda event: event.time)
    hidden = max(0, len(events) - MAX_LISTED) + unlisted
    shown = events[-MAX_LISTED:]
    return [Event(EventKind.MORE, now, f"{hidden} more changes", {"changes": hidden}), *shown] if hidden else shown
