"""The questions about commits in plain lines: which come home, how, and what becomes of what is in their way."""

from tui.model.tabs import Entry, Way
from tui.plain import review as plain
from tui.plain.prompt import Enough, Questions, Talk
from tui.source import Ended, Source
from tui.text import commits
from tui.text import labels as words

_WAYS = {"y": Way.YOURS, "s": Way.ONE, "b": Way.BRANCH}
_HOW = (
    "y: onto your branch, with your files and your index; s: so, but as one commit, whose message names each of them; "
    "b: as a branch of their own"
)


def review(source: Source, talk: Talk) -> Ended | None:
    """Ask about the commits, and bring home what was chosen; return what came of it, None where nothing was brought."""
    return _Commits(source, talk).run()


class _Commits(Questions):
    def __init__(self, source: Source, talk: Talk) -> None:
        super().__init__(talk)
        self._source, self._stream = source, talk

    def run(self) -> Ended | None:
        """Ask, and bring."""
        rows = self._source.commits()
        every = tuple(row for row in rows if row.id)
        if not every:
            return None
        self.say(f"{words.number(len(every), 'commit')}, the newest first:")
        for row in rows:
            self.say(f"  {words.RISK if row.risky else ' '} {row.line}")
        try:
            chosen = self._confirmed(self._chosen(every))
            return self._bring(chosen) if chosen else None
        except Enough:
            self.say("no commit was brought home; they stay in the session")
            return None

    def _chosen(self, every: tuple[Entry, ...]) -> tuple[Entry, ...]:
        letter = self.answer("bring them home?", "aon", "a: all of them; o: one by one; n: none, they stay in the session")
        if letter != "o":
            return every if letter == "a" else ()
        wanted = set()
        for number, row in enumerate(reversed(every), 1):
            self.say("")
            self.say(f"{number} of {len(every)}: {row.line}")
            for line in row.about[1:]:
                self.say(f"  {line}")
            if self.answer("bring it home?", "yn", "y: bring it; n: leave it in the session") == "y":
                wanted.add(row.id)
        return tuple(row for row in every if row.id in wanted)

    def _confirmed(self, chosen: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Ask about each risky path; who says no leaves the commits that change it."""
        for key, one in commits.risky(chosen).items():
            with_it = [row for row in chosen if any(at.path == one.path for at in row.risky)]
            if not with_it:
                continue
            self.say(f"risky: {words.name(key, self._source.roots)}")
            for each in one.risks:
                self.say(f"  {each.why} ({each.rule}); look at: {words.look(each)}")
            for line in one.about:
                self.say(f"  {line}")
            if self.answer("bring it nevertheless?", "yn", "y: bring it; n: leave the commits that change it") == "n":
                chosen = tuple(row for row in chosen if row not in with_it)
        return chosen

    def _bring(self, chosen: tuple[Entry, ...]) -> Ended | None:
        letter = self.answer(f"how? ({words.number(len(chosen), 'commit')})", "ysbn", f"{_HOW}; n: not at all")
        if letter == "n":
            return None
        way, name = _WAYS[letter], ""
        while way is Way.BRANCH and not name:
            name = self.line("name of the new branch: ")
        ended = self._source.bring(tuple(row.id for row in chosen), way, name)
        if ended.is_done:
            return ended
        for line in ended.lines:
            self.say(line)
        if not ended.conflicts or self.answer("settle that now?", "yn", "y: path by path; n: nothing comes home") == "n":
            return None
        return self._settle()

    def _settle(self) -> Ended | None:
        """Let conflicts be settled, those of later commits too."""
        one, ended = self._source.settling(), None
        while one is not None and ended is None:
            self.say("")
            self.say(f"in the way of: {' '.join(one.command)}")
            plain.review(one, self._stream)
            ended, one = one.ended, one.settling()
        return ended
