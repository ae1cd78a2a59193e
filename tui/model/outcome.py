"""What becomes of a change whose path the user changed too: both fit, one side stands for the other, or each has its places."""

from collections.abc import Mapping
from enum import StrEnum

from agent_dev.diff.merge3 import Merged, Side
from agent_dev.overlay.changes import Change, Key
from tui.effects import Answers
from tui.text.labels import number

Given = Mapping[Key, Answers]


class Outcome(StrEnum):
    """Whose bytes land, in a word for the list."""

    TOGETHER = "with yours"
    YOURS = "yours stays"
    AGENTS = "replaces yours"


def of(change: Change, answers: Answers) -> Outcome:
    """Return what became of a change of both; `answers` are those to its conflict, none where there was none."""
    if change.is_dropped:
        return Outcome.YOURS
    is_agents = bool(answers) and all(one is Side.AGENT for one in answers)
    return Outcome.AGENTS if is_agents and not change.is_apart else Outcome.TOGETHER


def sentence(change: Change, merged: Merged | None, answers: Answers) -> str:
    """Return what is said of a change of both; `merged` is the merge of its lines, where it is one of lines."""
    if change.is_apart:
        return "settled: this is what the commits bring home"
    if change.is_dropped:
        return "yours stays as it is: nothing of the agent's lands here, and the change leaves the session"
    if merged is None or merged.is_clean:
        if of(change, answers) is Outcome.AGENTS:
            return "yours is replaced by the agent's (undo brings it back)"
        return "you changed it too: both fit together, and what lands has both"
    return _of_lines(answers)


def _of_lines(answers: Answers) -> str:
    if not answers or None in answers:
        return "settled in an editor: what lands is what you saved"
    if all(one is Side.AGENT for one in answers):
        return "lines in conflict: yours are replaced by the agent's (undo brings them back); what else you changed stays"
    if all(one is Side.MINE for one in answers):
        return "lines in conflict: yours stay, nothing of the agent's lands there; what else the agent changed does"
    if all(one is Side.BOTH for one in answers):
        return "lines in conflict: yours land, and behind them the agent's"
    said = {Side.MINE: "yours stay", Side.AGENT: "the agent's replace yours", Side.BOTH: "both land"}
    counts = {one: sum(answer is one for answer in answers) for one in Side}
    places = (f"in {number(count, 'place')} {said[one]}" for one, count in counts.items() if count)
    return f"lines in conflict: {', '.join(places)}"
