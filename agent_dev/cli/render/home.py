"""What is kept from one session to the next, as text or JSON on stdout. What an agent wrote goes through `visible` first."""

import difflib
import json
from collections.abc import Iterator, Sequence

from agent_dev.cli.render.format import as_document, few, line, numbered, size
from agent_dev.fs.disk_usage import Cleaned
from agent_dev.home.autostart import Step
from agent_dev.home.manage import Changed, Fresh, Home
from agent_dev.run.config_report import Configured
from agent_dev.run.trust import NONE, Said
from agent_dev.sanitize import visible

_MOST_LINES = 200  # of one file's difference


def home(value: Home, *, as_json: bool) -> None:
    """Print what a home is and what of it runs by itself."""
    if as_json:
        rows = [{"path": path, "why": why} for path, why in value.lasting]
        as_document({"version": 1, "home": value.path, "files": value.files, "runs": rows})
        return
    line(f"{visible(value.path)}: {numbered(value.files, 'file')}")
    if value.lasting:
        line("runs by itself:")
        few([f"  {visible(path)}: {visible(why)}" for path, why in value.lasting], "  and {} more (--json lists them)")


def changed(value: Changed, *, as_json: bool) -> None:
    """Print what changed in a home."""
    if as_json:
        rows = [{"sign": step.sign, "path": step.path, "why": step.why or None} for step in value.steps]
        as_document({"version": 1, "home": value.path, "known": value.is_known, "changes": rows})
        return
    if not value.is_known:
        line(f"{visible(value.path)}: not known what it held before, so all of it is listed")
    elif not value.steps:
        line(f"{visible(value.path)}: nothing changed since before the last session")
    for step in (step for step in value.steps if step.why):
        line(f"{step.sign} {visible(step.path)}   ! {visible(step.why)}")
        for text in _lines(step):
            line(f"    {text}")
    few([f"{step.sign} {visible(step.path)}" for step in value.steps if not step.why], "and {} more (--json lists them)")


def _lines(step: Step) -> Iterator[str]:
    """Yield the difference of a text that runs by itself."""
    if step.after is None:
        return
    texts = ((step.before or "").splitlines(), step.after.splitlines())
    rows = [row for row in difflib.unified_diff(*texts, n=1, lineterm="") if not row.startswith(("---", "+++", "@@"))]
    yield from map(visible, rows[:_MOST_LINES])
    if len(rows) > _MOST_LINES:
        yield f"and {len(rows) - _MOST_LINES} more lines"


def fresh(value: Fresh, *, as_json: bool) -> None:
    """Print what became of a home that was reset."""
    if as_json:
        as_document({"version": 1, "home": value.path, "trash": value.trash or None, "kept": list(value.kept)})
        return
    if not value.trash:
        line(f"{visible(value.path)} is not there, so there is nothing to reset")
        return
    line(f"{visible(value.path)} is fresh; the old one lies in {visible(value.trash)}")
    if value.kept:
        line(f"kept: {visible(', '.join(value.kept))}")


def said(value: Said, *, as_json: bool) -> None:
    """Print a repository's own settings, what they give the agent and what they take away."""
    if as_json:
        lists = {"gives": list(value.gives), "takes": list(value.takes), "problems": list(value.problems)}
        as_document({"version": 1, "root": value.root, "state": value.state, "text": value.text, **lists})
        return
    if value.state == NONE:
        line(f"{visible(value.root)} has no settings of its own (.agent-dev.yaml)")
        return
    line(f"{visible(value.root)}/.agent-dev.yaml: {value.state}")
    for text in value.text.splitlines():
        line(f"    {visible(text)}")
    for word, rows in (("gives", value.gives), ("takes", value.takes), ("wrong", value.problems)):
        for row in rows:
            line(f"{word}: {visible(row)}")


def given(root: str) -> None:
    """Say that the word was kept."""
    line(f"trusted, exactly as it is now: {visible(root)}/.agent-dev.yaml")


def revoked(was_there: bool) -> None:  # noqa: FBT001  (the one thing to say)
    """Say that the word was taken back."""
    line("trusted no more" if was_there else "it was not trusted")


def cleaned(value: Cleaned, *, as_json: bool, is_dry: bool) -> None:
    """Print what went from the trash."""
    if as_json:
        gone, kept = ([{"name": one.name, "bytes": one.size} for one in some] for some in (value.gone, value.kept))
        as_document({"version": 1, "dry": is_dry, "gone": gone, "kept": kept})
        return
    for one in value.gone:
        line(f"{visible(one.name)}   {size(one.size)}")
    word = "would go" if is_dry else "gone"
    line(f"{len(value.gone)} {word}, {size(sum(one.size for one in value.gone))}; {len(value.kept)} kept")


def configured(values: Sequence[Configured], *, as_json: bool) -> None:
    """Print every value with its origin."""
    if as_json:
        rows = [{"key": one.key, "value": one.value, "origin": one.origin} for one in values]
        as_document({"version": 1, "values": rows})
        return
    for one in values:
        text = one.value if isinstance(one.value, str) else json.dumps(one.value)
        line(f"{one.key:<16} {visible(text)}   ({visible(one.origin)})")
