"""A session as a source for the review screen and the prompts: read, count, resolve, merge."""

import json
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING, Any

from agent_dev.cli import editor
from agent_dev.cli.render import merge as merging
from agent_dev.cli.screen import commits_reader, connections_reader
from agent_dev.cli.screen.conflict_source import ConflictSource, try_import
from agent_dev.diff import partial_selection as choices
from agent_dev.diff.hunks import find_hunks
from agent_dev.diff.merge3 import ConflictSide, LineMerge
from agent_dev.diff.partial_selection import LineSelection
from agent_dev.errors import FAILURE, AgentDevError, AgentExited
from agent_dev.fs.entry import FileType, Key
from agent_dev.merge import merge, reconcile, running_session
from agent_dev.merge import saved_selection as drafts
from agent_dev.merge.review import MAX_DIFF_SIZE, Review
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.overlay.changes import Change, ChangeSet, Risk
from agent_dev.overlay.labels import RISK_SIGN
from agent_dev.overlay.selection import Selection
from agent_dev.policy.command_risks import find_command_risks
from agent_dev.quick_dataclass import replace
from agent_dev.session import store
from agent_dev.session.origin import describe_origin, typed_words
from agent_dev.session.sessions import CommandContext
from tui.model.tabs import ImportMode, Tab, TabEntry
from tui.model.totals import LineCount
from tui.source import ContentPair, Draft, OperationResult

if TYPE_CHECKING:
    from agent_dev.merge.resolution_codec import FileResolution

Resolutions = Sequence[ConflictSide | bytes | None] | bytes
ProgressCallback = Callable[[int, int], object]

_MAX_COMMANDS = 5_000  # the last ones are shown
_COMMAND_DETAILS = (("cwd", "in"), ("decision", "decision"), ("rule", "rule"), ("answer", "your answer"))
_line_count = lru_cache(LineCount)  # most counts are small: one object for each saves memory


class ReviewSource:
    """A review as the source of the screen. Data is read on demand, and cached if it cannot change."""

    is_running = False
    is_resolving = False

    def __init__(
        self, review: Review, session_store: store.Store, *, with_trailers: bool = False, many_deletions: int = 25
    ) -> None:
        self._review, self._store, self._with_trailers = review, session_store, with_trailers
        self._many_deletions = many_deletions  # percent of the tree's files
        review.assess()
        review.assess(change.key for change in review.changes.changes if change.conflict)  # shown once resolved
        review.release_derived()
        self._shown = (review.changes, _shown_risks(review.folded))
        self._shown_keys = {change.key for change in review.changes.changes if change.is_assessed}  # their risks were shown
        record = review.record
        self.session = str(record.get("name") or review.session.id)
        self.root = str(record["root"])
        self.roots: tuple[str, ...] = tuple(record["roots"])
        origin = describe_origin(record)
        self.command = (*([f"[{origin}]"] if origin else ()), *typed_words(record))
        self.tabs = _tabs(review)
        self._fits = dict(review.reconciliations)  # as opened: a conflict can be resolved again, differently
        self._conflicts = {change.key: change for change in review.changes.changes if change.conflict}
        self._seen: dict[Key, bytes] = {}
        self._lock = RLock()  # the trees of a review are not thread-safe: they keep a position
        self.result: OperationResult | None = None
        self._conflict_source: ConflictSource | None = None
        self._edited: dict[Key, bytes] = {}  # conflicts resolved in an editor
        self._editor = editor.ConflictEditor()
        self.draft = self._draft()

    @property
    def changes(self) -> ChangeSet:
        """The agent's changes, with each renamed file as one."""
        if self._shown[0] is not self._review.changes:
            self._shown = (self._review.changes, _shown_risks(self._review.folded))
        return self._shown[1]

    # Reading

    def read_content(self, key: Key) -> ContentPair:
        """Return both sides of a change, and remember a digest of what was shown."""
        with self._lock:
            found = self._review.content(key)
        if found[1] is not None:
            self._seen[key] = sha256(found[1]).digest()
        return found

    def yours_content(self, key: Key) -> bytes | None:
        """Return the user's own version."""
        change = self._review.changes.by_key()[key]
        if change.yours is None or change.yours.type is not FileType.FILE:
            return None
        with self._lock:
            return self._review.real_trees[key.root].read(key.path, MAX_DIFF_SIZE)

    def line_merge(self, key: Key) -> LineMerge | None:
        """Return the three-way merge of a file that both changed."""
        one = self._fits.get(key)
        return one.merged if one is not None else None

    def count_lines(self, keys: Iterable[Key]) -> dict[Key, LineCount]:
        """Count the hunks and lines of changes."""
        table = self._review.folded.by_key()
        return {key: self._counted(table[key]) for key in keys if key in table}

    def _counted(self, change: Change) -> LineCount:
        try:
            with self._lock:
                one = self._review.measure(change)
        except (AgentDevError, OSError):
            return _line_count()  # the diff reports the error
        return _line_count(one.hunks, one.insertions, one.deletions) if one is not None else _line_count()

    # Risks

    @property
    def unassessed(self) -> frozenset[Key]:
        """The changes whose risks are unknown: files that git ignores, until they are selected."""
        return frozenset(change.key for change in self._review.folded.changes if not change.is_assessed)

    def assess_risks(self, keys: Iterable[Key]) -> dict[Key, tuple[Risk, ...]]:
        """Assess changes; from now on their risks count as shown."""
        wanted = frozenset(keys)
        every = self._with_old_paths(wanted)
        with self._lock:
            self._review.assess(every)
            table = self._review.folded.by_key()
        self._shown_keys |= every
        return {key: table[key].risks for key in wanted if key in table}

    def _with_old_paths(self, keys: frozenset[Key]) -> frozenset[Key]:
        """Return the keys and the old paths of renamed files."""
        renames = self._review.changes.renames
        return keys | {renames[key] for key in keys if key in renames}

    def count_deletions(self, selection: Selection) -> int:
        """Return how many files a selection deletes, if they are a large share of the tree, else 0."""
        with self._lock:
            planned = merge.plan_selection(self._review, selection, self._with_old_paths(selection.keys))
            return merge.excessive_deletions(self._review, planned, self._many_deletions)

    def _find_unseen_risks(self, selection: Selection) -> dict[Key, str]:
        """Return the selected changes with risks that the user has not seen; they must not be merged."""
        unseen = self._with_old_paths(selection.keys) - self._shown_keys
        self._review.assess(unseen)
        table = self._review.folded.by_key()
        new = (table[key] for key in selection.keys if key in table and self._with_old_paths(frozenset((key,))) & unseen)
        return {one.key: "risky: " + ", ".join(risk.rule for risk in one.risks) for one in new if one.risks}

    def read_changes(self) -> ChangeSet:
        """Return the changes, which are final."""
        return self.changes

    # Selecting

    def _draft(self) -> Draft:
        saved = drafts.load(self._review)
        resolutions = {key: given for key, given in saved.resolutions.items() if self._fits_merge(key, given)}
        for key, given in resolutions.items():
            if isinstance(given, bytes) or None not in given:
                self.resolve(key, given)
        parts = {key: self._part(key, part) for key, part in saved.selection.partial.items()}
        partial = {key: given for key, given in resolutions.items() if not isinstance(given, bytes)}
        renamed = frozenset(self._review.changes.renames.values())
        selection = replace(saved.selection, keys=saved.selection.keys - renamed)
        return Draft(selection, parts, saved.reviewed, saved.cursor, partial, saved.notes)

    def _fits_merge(self, key: Key, given: Resolutions) -> bool:
        """Return whether saved resolutions cover the choices of a merge."""
        merged = self.line_merge(key)
        return merged is None or isinstance(given, bytes) or len(given) == len(merged.choices)

    def _part(self, key: Key, part: LineSelection) -> LineCount:
        before, after = (side or b"" for side in self._review.content(key))
        found = find_hunks(before, after)
        touched = {choices.find_hunk_index(found, choices.DiffSide.OLD, n) for n in part.old_lines}
        touched |= {choices.find_hunk_index(found, choices.DiffSide.NEW, n) for n in part.new_lines}
        whole = [found[index] for index in part.hunks]
        added, removed = sum(one.new_lines for one in whole), sum(one.old_lines for one in whole)
        return LineCount(len(whole) + len(touched), added + len(part.new_lines), removed + len(part.old_lines))

    def save_draft(self, draft: Draft) -> None:
        """Save the selection for the next time."""
        resolutions: dict[Key, FileResolution] = {**(draft.resolutions or {}), **self._edited}
        saved = drafts.SavedSelection(draft.selection, draft.reviewed, draft.cursor, resolutions, draft.notes)
        drafts.save(self._review, saved)

    def edited_text(self, key: Key) -> bytes | None:
        """Return the text that resolved a conflict in an editor."""
        return self._edited.get(key)

    def resolve(self, key: Key, answers: Resolutions) -> Change | None:
        """Resolve a conflict; return None if the answer does not apply."""
        change = self._conflicts.get(key)
        one = self._fits.get(key)
        if change is None or one is None:
            return None
        resolved = (
            reconcile.resolve_conflict(change, one, answers)
            if isinstance(answers, bytes)
            else reconcile.resolve_regions(change, one, answers)
        )
        if resolved is None or resolved.change is None:
            return None
        self._review.reconciliations[key] = resolved
        self._editor.drop(key)
        if isinstance(answers, bytes):
            self._edited[key] = answers
        else:
            self._edited.pop(key, None)
        changes = tuple(resolved.change if one.key == key else one for one in self._review.changes.changes)
        self._review.changes = replace(self._review.changes, changes=changes)
        return resolved.change

    def edit_conflict(self, key: Key) -> bytes | None:
        """Let the user resolve a conflict in an editor."""
        one = self._fits.get(key)
        if one is None or one.merged is None or one.merged.is_clean:
            return None
        return self._editor.edit(key, one.merged, self._review.environ, self.edited_text(key))

    def view_file(self, key: Key, line: int) -> None:
        """Show a copy of the agent's file in an editor."""
        editor.view_file(key.path, self.read_content(key)[1], line, self._review.environ)

    # Merging

    def merge(self, selection: Selection, on_progress: ProgressCallback) -> OperationResult:
        """Apply the selection, except changes that differ from what was shown."""
        self._review.wait_until_free()
        with self._lock:
            self.result = replace(self._merge(selection, on_progress), has_rest=self._has_rest())
        return self.result

    def _has_rest(self) -> bool:
        """Return whether the session still holds changes or commits after a merge or import."""
        return store.read_record(self._review.session)["state"] != store.MERGED

    def _merge(self, selection: Selection, on_progress: ProgressCallback) -> OperationResult:
        messages: list[str] = []
        try:
            stale = self._find_stale(selection) | self._find_unseen_risks(selection)
            selected = Selection(selection.keys - stale.keys(), selection.partial)
            planned = merge.plan_selection(self._review, selected, self._with_old_paths(selected.keys))
            done = merge.apply_plan(self._review, planned, self._store, messages.append, report_progress=on_progress)
        except AgentDevError as error:
            return OperationResult(
                (*messages, error.message, *([f"hint: {error.hint}"] if error.hint else [])), error.code or FAILURE
            )
        except OSError as error:
            return OperationResult((*messages, f"{error.filename or self.root}: {error.strerror}"), FAILURE)
        held_back = tuple(SkippedChange(key, why) for key, why in stale.items())
        return OperationResult(
            (*messages, *merging.describe_merge(done, held_back, self._review)), FAILURE if done.conflicts or held_back else 0
        )

    def read_commits(self) -> tuple[TabEntry, ...]:
        """Return all details of the commits."""
        with self._lock:
            return commits_reader.describe_commits(self._review)

    def find_commits(self) -> dict[Key, str]:
        """Return the commit of each change, "" for uncommitted ones; nothing if there are no commits."""
        if Tab.COMMITS not in self.tabs or self.is_running:
            return {}
        from agent_dev.commits.change_commits import find_change_commits  # after the first paint

        with self._lock:
            return find_change_commits(self._review)

    def import_commits(self, ids: Sequence[str], strategy: ImportMode, name: str) -> OperationResult:
        """Import commits."""
        self._conflict_source = None
        self._review.wait_until_free()
        with self._lock:
            try:
                retry = commits_reader.make_importer(
                    self._review, self._store, ids, (strategy, name), with_trailers=self._with_trailers
                )
            except AgentDevError as error:
                return OperationResult((error.message, f"hint: {error.hint}"), FAILURE, may_have_changed=False)
            ended, done = try_import(retry, {})
        if done is not None and done.resolvable:
            name_and_root, folder = (self.session, self.root), self._review.session.folder
            self._conflict_source = ConflictSource(done, retry, name_and_root, self._review.environ, folder)
        return self._ended(ended)

    def decline_commits(self, ids: Sequence[str]) -> OperationResult:
        """Decline commits."""
        self._conflict_source = None
        self._review.wait_until_free()
        with self._lock:
            return self._ended(commits_reader.decline(self._review, self._store, ids))

    def _ended(self, ended: OperationResult) -> OperationResult:
        ended = replace(ended, has_rest=self._has_rest())
        self.result = ended if ended.may_have_changed else self.result
        return ended

    def next_conflicts(self) -> ConflictSource | None:
        """Return the conflicts of the last import as a source of their own."""
        return self._conflict_source

    def _find_stale(self, selection: Selection) -> dict[Key, str]:
        """Return the selected changes whose content in the session is no longer what was shown."""
        stale = {}
        for key, digest in self._seen.items():
            if key in selection:
                now = self._review.content(key)[1]
                if now is None or sha256(now).digest() != digest:
                    stale[key] = "it changed after it was shown"
        return stale


def _shown_risks(changes: ChangeSet) -> ChangeSet:
    """Return the changes with known risks; unassessed changes have none."""
    if all(change.is_assessed for change in changes.changes):
        return changes
    return replace(changes, changes=tuple(one if one.is_assessed else replace(one, risks=()) for one in changes.changes))


def _tabs(review: Review) -> dict[Tab, tuple[TabEntry, ...]]:
    """Return the tabs besides Changes that are not empty."""
    folder = review.session.folder
    found = {
        Tab.COMMITS: commits_reader.list_commits(review),
        Tab.COMMANDS: _commands(folder),
        Tab.NETWORK: connections_reader.list_connections(folder),
    }
    return {tab: rows for tab, rows in found.items() if rows}


def _commands(folder: str) -> tuple[TabEntry, ...]:
    """Return the last commands that the agent started, from its log."""
    try:
        with open(f"{folder}/commands.jsonl", encoding="utf-8", errors="surrogateescape") as file:
            rows = [json.loads(line) for line in deque(file, _MAX_COMMANDS)]
    except (OSError, ValueError):
        return ()  # missing, or truncated in the middle of a line
    return tuple(_command_entry(row) for row in _with_ends(rows) if row.get("argv"))


def _with_ends(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of commands, each merged with the later row about its end."""
    started: dict[object, dict[str, Any]] = {}
    for row in rows:
        if "decision" in row:
            started[row.get("pid")] = row
        elif row.get("pid") in started:
            started[row["pid"]].update({name: row[name] for name in ("exit", "duration", "rolled_back") if name in row})
    return [row for row in rows if "decision" in row]


def _command_entry(row: Mapping[str, Any]) -> TabEntry:
    decision = str(row.get("decision", ""))
    details = [f"{label}: {row[name]}" for name, label in _COMMAND_DETAILS if row.get(name)]
    if "duration" in row or "exit" in row:
        code = "exited" if row.get("exit") is None else f"exited with status {row['exit']}"
        after = f" after {row['duration'] / 1000:.1f} s" if "duration" in row else ""
        details.append(code + after + (", rolled back" if row.get("rolled_back") else ""))
    argv = tuple(map(str, row["argv"]))
    risks = find_command_risks(argv)
    details += [text for risk in risks for text in ("", f"{RISK_SIGN} {risk.why} ({risk.rule})", f"check: {risk.check}")]
    return TabEntry(shlex.join(argv), tuple(details), is_risky=bool(risks) or decision not in ("", "allow"))


class LiveSource(ReviewSource):
    """The session of a running agent, refreshed repeatedly; nothing can be selected."""

    is_running = True

    def __init__(self, session: store.Session, context: CommandContext) -> None:
        self._session, self._context = session, context
        super().__init__(running_session.open_running(session, context.environ), context.store)

    def close(self) -> None:
        """Close the last review."""
        self._review.close()

    def read_changes(self) -> ChangeSet:
        """Return the current changes. Raises AgentExited when the agent has ended."""
        if not store.is_locked(self._session):
            raise AgentExited
        fresh = running_session.open_running(self._session, self._context.environ)
        fresh.assess()
        with self._lock:
            old, self._review = self._review, fresh
            self._fits = dict(fresh.reconciliations)
            old.close()
        return self.changes

    def save_draft(self, draft: Draft) -> None:
        """Save nothing: nothing can be selected."""
