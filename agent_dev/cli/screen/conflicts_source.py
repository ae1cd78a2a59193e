"""Conflicts of commits as the merge screen wants them: the same three panes, and the commits come home when all are settled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from agent_dev.cli.render import commits as output
from agent_dev.commits import conflicts as clashes
from agent_dev.commits import saved_resolutions as kept_answers
from agent_dev.commits.bring import Brought
from agent_dev.commits.saved_resolutions import Given, Kept
from agent_dev.diff.merge3 import Merged
from agent_dev.errors import PARTLY, AgentDevError
from agent_dev.git.merge_tree_conflict import Answer, Answers, Clash
from agent_dev.merge import editor
from agent_dev.merge.merge import Notice
from agent_dev.overlay.changes import Change, ChangeSet, Key
from agent_dev.overlay.selection import Selection
from tui.model.tabs import Entry, Tab, Way
from tui.model.totals import Count
from tui.source import Answers as Answered
from tui.source import Content, Draft, Ended, Tell

Bring = Callable[[Answers, Notice], Brought]


class Settling:
    """Conflicts behind the screen, those of one commit at a time; `ended` is what came of it at last."""

    is_running = False
    is_settling = True
    tabs: Mapping[Tab, tuple[Entry, ...]] = {}
    renamed: Mapping[Key, str] = {}

    def __init__(self, stopped: Brought, bring: Bring, about: tuple[str, str], environ: Mapping[str, str], folder: str) -> None:
        """Take what came so far, what tries again with answers, the session's name with the root's path, and the environment.

        `folder`: where answers wait for the next time.
        """
        self.session, self.root = about
        self.roots: tuple[str, ...] = (self.root,)
        self.command: tuple[str, ...] = (stopped.subject,)
        self._bring, self._environ, self._folder = bring, environ, folder
        self._fits = {Key(0, one.clash.path): clashes.opened(one) for one in stopped.met}
        self._met = {Key(0, one.clash.path): one for one in stopped.met}
        self.changes = ChangeSet(tuple(one.change for one in self._fits.values() if one.change is not None))
        self._known: dict[Clash, Answer] = {}  # of commits before this one
        self._answers: dict[Key, Answer] = {}
        self._given: dict[Clash, Given] = {}  # as they were given: place by place
        self._others: frozenset[Clash] = frozenset()  # that were taken of commits before and after this one
        self.draft = self._kept(kept_answers.load(folder))
        self._next: Settling | None = None
        self.ended: Ended | None = None

    def _kept(self, kept: Kept) -> Draft:
        """Settle what was settled the last time, and return what else waits of it."""
        known = {key: kept.given[one.clash] for key, one in self._met.items() if one.clash in kept.given}
        half = {self._met[key].clash for key, given in known.items() if not isinstance(given, bytes) and None in given}
        self._given = {clash: given for clash, given in kept.given.items() if clash not in half}
        for key, given in known.items():
            if self._met[key].clash not in half:
                self._settle(key, given)
        self._others = kept.taken - {one.clash for one in self._met.values()}
        taken = frozenset(key for key in self._answers if self._met[key].clash in kept.taken)
        places = {key: given for key, given in known.items() if not isinstance(given, bytes)}
        return Draft(Selection(taken), at=Key(0, kept.at) if kept.at else None, answers=places)

    # Looking

    def content(self, key: Key) -> Content:
        """Return both sides of the commit."""
        sides = self._met[key].sides
        return sides.base, sides.agent

    def mine(self, key: Key) -> bytes | None:
        """Return what the branch holds."""
        return self._met[key].sides.mine

    def merged(self, key: Key) -> Merged | None:
        """Return the merge of lines."""
        return self._fits[key].merged

    def count(self, _keys: Iterable[Key]) -> dict[Key, Count]:
        """Count nothing: what a conflict brings is known when it is settled."""
        return {}

    def refreshed(self) -> ChangeSet:
        """Return the same."""
        return self.changes

    def commits(self) -> tuple[Entry, ...]:
        """Return none: these are conflicts of some that were chosen."""
        return ()

    # Settling

    def settle(self, key: Key, answers: Answered) -> Change | None:
        """Settle a conflict; None where that way means nothing."""
        given = answers if isinstance(answers, bytes) else tuple(answers)
        change = self._settle(key, given)
        if change is not None:
            self._given[self._met[key].clash] = given
        return change

    def _settle(self, key: Key, given: Given) -> Change | None:
        found = clashes.answered(self._met[key], self._fits[key], given)
        if found is None:
            return None
        self._answers[key] = found[1]
        self.changes = replace(self.changes, changes=tuple(found[0] if one.key == key else one for one in self.changes.changes))
        return found[0]

    def edit(self, key: Key) -> bytes | None:
        """Let the user edit a conflict."""
        merged = self._fits[key].merged
        return editor.settled(key.path, merged, self._environ) if merged is not None else None

    def save(self, draft: Draft) -> None:
        """Keep what was settled for the next time; it counts only where all sides are what they are now."""
        half = {self._met[key].clash: given for key, given in (draft.answers or {}).items() if key in self._met}
        taken = frozenset(self._met[key].clash for key in draft.selection.keys) | self._others
        at = draft.at.path if draft.at is not None else b""
        kept_answers.save(self._folder, Kept({**half, **self._given}, taken, at))

    # Bringing home

    def merge(self, selection: Selection, _tell: Tell) -> Ended:
        """Bring the commits home with what was settled; those of a later commit are the next to settle."""
        answers = self._known | {self._met[key].clash: one for key, one in self._answers.items() if key in selection}
        ended, done = attempt(self._bring, answers)
        if done is not None and done.met:
            self.save(Draft(selection))
            self._next = Settling(done, self._bring, (self.session, self.root), self._environ, self._folder)
            self._next._known = answers  # noqa: SLF001  (of its own kind)
        elif ended.is_done:
            kept_answers.save(self._folder, Kept())
        self.ended = ended if ended.is_done else None
        return ended

    def bring(self, _ids: Sequence[str], _way: Way, _name: str) -> Ended:
        """Bring nothing: no commit can be chosen here."""
        return Ended((), PARTLY, is_done=False)

    def settling(self) -> "Settling | None":
        """Return the conflicts of a later commit."""
        return self._next


def attempt(bring: Bring, answers: Answers) -> tuple[Ended, Brought | None]:
    """Bring commits home; return what to say of it, and what came, None where nothing could."""
    said: list[str] = []
    try:
        done = bring(answers, said.append)
    except AgentDevError as error:
        return Ended((*said, error.message, *([f"→ {error.hint}"] if error.hint else [])), PARTLY, is_done=False), None
    code = PARTLY if done.conflicts or done.why else 0
    return Ended((*said, *output.told(done)), code, is_done=bool(done.merge), conflicts=len(done.met)), done
