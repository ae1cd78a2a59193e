"""A session as the merge screen and the prompts want it: read, counted, settled, merged by the commands."""

import json
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import RLock
from typing import Any

from agent_dev.cli.render import merge as merging
from agent_dev.cli.screen import commits_source as homecoming
from agent_dev.cli.screen.conflicts_source import Settling, attempt
from agent_dev.diff import partial as choices
from agent_dev.diff.hunks import blocks
from agent_dev.diff.merge3 import Merged, Side
from agent_dev.diff.partial import Choice
from agent_dev.errors import PARTLY, AgentDevError, AgentEnded
from agent_dev.merge import editor, merge
from agent_dev.merge import reconcile as fit
from agent_dev.merge import saved_selection as drafts
from agent_dev.merge.review import LARGEST_DIFF, Review, open_review
from agent_dev.merge_engine.merge_plan import Left
from agent_dev.overlay.changes import Change, ChangeSet, FileType, Key, Kind
from agent_dev.overlay.renames import renames
from agent_dev.overlay.selection import Selection
from agent_dev.session import store
from agent_dev.session.sessions import Here
from tui.model.tabs import Entry, Tab, Way
from tui.model.totals import Count
from tui.source import Content, Draft, Ended

Answers = Sequence[Side | bytes | None] | bytes
Tell = Callable[[int, int], object]

_MOST_COMMANDS = 5_000  # that are shown: the last ones
_MOST_RENAMES = 2_000  # files on either side that are read to find renames
_LARGEST_RENAME = 1 << 20  # bytes of such a file


class Reviewing:
    """A review behind the screen. What it says is read when it is asked for, and never twice what does not change."""

    is_running = False
    is_settling = False

    def __init__(self, review: Review, place: store.Store, *, with_trailers: bool = False) -> None:
        self._review, self._place, self._with_trailers = review, place, with_trailers
        record = review.record
        self.session = str(record.get("name") or review.session.id)
        self.root = str(record["root"])
        self.roots: tuple[str, ...] = tuple(record["roots"])
        self.command = tuple(map(str, record["command"]))
        self.tabs = _tabs(review)
        self._fits = dict(review.fits)  # as they were found: a conflict can be settled again another way
        self._conflicts = {change.key: change for change in review.changes.changes if change.conflict}
        self._seen: dict[Key, bytes] = {}
        self._one_at_a_time = RLock()  # the trees of a review remember where they are
        self._renamed: dict[Key, str] | None = None
        self.ended: Ended | None = None
        self._settling: Settling | None = None
        self._edited: dict[Key, bytes] = {}  # conflicts that were settled in an editor
        self.draft = self._draft()

    @property
    def changes(self) -> ChangeSet:
        """What the agent left."""
        return self._review.changes

    # Looking

    def content(self, key: Key) -> Content:
        """Return both sides of a change, and remember what was shown."""
        with self._one_at_a_time:
            found = self._review.content(key)
        if found[1] is not None:
            self._seen[key] = sha256(found[1]).digest()
        return found

    def mine(self, key: Key) -> bytes | None:
        """Return the user's own bytes."""
        change = self._review.changes.by_key()[key]
        if change.mine is None or change.mine.type is not FileType.FILE:
            return None
        with self._one_at_a_time:
            return self._review.reals[key.root].read(key.path, LARGEST_DIFF)

    def merged(self, key: Key) -> Merged | None:
        """Return the merge of lines of what both changed."""
        one = self._fits.get(key)
        return one.merged if one is not None else None

    def count(self, keys: Iterable[Key]) -> dict[Key, Count]:
        """Count blocks and lines; what has none counts nothing."""
        table = self._review.changes.by_key()
        return {key: self._counted(table[key]) for key in keys if key in table}

    def _counted(self, change: Change) -> Count:
        try:
            with self._one_at_a_time:
                one = self._review.measure(change)
        except (AgentDevError, OSError):
            return Count()  # the diff says why it cannot be read
        return Count(one.blocks, one.insertions, one.deletions) if one is not None else Count()

    @property
    def renamed(self) -> Mapping[Key, str]:
        """What is said of renamed files."""
        if self._renamed is None:
            self._renamed = self._find_renamed()
        return self._renamed

    def _find_renamed(self) -> dict[Key, str]:
        sides: dict[Kind, list[Change]] = {Kind.DELETED: [], Kind.ADDED: []}
        for change in self._review.changes.changes:
            if change.kind in sides and change.type is FileType.FILE and not change.ignored:
                sides[change.kind].append(change)
        gone, came = sides[Kind.DELETED], sides[Kind.ADDED]
        if not gone or not came or max(len(gone), len(came)) > _MOST_RENAMES:
            return {}
        said: dict[Key, str] = {}
        for one in renames(self._bytes(gone, 0), self._bytes(came, 1)):
            how = "" if one.alike >= 1 else f", {one.alike:.0%} the same"
            said[one.new] = f"renamed from {_shown(one.old)}{how}"
            said[one.old] = f"renamed to {_shown(one.new)}{how}"
        return said

    def _bytes(self, some: list[Change], side: int) -> dict[Key, bytes]:
        found = {}
        for change in some:
            entry = change.after or change.before
            if entry is not None and 0 < entry.size <= _LARGEST_RENAME:
                try:
                    with self._one_at_a_time:
                        data = self._review.content(change.key)[side]
                except (AgentDevError, OSError):
                    continue  # what cannot be read is no rename
                if data is not None:
                    found[change.key] = data
        return found

    def refreshed(self) -> ChangeSet:
        """Return the changes: they do not move any more."""
        return self._review.changes

    # Choosing

    def _draft(self) -> Draft:
        kept = drafts.load(self._review)
        for key, given in kept.answers.items():
            if isinstance(given, bytes) or None not in given:
                self.settle(key, given)
        parts = {key: self._part(key, part) for key, part in kept.selection.choices.items()}
        places = {key: given for key, given in kept.answers.items() if not isinstance(given, bytes)}
        return Draft(kept.selection, parts, kept.reviewed, kept.at, places)

    def _part(self, key: Key, part: Choice) -> Count:
        before, after = (side or b"" for side in self._review.content(key))
        found = blocks(before, after)
        touched = {choices.block_of(found, choices.Side.OLD, n) for n in part.old}
        touched |= {choices.block_of(found, choices.Side.NEW, n) for n in part.new}
        whole = [found[index] for index in part.blocks]
        came, went = sum(one.new_lines for one in whole), sum(one.old_lines for one in whole)
        return Count(len(whole) + len(touched), came + len(part.new), went + len(part.old))

    def save(self, draft: Draft) -> None:
        """Keep a choice for the next time."""
        given = draft.answers or {}
        drafts.save(self._review, drafts.Draft(draft.selection, draft.reviewed, draft.at, {**given, **self._edited}))

    def settle(self, key: Key, answers: Answers) -> Change | None:
        """Settle a conflict; None where that way means nothing."""
        change = self._conflicts.get(key)
        one = self._fits.get(key)
        if change is None or one is None:
            return None
        made = fit.resolved(change, one, answers) if isinstance(answers, bytes) else fit.settled(change, one, answers)
        if made is None or made.change is None:
            return None
        self._review.fits[key] = made
        if isinstance(answers, bytes):
            self._edited[key] = answers
        else:
            self._edited.pop(key, None)
        some = tuple(made.change if one.key == key else one for one in self._review.changes.changes)
        self._review.changes = replace(self._review.changes, changes=some)
        return made.change

    def edit(self, key: Key) -> bytes | None:
        """Let the user edit a conflict."""
        one = self._fits.get(key)
        if one is None or one.merged is None or one.merged.is_clean:
            return None
        return editor.edited(self._review, key, self._review.environ)

    # Merging

    def merge(self, selection: Selection, tell: Tell) -> Ended:
        """Merge what was chosen, but for what is not any more as it was shown."""
        with self._one_at_a_time:
            self.ended = self._merge(selection, tell)
        return self.ended

    def _merge(self, selection: Selection, tell: Tell) -> Ended:
        said: list[str] = []
        try:
            moved = self._moved(selection)
            chosen = Selection(selection.keys - moved.keys(), selection.choices)
            planned = merge.plan(self._review, chosen, chosen.keys)
            done = merge.carry_out(self._review, planned, self._place, said.append, tell=tell)
        except AgentDevError as error:
            return Ended((*said, error.message, *([f"→ {error.hint}"] if error.hint else [])), error.code or PARTLY)
        except OSError as error:
            return Ended((*said, f"{error.filename or self.root}: {error.strerror}"), PARTLY)
        stopped = tuple(Left(key, why) for key, why in moved.items())
        return Ended((*said, *merging.told(done, stopped, self._review)), PARTLY if done.conflicts or stopped else 0)

    def commits(self) -> tuple[Entry, ...]:
        """Return all that is known of the commits."""
        with self._one_at_a_time:
            return homecoming.told(self._review)

    def bring(self, ids: Sequence[str], way: Way, name: str) -> Ended:
        """Bring commits home."""
        self._settling = None
        with self._one_at_a_time:
            try:
                again = homecoming.bringer(self._review, self._place, ids, (way, name), with_trailers=self._with_trailers)
            except AgentDevError as error:
                return Ended((error.message, f"→ {error.hint}"), PARTLY, is_done=False)
            ended, done = attempt(again, {})
        if done is not None and done.met:
            about, folder = (self.session, self.root), self._review.session.folder
            self._settling = Settling(done, again, about, self._review.environ, folder)
        self.ended = ended if ended.is_done else self.ended
        return ended

    def settling(self) -> Settling | None:
        """Return the conflicts of the commits that were to come home last, as a screen of their own."""
        return self._settling

    def _moved(self, selection: Selection) -> dict[Key, str]:
        """Return the chosen changes that were shown with other bytes than the session holds now."""
        moved = {}
        for key, digest in self._seen.items():
            if key in selection:
                now = self._review.content(key)[1]
                if now is None or sha256(now).digest() != digest:
                    moved[key] = "it changed after it was shown"
        return moved


def _tabs(review: Review) -> dict[Tab, tuple[Entry, ...]]:
    """Return what the screen shows beside the changes, of what there is any."""
    found = {Tab.COMMITS: homecoming.listed(review), Tab.COMMANDS: _commands(review.session.folder)}
    return {tab: rows for tab, rows in found.items() if rows}


def _commands(folder: str) -> tuple[Entry, ...]:
    """Return the last commands that the agent started, as its log has them."""
    try:
        with open(f"{folder}/commands.jsonl", encoding="utf-8", errors="surrogateescape") as file:
            rows = [json.loads(line) for line in deque(file, _MOST_COMMANDS)]
    except (OSError, ValueError):
        return ()  # there is none, or it was cut in the middle of a line
    return tuple(_command(row) for row in _with_ends(rows) if row.get("argv"))


def _with_ends(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of commands, each with how it ended, where that was told in a row behind it."""
    begun: dict[object, dict[str, Any]] = {}
    for row in rows:
        if "decision" in row:
            begun[row.get("pid")] = row
        elif row.get("pid") in begun:
            begun[row["pid"]].update({name: row[name] for name in ("exit", "duration", "rolled_back") if name in row})
    return [row for row in rows if "decision" in row]


def _command(row: Mapping[str, Any]) -> Entry:
    decision = str(row.get("decision", ""))
    about = [
        f"{label}: {row[name]}" for name, label in (("cwd", "in"), ("decision", "decided"), ("rule", "by rule")) if row.get(name)
    ]
    if "duration" in row or "exit" in row:
        code = "ended" if row.get("exit") is None else f"ended with {row['exit']}"
        after = f" after {row['duration'] / 1000:.1f} s" if "duration" in row else ""
        about.append(code + after + (", rolled back" if row.get("rolled_back") else ""))
    return Entry(shlex.join(map(str, row["argv"])), tuple(about), is_risky=decision not in ("", "allow"))


def _shown(key: Key) -> str:
    return key.path.decode("utf-8", "surrogateescape")


class Watching(Reviewing):
    """A session whose agent still works: looked at again and again, and nothing of it can be chosen."""

    is_running = True

    def __init__(self, session: store.Session, where: Here) -> None:
        self._session, self._where = session, where
        super().__init__(open_review(session, where.environ), where.store)

    def close(self) -> None:
        """Let go of what was opened last."""
        self._review.close()

    def refreshed(self) -> ChangeSet:
        """Return the changes as they are now. Raises AgentEnded when the agent has ended meanwhile."""
        if not store.is_held(self._session):
            raise AgentEnded
        fresh = open_review(self._session, self._where.environ)
        with self._one_at_a_time:
            old, self._review = self._review, fresh
            self._fits = dict(fresh.fits)
            old.close()
        return fresh.changes

    def save(self, draft: Draft) -> None:
        """Keep nothing: nothing was chosen."""
