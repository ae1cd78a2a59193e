"""`agent-dev home --import`: list the files of the user's agents that can be copied to the agent home, ask, and copy them."""

import argparse
import os
import sys
from collections.abc import Sequence

from agent_dev.cli import typeahead
from agent_dev.cli.console import notify
from agent_dev.cli.render import home_import as output
from agent_dev.config import validators
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.home.importing.copy_items import CopiedItems, copy_items
from agent_dev.home.importing.find_items import Importer
from agent_dev.home.importing.items import LOGIN, SAME, Item, LeftOut, Offer
from agent_dev.home.importing.source import CHANGED
from agent_dev.quick_dataclass import replace
from agent_dev.session.sessions import CommandContext

_HINT = "agent-dev home --import"
_QUIT, _DIFF = "q", "d"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `home --import`."""
    parser.add_argument("--update", action="store_true", help="with --import: only files that changed since their import")
    parser.add_argument(
        "--select",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="with --import: copy the files with these names or of these kinds",
    )
    parser.add_argument(
        "--all-safe",
        action="store_true",
        help="with --import: copy files that contain no secret, run nothing and replace nothing",
    )
    parser.add_argument("--yes", action="store_true", help="with --import: copy without asking")


def check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for options that cannot be combined."""
    names = [name for name in ("update", "select", "all_safe", "yes") if getattr(args, name)]
    if names and not args.importing:
        option = f"--{names[0].replace('_', '-')}"
        raise UsageError(message=f"{option} requires --import", hint=_command(args))
    if args.yes and not (args.select or args.all_safe):
        raise UsageError(message="--yes requires --select or --all-safe", hint=f"{_command(args)} --all-safe --yes")
    if args.json and (args.select or args.all_safe) and not args.yes:
        raise UsageError(message="--json cannot ask: --select and --all-safe require --yes", hint=f"{_command(args)} --json")


def _command(args: argparse.Namespace) -> str:
    return f"{_HINT} --update" if args.update else _HINT


def run_import(args: argparse.Namespace, context: CommandContext, options: RunOptions) -> int:
    """List the items; on a terminal, or with selecting options, copy those that the user confirms."""
    importer = Importer(context, options, tuple(args.agents))
    try:
        offer = importer.offer()
        if args.update:
            offer = _only_updates(offer, importer)
        is_terminal = os.isatty(0) and os.isatty(2)
        if not (args.select or args.all_safe) and (args.json or not is_terminal):
            output.print_offer(offer, is_update=args.update, as_json=args.json)
            if args.update and not args.json:
                output.print_differences(map(importer.differences, offer.items))
            return SUCCESS
        return _copy_selected(args, importer, offer)
    finally:
        importer.close()


def _only_updates(offer: Offer, importer: Importer) -> Offer:
    gone = tuple(LeftOut(name, "no longer in your home; the copy stays") for name in importer.gone(offer))
    return replace(offer, items=tuple(item for item in offer.items if item.has_update), left_out=gone)


def _copy_selected(args: argparse.Namespace, importer: Importer, offer: Offer) -> int:
    is_by_options = args.select or args.all_safe
    selected = _select_by_options(args, offer) if is_by_options else _ask_selection(importer, offer, is_update=args.update)
    if not selected:
        if args.json:
            output.print_copied(offer, CopiedItems((), ()))
        notify("nothing is selected; nothing was copied")
        return SUCCESS
    planned, missing = _plan(importer, selected)
    if not args.json:
        output.print_plan(planned)
    if planned and not args.yes and not _confirm(planned, f"{_command(args)} --all-safe --yes"):
        notify("nothing was copied")
        return FAILURE
    result = copy_items(importer, planned)
    result = replace(result, failed=(*missing, *result.failed))
    output.print_copied(offer, result) if args.json else output.print_result(planned, result)
    return FAILURE if result.failed else SUCCESS


def _plan(importer: Importer, selected: Sequence[Item]) -> tuple[list[Item], list[LeftOut]]:
    """Return the items as they are if only these are copied, and those that then cannot be copied."""
    again = importer.offer(tuple(item.name for item in selected))
    found = {(item.home, item.name): item for item in again.items}
    reasons = {one.path: one.reason for one in again.left_out}
    missing = [item.name for item in selected if (item.home, item.name) not in found]
    planned = [found[item.home, item.name] for item in selected if (item.home, item.name) in found]
    return planned, [LeftOut(name, reasons.get(name, CHANGED)) for name in missing]


def _select_by_options(args: argparse.Namespace, offer: Offer) -> list[Item]:
    """Return the items that the options select. Raises UsageError for a name that is not offered."""
    known = {item.name for item in offer.items} | {item.kind for item in offer.items}
    for name in args.select:
        if name not in known:
            reason = next((f": {one.reason}" for one in offer.left_out if one.path == name), "")
            similar = "" if reason else validators.did_you_mean(name, known)
            raise UsageError(message=f"{name} is not offered{reason}{similar}; nothing was copied", hint=_HINT)
    return [
        item
        for item in offer.items
        if item.name in args.select or item.kind in args.select or (args.all_safe and item.is_safe(is_update=args.update))
    ]


def _ask_selection(importer: Importer, offer: Offer, *, is_update: bool) -> list[Item]:
    """Let the user select items by number; return them, none if the user quits."""
    rows = [item for item in offer.items if item.state != SAME or is_update]
    selected = {number for number, item in enumerate(rows, 1) if item.is_safe(is_update=is_update)}
    if not rows:
        output.print_offer(offer, is_update=is_update, as_json=False)
        return []
    output.print_choice(offer, rows, selected, is_update=is_update)
    diff = f"{_DIFF} compares, " if any(map(importer.differences, rows)) else ""
    while True:
        answer = _ask(f"numbers select or deselect, {diff}enter copies {len(selected)}, {_QUIT} quits: ")
        words = [_QUIT] if answer is None else answer.lower().replace(",", " ").split()
        if words == [_DIFF]:
            output.print_differences(map(importer.differences, rows))
        elif not words or words == [_QUIT]:
            return [] if words else [item for number, item in enumerate(rows, 1) if number in selected]
        else:
            selected ^= _numbers(words, len(rows))
            output.print_choice(offer, rows, selected, is_update=is_update)


def _numbers(words: Sequence[str], count: int) -> set[int]:
    """Return the numbers from 1 to `count` that were typed; report anything else."""
    found = set()
    for word in words:
        if word.isascii() and word.isdigit() and len(word) < 6 and 1 <= int(word) <= count:
            found.add(int(word))
        else:
            notify(f"{word} is not a number from 1 to {count}")
    return found


def _confirm(items: Sequence[Item], hint: str) -> bool:
    """Ask for a confirmation on the terminal; no answer means no. Raises UsageError without a terminal."""
    if not (os.isatty(0) and os.isatty(2)):
        raise UsageError(message="cannot ask for confirmation: stdin is not a terminal", hint=hint)
    if any(item.kind == LOGIN for item in items):
        notify("a copied login can log out the one in your home when tokens are renewed")
    answer = _ask(f"{output.describe_plan(items)}? [y/N] ")
    return answer is not None and answer.strip().lower() in ("y", "yes")


def _ask(question: str) -> str | None:
    """Return the answer to a question; None at the end of the input."""
    typeahead.drop_typeahead()
    sys.stdout.flush()
    sys.stderr.write(f"agent-dev: {question}")
    sys.stderr.flush()
    return sys.stdin.readline() or None
