"""Print the result of a transaction."""

from agent_dev.cli import console
from agent_dev.sanitize import visible
from agent_dev.transaction.result import TransactionResult


def result_as_json(row: dict[str, object]) -> str:
    """Return the JSON document of a result."""
    from json import dumps  # only for --json

    return dumps({"version": 1, **row}, indent=1) + "\n"


def print_result(result: TransactionResult) -> None:
    """Print how a transaction ended, and the next commands."""
    for path in result.unchanged if result.cause != "selection" else ():  # then the reason names them
        console.warn(f"--take {visible(path)}: no changes")
    if result.cause:
        console.warn(f"nothing was merged: {visible(result.reason)}")
        if result.session:
            console.warn(f"session {result.name} was kept: agent-dev diff {result.name}, agent-dev discard {result.name}")
        return
    _print_merged(result)
    if result.session:
        commits = f"{result.commits} commit{'s' * (result.commits != 1)}" if result.commits else ""
        files = "skipped changes" if result.skipped else ""
        parts = " and ".join(filter(None, (commits, files))) or f"work in git directories (agent-dev commits {result.name})"
        console.notify(f"session {result.name} is waiting with {parts}")


def _print_merged(result: TransactionResult) -> None:
    if result.merge:
        changes = f"{len(result.applied)} change{'s' * (len(result.applied) != 1)}"
        console.notify(f"merge {result.merge}: {changes} merged, {len(result.skipped) or 'nothing'} skipped (agent-dev undo)")
    elif result.skipped:
        options = "" if result.unchanged else "--include-ignored, "  # with --take, that has no effect
        console.warn(f"nothing was merged, {len(result.skipped)} skipped ({options}--take PATH)")
    elif not result.session:
        console.notify("no changes to merge")
