"""Dispatch subcommands. Each has a module with its name in the package of its group; the module is imported when it is used."""

import gc
from importlib import import_module

from agent_dev.cli.console import warn
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, USAGE, CannotStart, InvalidConfiguration, NoDirectory, RecoveryRequired, RunUsageError
from agent_dev.merge_engine import pending_marks
from agent_dev.session import sessions
from agent_dev.session.sessions import CommandContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.cli.parser import Verb  # imports argparse, which not all subcommands need

_KEYWORDS = {"import": "import_bundle"}  # a subcommand whose name is a Python keyword → its module


def find_verb(group: str, verb: str) -> "Verb":
    """Return the function of a subcommand."""
    module = _KEYWORDS.get(verb, verb)
    run: Verb = import_module(".".join(filter(None, ("agent_dev.cli.commands", group, module)))).run
    return run


def run_verb(target: tuple[str, str], argv: list[str], options: RunOptions, environ: dict[str, str]) -> int:
    """Run a subcommand and return the exit code. Raises AgentDevError.

    CannotStart exits with 1, or 2 for an unknown directory: its own code is for runs, of which `resume` is one.
    """
    group, verb = target
    gc.set_threshold(100_000)  # tens of thousands of changes have no cycles; collecting them takes a tenth of a merge
    try:
        context = sessions.command_context(options, environ)
        _recover(verb, context)
        return find_verb(group, verb)(argv, context, options)
    except CannotStart as error:
        if verb != "resume":
            error.code = USAGE if isinstance(error, NoDirectory) else FAILURE
        raise
    except InvalidConfiguration as error:
        if verb == "resume":
            raise RunUsageError(message=error.message, hint=error.hint) from None
        raise


def _recover(verb: str, context: CommandContext) -> None:
    """Recover interrupted merges of this repository; one that cannot be recovered stops only subcommands that depend on it."""
    if not pending_marks.unfinished_merges(context.store):
        return
    from agent_dev.merge import recover  # imports all of merging, which most subcommands do not need

    try:
        recover.recover_root(context.store, context.root, context.environ, warn)
    except RecoveryRequired as error:
        if verb in ("merge", "redo", "resume"):
            raise
        warn(error.message)
        warn(f"hint: {error.hint}")
