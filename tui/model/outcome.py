"""The outcome of a change to a path that you also changed: merged, one side as a whole, or a resolution per conflict."""

from agent_dev.diff.merge3 import ConflictSide, LineConflict, LineMerge, Resolutions
from agent_dev.overlay import labels
from agent_dev.overlay.changes import Change, Resolution
from agent_dev.overlay.labels import MergeOutcome, format_count


def outcome_of(change: Change) -> MergeOutcome:
    """Return the outcome of a combined change."""
    return labels.outcome_of(change, is_agents=change.resolution is Resolution.AGENT and not change.is_from_commit)


def has_left_out(merged: LineMerge | None, answers: Resolutions) -> bool:
    """Return whether a resolution leaves out some of the agent's edits; the arguments are those of `describe_outcome`."""
    return merged is not None and not merged.is_clean and merged.left_out(answers) > 0


def describe_outcome(change: Change, merged: LineMerge | None, answers: Resolutions) -> str:
    """Describe the outcome of a change; `merged` is the three-way merge of its lines, None if it is not a merge of lines.

    `answers` are the resolutions of its choices, empty if there was none.
    """
    if change.is_from_commit:
        return "conflict resolved: the import writes this result"
    if change.is_session_only:
        return "keeps yours: the agent's change is dropped from the session"
    if merged is None or merged.is_clean:
        if outcome_of(change) is MergeOutcome.REPLACED_YOURS:
            return "replaces yours with the agent's version (undo restores yours)"
        return "you changed it too: both changes are merged without conflict"
    if not answers or None in answers:
        return "conflict resolved in an editor: the result is what you saved"
    conflicts = [answer for one, answer in zip(merged.choices, answers, strict=False) if isinstance(one, LineConflict)]
    left = merged.left_out(answers)
    stays = f"; {format_count(left, 'edit')} of the agent's left out: {'it stays' if left == 1 else 'they stay'} in the session"
    return _of_lines(conflicts) + (stays if left else "")


def _of_lines(answers: Resolutions) -> str:
    noun = "conflict" if len(answers) == 1 else "conflicts"
    if all(one is ConflictSide.AGENT for one in answers):
        return f"{noun}: the agent's lines replace yours (undo restores yours); your other changes are kept"
    if all(one is ConflictSide.YOURS for one in answers):
        return f"{noun}: your lines are kept; the agent's other changes are applied"
    if all(one is ConflictSide.BOTH for one in answers):
        return f"{noun}: your lines, followed by the agent's"
    texts = {ConflictSide.YOURS: "yours", ConflictSide.AGENT: "the agent's", ConflictSide.BOTH: "both"}
    counts = {one: sum(answer is one for answer in answers) for one in ConflictSide}
    parts = (f"{count:,} {texts[one]}" for one, count in counts.items() if count)
    return f"{format_count(sum(counts.values()), 'conflict')}: {', '.join(parts)}"
