"""Print what can be imported into the agent home, and what was. Names and settings of the user pass through `visible`."""

import time
from collections.abc import Collection, Iterable, Sequence

from agent_dev.cli.render.format import format_table, print_json, print_limited, print_line, print_outcome, print_wrapped
from agent_dev.home.importing.copy_items import CopiedItems
from agent_dev.home.importing.items import DIFFERS, SAME, SECRET, Edit, Item, LeftOut, Offer
from agent_dev.overlay.labels import format_count, format_size
from agent_dev.sanitize import visible

_FEW = 5


def print_offer(offer: Offer, *, is_update: bool, as_json: bool) -> None:
    """Print all items without a question."""
    if as_json:
        print_json({"version": 1, **_offer_as_json(offer)})
        return
    rows = [item for item in offer.items if item.state != SAME or is_update]
    print_choice(offer, rows, None, is_update=is_update)
    if rows:
        print_line(f"to copy: agent-dev home --import{' --update' if is_update else ''} --select NAME… (or --all-safe)")


def print_choice(offer: Offer, rows: Sequence[Item], selected: Collection[int] | None, *, is_update: bool) -> None:
    """Print items by agent, with numbers and marks if they can be selected, and what is left out."""
    if not rows:
        what = "changed since its import" if is_update else "can be imported"
        print_line(f"{visible(offer.source)}: nothing {what}")
    table = [_row(number, item, selected) for number, item in enumerate(rows, 1)]
    lines = list(format_table(table)) if table else []
    header = ""
    for item, line in zip(rows, lines, strict=True):
        if header != (header := f"{visible(item.agent)}, to {visible(item.home)}:"):
            print_line(header)
        print_wrapped(line)
        for detail in _details(item, is_update=is_update):
            print_wrapped(f"        {detail}")
    same = sum(item.state == SAME for item in offer.items) if not is_update else 0
    if same:
        print_line(f"{format_count(same, 'item')} the same in the agent home")
    print_limited([_left_out(one) for one in offer.left_out], "and {} more left out (--json lists them)", print_wrapped)


def _row(number: int, item: Item, selected: Collection[int] | None) -> tuple[str, ...]:
    mark = "" if selected is None else f"{number:>3} [{'x' if number in selected else ' '}]"
    notes = [f"! {', '.join(item.flags)}"] if item.flags else []
    if item.is_changed_inside:
        notes.append("changed inside, too")
    elif item.state == DIFFERS:
        notes.append("changed since its import" if item.has_update else "differs inside")
    files = "" if item.keys or len(item.marks) == 1 else f"{len(item.marks)} files, "
    return (mark or " ", item.kind, visible(item.name), f"{files}{format_size(item.size)}", "; ".join(notes))


def _details(item: Item, *, is_update: bool) -> list[str]:
    rows = [_edit(edit) for edit in item.edits]
    if is_update and item.imported is not None:
        day = time.strftime("%Y-%m-%d", time.localtime(item.imported.time))
        updates = [f"{sign} {visible(path)}" for sign, path in item.updates]
        rows += [f"{row}   (imported {day})" if not index else row for index, row in enumerate(updates)]
    return [*rows[:_FEW], *([f"and {len(rows) - _FEW} more"] if len(rows) > _FEW else [])]


def _edit(edit: Edit) -> str:
    reason = ": not in the sandbox" if edit.action == "dropped" else ""
    return f"{edit.action} {visible(edit.where)}: {visible(edit.text)}{reason}"


def _left_out(one: LeftOut) -> str:
    return f"left out: {visible(one.path)}: {visible(one.reason)}"


def print_differences(found: Iterable[tuple[tuple[str, str, str], ...]]) -> None:
    """Print the differences between the agent home and what would replace it, each as name, old and new text."""
    import difflib  # only if there are any

    for name, old, new in (row for rows in found for row in rows):
        print_line(f"{visible(name)}: from the agent home's to yours:")
        rows = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm=""))
        print_limited([f"    {visible(row)}" for row in rows[2:]], "    and {} more lines")


def print_plan(items: Sequence[Item]) -> None:
    """Print the selected items that lose or replace something, before the question."""
    for item in items:
        for edit in item.edits:
            print_line(f"{visible(item.name)}: {_edit(edit)}")
        if item.state == DIFFERS:
            print_line(f"replaces in the agent home: {visible(item.name)}")


def describe_plan(items: Sequence[Item]) -> str:
    """Return the question about copying."""
    homes = dict.fromkeys(item.home for item in items)
    secrets = sum(SECRET in item.flags for item in items)
    where = visible(next(iter(homes))) if len(homes) == 1 else f"{len(homes)} agent homes"
    return f"copy {format_count(len(items), 'item')}{f', {secrets} with secrets,' if secrets else ''} to {where}"


def print_result(planned: Sequence[Item], result: CopiedItems) -> None:
    """Print what was copied, what was dropped from it, and what failed."""
    shown = {item.name: item.edits for item in planned}
    for item in result.copied:
        for edit in item.edits if item.edits != shown[item.name] else ():
            print_line(f"{visible(item.name)}: {_edit(edit)}")
    for one in result.failed:
        print_line(f"not copied: {visible(one.path)}: {visible(one.reason)}")
    print_outcome(f"copied {len(result.copied)} of {format_count(len(planned), 'item')}; agent-dev home --diff shows them")


def print_copied(offer: Offer, result: CopiedItems) -> None:
    """Print the items, and which of them were copied, as JSON."""
    copied = [{"name": item.name, "edits": _edits_as_json(item)} for item in result.copied]
    failed = [{"path": one.path, "reason": one.reason} for one in result.failed]
    print_json({"version": 1, **_offer_as_json(offer), "copied": copied, "failed": failed})


def _offer_as_json(offer: Offer) -> dict[str, object]:
    rows = [
        {
            "agent": item.agent,
            "home": item.home,
            "kind": item.kind,
            "name": item.name,
            "bytes": item.size,
            "files": 1 if item.keys else len(item.marks),
            "state": item.state,
            "flags": list(item.flags),
            "safe": item.is_safe(),
            "edits": _edits_as_json(item),
            "imported": item.imported.time if item.imported is not None else None,
            "changes": [{"sign": sign, "path": path} for sign, path in item.updates] if item.has_update else [],
            "changed_inside": item.is_changed_inside,
        }
        for item in offer.items
    ]
    left_out = [{"path": one.path, "reason": one.reason} for one in offer.left_out]
    return {"source": offer.source, "items": rows, "left_out": left_out}


def _edits_as_json(item: Item) -> list[dict[str, str]]:
    return [{"action": edit.action, "where": edit.where, "text": edit.text} for edit in item.edits]
