"""Print state kept between sessions as text or JSON. All text from an agent passes through `visible`."""

import difflib
import json
from collections.abc import Iterator, Sequence

from agent_dev.cli.render.format import print_json, print_limited, print_line, print_outcome
from agent_dev.home.autostart import HomeChange
from agent_dev.home.manage import HomeChanges, HomeSummary, ResetResult
from agent_dev.overlay.labels import format_count, format_size
from agent_dev.retention.clean_result import CleanedKind, CleanResult
from agent_dev.run.config_report import ConfiguredValue, is_default
from agent_dev.run.repository_trust import NONE, TrustStatus
from agent_dev.sanitize import visible

_MAX_LINES = 200  # of one file's diff


def print_home(value: HomeSummary, *, as_json: bool) -> None:
    """Print an agent home and its autostart files."""
    if as_json:
        rows = [{"path": path, "reason": why} for path, why in value.autostart]
        print_json({"version": 1, "home": value.path, "files": value.files, "autostart": rows})
        return
    print_line(f"{visible(value.path)}: {format_count(value.files, 'file')}")
    if value.autostart:
        print_line("runs automatically:")
        print_limited(
            [f"  {visible(path)}: {visible(why)}" for path, why in value.autostart], "  and {} more (--json lists them)"
        )


def print_changes(value: HomeChanges, *, as_json: bool) -> None:
    """Print the changes in a home."""
    if as_json:
        rows = [{"sign": step.sign, "path": step.path, "reason": step.reason or None} for step in value.changes]
        print_json({"version": 1, "home": value.path, "known": value.is_known, "changes": rows})
        return
    if not value.is_known:
        print_line(f"{visible(value.path)}: no index of the previous state; listing everything")
    elif not value.changes:
        print_line(f"{visible(value.path)}: nothing changed since the last session started")
    for step in (step for step in value.changes if step.reason):
        print_line(f"{step.sign} {visible(step.path)}   ! {visible(step.reason)}")
        for text in _lines(step):
            print_line(f"    {text}")
    print_limited(
        [f"{step.sign} {visible(step.path)}" for step in value.changes if not step.reason], "and {} more (--json lists them)"
    )


def _lines(step: HomeChange) -> Iterator[str]:
    """Yield the diff of an autostart file."""
    if step.after is None:
        return
    texts = ((step.before or "").splitlines(), step.after.splitlines())
    rows = [row for row in difflib.unified_diff(*texts, n=1, lineterm="") if not row.startswith(("---", "+++", "@@"))]
    yield from map(visible, rows[:_MAX_LINES])
    if len(rows) > _MAX_LINES:
        yield f"and {len(rows) - _MAX_LINES} more lines"


def print_reset(value: ResetResult, *, as_json: bool) -> None:
    """Print the result of resetting a home."""
    if as_json:
        print_json({"version": 1, "home": value.path, "trash": value.trash or None, "kept": list(value.kept_logins)})
        return
    if not value.trash:
        print_line(f"{visible(value.path)} does not exist; nothing to reset")
        return
    print_outcome(f"{visible(value.path)} was reset; the old home is {visible(value.trash)}")
    if value.kept_logins:
        print_outcome(f"kept: {visible(', '.join(value.kept_logins))}")


def print_trust_status(value: TrustStatus, *, as_json: bool) -> None:
    """Print a repository's settings, what they grant the agent and what they restrict."""
    if as_json:
        lists = {"grants": list(value.grants), "restricts": list(value.restrictions), "problems": list(value.problems)}
        print_json({"version": 1, "root": value.root, "state": value.state, "text": value.text, **lists})
        return
    if value.state == NONE:
        print_line(f"{visible(value.root)} has no .agent-dev.yaml")
        return
    print_line(f"{visible(value.root)}/.agent-dev.yaml: {value.state}")
    for text in value.text.splitlines():
        print_line(f"    {visible(text)}")
    for label, rows in (("grants", value.grants), ("restricts", value.restrictions), ("problem", value.problems)):
        for row in rows:
            print_line(f"{label}: {visible(row)}")


def print_trusted(root: str) -> None:
    """Confirm that the settings are trusted."""
    print_outcome(f"trusted in its current version: {visible(root)}/.agent-dev.yaml")


def print_revoked(was_there: bool) -> None:  # noqa: FBT001  (the only argument)
    """Confirm that the settings are no longer trusted."""
    print_outcome("no longer trusted" if was_there else "it was not trusted")


def print_cleaned(value: CleanResult, *, as_json: bool, is_dry: bool) -> None:
    """Print what was removed, and how much of each kind remains."""
    if as_json:
        removed, kept = ([{"name": one.name, "bytes": one.size} for one in some] for some in (value.removed, value.kept))
        packed = [{"session": one.id, "action": one.action, "bytes": one.size} for one in value.sessions]
        kinds = [
            {"kind": one.kind, "removed": one.removed, "bytes": one.freed, "kept": one.kept, "kept_bytes": one.size}
            for one in value.kinds
        ]
        lists = {"removed": removed, "kept": kept, "sessions": packed, "worktrees": value.work_trees, "kinds": kinds}
        print_json({"version": 1, "dry_run": is_dry, **lists})
        return
    done = print_line if is_dry else print_outcome
    for one in value.removed:
        done(f"{visible(one.name)}   {format_size(one.size)}")
    for session in value.sessions:
        done(f"merged session {session.id}   {'would be ' * is_dry}{session.action}, {format_size(session.size)}")
    for path in value.work_trees:
        done(f"work tree {visible(path)}   {'would be ' * is_dry}removed")
    for kind in value.kinds:
        done(_describe_kind(kind, is_dry=is_dry))


def _describe_kind(one: CleanedKind, *, is_dry: bool) -> str:
    """Return the line about one kind of state."""
    verb = "reduced or removed" if one.kind == "merged sessions" else "removed"
    freed = f"{one.removed:,} {'would be ' * is_dry}{verb}, {format_size(one.freed)}"
    return f"{one.kind + ':':<17} {freed}; {one.kept:,} kept, {format_size(one.size)}"


def print_config(values: Sequence[ConfiguredValue], *, as_json: bool, with_defaults: bool) -> None:
    """Print the values with their origins; `with_defaults`: also those that nobody set."""
    if as_json:
        rows = [{"key": one.key, "value": one.value, "origin": one.origin} for one in values]
        print_json({"version": 1, "values": rows})
        return
    shown = [one for one in values if with_defaults or not is_default(one.origin)]
    for one in shown:
        text = one.value if isinstance(one.value, str) else json.dumps(one.value)
        print_line(f"{one.key:<16} {visible(text)}   ({visible(one.origin)})")
    if len(shown) < len(values):
        print_line(f"{format_count(len(values) - len(shown), 'other value')} as shipped (--all shows them)")
