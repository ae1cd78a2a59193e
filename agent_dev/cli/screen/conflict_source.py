"""The conflicts of commits as a source for the review screen; the commits are imported when all are resolved."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from agent_dev.cli import editor
from agent_dev.cli.render import commits as output
from agent_dev.commits import merge_conflicts, saved_resolutions
from agent_dev.commits.import_result import ImportResult
from agent_dev.commits.saved_resolutions import SavedResolutions
from agent_dev.diff.merge3 import LineMerge
from agent_dev.errors import FAILURE, AgentDevError
from agent_dev.fs.entry import Key
from agent_dev.git.merge_tree_conflict import ConflictResolution, ConflictResolutions, PathConflict
from agent_dev.merge.merge import Notify
from agent_dev.merge.resolution_codec import FileResolution
from agent_dev.overlay.changes import Change, ChangeSet, Risk
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import replace
from tui.model.tabs import ImportMode, Tab, TabEntry
from tui.model.totals import LineCount
from tui.source import ConflictResolution as Answered
from tui.source import ContentPair, Draft, OperationResult, ProgressCallback

ImportFunction = Callable[[ConflictResolutions, Notify], ImportResult]


class ConflictSource:
    """The conflicts of one commit at a time as a source for the screen; `result` is the final result."""

    is_running = False
    is_resolving = True
    tabs: Mapping[Tab, tuple[TabEntry, ...]] = {}
    unassessed: frozenset[Key] = frozenset()

    def __init__(
        self, stopped: ImportResult, bring: ImportFunction, about: tuple[str, str], environ: Mapping[str, str], folder: str
    ) -> None:
        """Take the import that stopped at conflicts; `bring` repeats it, `about` is the session's name and root.

        `folder` is where resolutions are saved for the next time.
        """
        self.session, self.root = about[0], stopped.conflict_root or about[1]
        self.roots: tuple[str, ...] = (self.root,)
        self.command: tuple[str, ...] = (stopped.subject,)
        self._bring, self._environ, self._folder = bring, environ, folder
        self._editor = editor.ConflictEditor()
        self._fits = {Key(0, one.conflict.path): merge_conflicts.make_change(one) for one in stopped.resolvable}
        self._conflicts = {Key(0, one.conflict.path): one for one in stopped.resolvable}
        self.changes = ChangeSet(tuple(one.change for one in self._fits.values() if one.change is not None))
        self._known: dict[PathConflict, ConflictResolution] = {}  # of earlier commits
        self._answers: dict[Key, ConflictResolution] = {}
        self._given: dict[PathConflict, FileResolution] = {}  # as given, region by region
        self._others: frozenset[PathConflict] = frozenset()  # selected in other commits
        self.draft = self._restore(saved_resolutions.load_resolutions(folder))
        self._next: ConflictSource | None = None
        self.result: OperationResult | None = None

    def _restore(self, saved: SavedResolutions) -> Draft:
        """Restore saved resolutions and return the draft of the others."""
        known = {
            key: given
            for key, one in self._conflicts.items()
            if (given := saved.resolutions.get(one.conflict)) is not None and self._fits_merge(key, given)
        }
        incomplete = {
            self._conflicts[key].conflict for key, given in known.items() if not isinstance(given, bytes) and None in given
        }
        outdated = {one.conflict for key, one in self._conflicts.items() if key not in known}
        self._given = {one: given for one, given in saved.resolutions.items() if one not in incomplete | outdated}
        for key, given in known.items():
            if self._conflicts[key].conflict not in incomplete:
                self._resolve(key, given)
        self._others = saved.selected - {one.conflict for one in self._conflicts.values()}
        selected = frozenset(key for key in self._answers if self._conflicts[key].conflict in saved.selected)
        partial = {key: given for key, given in known.items() if not isinstance(given, bytes)}
        return Draft(Selection(selected), cursor=Key(0, saved.current_path) if saved.current_path else None, resolutions=partial)

    def _fits_merge(self, key: Key, given: FileResolution) -> bool:
        """Return whether saved resolutions cover the choices of a merge."""
        merged = self._fits[key].merged
        return merged is None or isinstance(given, bytes) or len(given) == len(merged.choices)

    # Reading

    def read_content(self, key: Key) -> ContentPair:
        """Return the base and the agent's version."""
        sides = self._conflicts[key].sides
        return sides.base, sides.agent

    def yours_content(self, key: Key) -> bytes | None:
        """Return the version of the user's branch."""
        return self._conflicts[key].sides.yours

    def line_merge(self, key: Key) -> LineMerge | None:
        """Return the three-way merge of lines."""
        return self._fits[key].merged

    def count_lines(self, _keys: Iterable[Key]) -> dict[Key, LineCount]:
        """Return no counts: the result of a conflict is unknown until it is resolved."""
        return {}

    def find_commits(self) -> dict[Key, str]:
        """Return none: the conflicts are between commits."""
        return {}

    def count_deletions(self, _selection: Selection) -> int:
        """Return none: only commits are imported."""
        return 0

    def assess_risks(self, _keys: Iterable[Key]) -> dict[Key, tuple[Risk, ...]]:
        """Return no risks: they were confirmed when the commits were selected."""
        return {}

    def read_changes(self) -> ChangeSet:
        """Return the changes, which are final."""
        return self.changes

    def read_commits(self) -> tuple[TabEntry, ...]:
        """Return no commits: they were already selected."""
        return ()

    # Resolving

    def edited_text(self, key: Key) -> bytes | None:
        """Return the text that resolved a conflict in an editor."""
        given = self._given.get(self._conflicts[key].conflict)
        return given if isinstance(given, bytes) else None

    def resolve(self, key: Key, answers: Answered) -> Change | None:
        """Resolve a conflict; return None if the answer does not apply."""
        given = answers if isinstance(answers, bytes) else tuple(answers)
        change = self._resolve(key, given)
        if change is not None:
            self._given[self._conflicts[key].conflict] = given
            self._editor.drop(key)
        return change

    def _resolve(self, key: Key, given: FileResolution) -> Change | None:
        found = merge_conflicts.resolve_commit_conflict(self._conflicts[key], self._fits[key], given)
        if found is None:
            return None
        self._answers[key] = found[1]
        self.changes = replace(self.changes, changes=tuple(found[0] if one.key == key else one for one in self.changes.changes))
        return found[0]

    def edit_conflict(self, key: Key) -> bytes | None:
        """Let the user resolve a conflict in an editor."""
        merged = self._fits[key].merged
        if merged is None:
            return None
        return self._editor.edit(key, merged, self._environ, self.edited_text(key))

    def view_file(self, key: Key, line: int) -> None:
        """Show a copy of the agent's file in an editor."""
        editor.view_file(key.path, self.read_content(key)[1], line, self._environ)

    def save_draft(self, draft: Draft) -> None:
        """Save the resolutions for the next time; they are reused only if all sides are unchanged."""
        incomplete = {
            self._conflicts[key].conflict: given for key, given in (draft.resolutions or {}).items() if key in self._conflicts
        }
        selected = frozenset(self._conflicts[key].conflict for key in draft.selection.keys) | self._others
        at = draft.cursor.path if draft.cursor is not None else b""
        saved_resolutions.save_resolutions(self._folder, SavedResolutions({**incomplete, **self._given}, selected, at))

    # Importing

    def merge(self, selection: Selection, _on_progress: ProgressCallback) -> OperationResult:
        """Import the commits with the resolutions; conflicts of a later commit are resolved next."""
        answers = self._known | {self._conflicts[key].conflict: one for key, one in self._answers.items() if key in selection}
        ended, done = try_import(self._bring, answers)
        if done is not None and done.resolvable:
            self.save_draft(Draft(selection))
            self._next = ConflictSource(done, self._bring, (self.session, self.root), self._environ, self._folder)
            self._next._known = answers  # noqa: SLF001  (same class)
        elif ended.may_have_changed:
            saved_resolutions.save_resolutions(self._folder, SavedResolutions())
        self.result = ended if ended.may_have_changed else None
        return ended

    def import_commits(self, _ids: Sequence[str], _strategy: ImportMode, _name: str) -> OperationResult:
        """Import nothing: no commit can be selected here."""
        return OperationResult((), FAILURE, may_have_changed=False)

    def decline_commits(self, _ids: Sequence[str]) -> OperationResult:
        """Decline nothing: no commit can be selected here."""
        return OperationResult((), FAILURE, may_have_changed=False)

    def next_conflicts(self) -> "ConflictSource | None":
        """Return the conflicts of a later commit."""
        return self._next


def try_import(bring: ImportFunction, answers: ConflictResolutions) -> tuple[OperationResult, ImportResult | None]:
    """Import commits; return the messages for the user, and the import, None if it failed."""
    messages: list[str] = []
    try:
        done = bring(answers, messages.append)
    except AgentDevError as error:
        return OperationResult(
            (*messages, error.message, *([f"hint: {error.hint}"] if error.hint else [])), FAILURE, may_have_changed=False
        ), None
    code = FAILURE if done.conflicts or done.reason or done.not_updated or done.refused_lfs else 0
    return OperationResult(
        (*messages, *output.describe_import(done)), code, may_have_changed=bool(done.merge), conflicts=len(done.resolvable)
    ), done
