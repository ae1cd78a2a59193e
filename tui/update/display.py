"""Update the display options, the number of context lines, and the filter of the list."""

from collections.abc import Iterable
from itertools import chain

from agent_dev.overlay.labels import format_count
from agent_dev.quick_dataclass import replace
from tui.events import ContextChanged, DisplayEvent, DisplayOption, Pane
from tui.model import change_list
from tui.model.change_list import ChangeRow, ListFilter
from tui.model.document import WHOLE_FILE
from tui.model.tabs import Tab
from tui.state import DEFAULT_CONTEXT, DisplayOptions, State, Transition, with_listing
from tui.update import cursor

_MESSAGES = {
    DisplayOption.SPLIT: ("side-by-side diff", "unified diff"),
    DisplayOption.WHITESPACE: ("whitespace changes hidden", "whitespace changes shown"),
    DisplayOption.WRAP: ("long lines wrapped", "long lines cut (shift+→: scroll)"),
    DisplayOption.NUMBERS: ("line numbers", "no line numbers"),
    DisplayOption.WHOLE_FILE: ("whole file", "hunks only"),
    DisplayOption.TREE: ("tree", "flat list of directories"),
    DisplayOption.UNREVIEWED: ("only changes not reviewed", "all changes"),
    DisplayOption.LINES: ("space selects lines", "space selects hunks"),
    DisplayOption.BASE: ("base shown", "base hidden"),
    DisplayOption.ZOOM: ("diff in full width (+: list and diff)", "list and diff"),
}


def update_display(state: State, event: DisplayEvent) -> Transition:
    """Handle an event that changes the display options."""
    if isinstance(event, ContextChanged):
        context = DEFAULT_CONTEXT if state.display_options.is_whole_file else max(0, state.display_options.context + event.by)
        display_options = replace(state.display_options, context=context)
        return cursor.reload_current(
            replace(state, display_options=display_options, message=f"{format_count(context, 'line')} of context")
        )
    if event.option is DisplayOption.RANGE:
        return _toggle_range(state), ()
    display_options, is_on = _toggle(state.display_options, event.option)
    new = replace(state, display_options=display_options, message=_MESSAGES[event.option][not is_on])
    if event.option is DisplayOption.ZOOM:
        new = cursor.focus_pane(new, Pane.DIFF) if is_on else new
    if event.option in (DisplayOption.TREE, DisplayOption.UNREVIEWED):
        return cursor.load_current(rebuild_list(new))
    return (new, ()) if event.option in (DisplayOption.NUMBERS, DisplayOption.LINES) else cursor.reload_current(new)


def _toggle(display_options: DisplayOptions, option: DisplayOption) -> tuple[DisplayOptions, bool]:
    if option is DisplayOption.WHOLE_FILE:
        return replace(
            display_options, context=DEFAULT_CONTEXT if display_options.is_whole_file else WHOLE_FILE
        ), not display_options.is_whole_file
    name = {
        DisplayOption.SPLIT: "is_split",
        DisplayOption.WHITESPACE: "hides_whitespace",
        DisplayOption.WRAP: "is_wrapped",
        DisplayOption.NUMBERS: "shows_line_numbers",
        DisplayOption.TREE: "is_tree",
        DisplayOption.UNREVIEWED: "hides_reviewed",
        DisplayOption.LINES: "selects_lines",
        DisplayOption.BASE: "shows_base",
        DisplayOption.ZOOM: "is_zoomed",
    }[option]
    is_on = not getattr(display_options, name)
    return replace(display_options, **{name: is_on}), is_on


def _toggle_range(state: State) -> State:
    is_list = state.pane is Pane.LIST
    if is_list and state.tab is not Tab.CHANGES:
        return replace(state, message="ranges are marked in the list of changes and in the diff")
    old, at = (state.list_anchor, state.cursor) if is_list else (state.diff.anchor, state.diff.cursor)
    anchor = -1 if old >= 0 else at
    message = "" if anchor < 0 else "move to extend the range; space: select, esc: cancel"
    if is_list:
        return replace(state, list_anchor=anchor, message=message)
    return replace(state, diff=replace(state.diff, anchor=anchor), message=message)


def with_filter(state: State, text: str) -> State:
    """List only changes whose path contains a text; if the change under the cursor is hidden, go to the first one."""
    new = replace(state, listing=replace(state.listing, filter=replace(state.listing.filter, text=text)))
    return _rebuild(new, range(0))


def rebuild_list(state: State) -> State:
    """Rebuild the list with the current options and filter; closed groups stay closed.

    If the change under the cursor is hidden, go to the next one that is still listed, or else to the one above.
    """
    return _rebuild(state, chain(range(state.cursor + 1, len(state.listing.rows)), range(state.cursor - 1, -1, -1)))


def _rebuild(state: State, nearest: Iterable[int]) -> State:
    hidden = state.reviewed if state.display_options.hides_reviewed else frozenset()
    list_filter = ListFilter(state.display_options.is_tree, state.listing.filter.text, hidden)
    closed = frozenset(change_list.group_id(state.listing.groups[index]) for index in state.listing.closed)
    new = with_listing(state, change_list.build_listing(state.changes, list_filter, closed if state.listing.groups else None))
    if new.tab is not Tab.CHANGES or new.change is not None:
        return new
    listed = {row.key: index for index, row in enumerate(new.listing.rows) if isinstance(row, ChangeRow)}
    neighbours = (row.key for row in map(state.listing.rows.__getitem__, nearest) if isinstance(row, ChangeRow))
    first = next(iter(listed.values()), new.cursor)
    return replace(new, cursor=next((listed[key] for key in neighbours if key in listed), first))
