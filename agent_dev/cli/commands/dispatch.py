"""The words of agent-dev beside running an agent: one module an area, read when one of its words is used."""

import gc
from importlib import import_module

from agent_dev.cli.commands.parser import Verb
from agent_dev.cli.main import say
from agent_dev.errors import PARTLY, CannotStart, RecoveryRequired
from agent_dev.merge.engine import pending
from agent_dev.run.prepare import Options
from agent_dev.session import sessions
from agent_dev.session.sessions import Here


def _verb(area: str, word: str) -> Verb:
    verbs: dict[str, Verb] = import_module(f"agent_dev.cli.commands.{area}").VERBS
    return verbs[word]


def run_verb(place: tuple[str, str], words: list[str], options: Options, environ: dict[str, str]) -> int:
    """Carry out a word of an area and return the exit code. Raises AgentDevError; the codes of a run are for runs alone."""
    area, verb = place
    gc.set_threshold(100_000)  # changes come by the ten thousand and hold no cycles: looking for some takes a tenth of a merge
    try:
        where = sessions.here(options, environ)
        _recover(verb, where)
        return _verb(area, verb)(words, where, options)
    except CannotStart as error:
        if verb != "resume":
            error.code = PARTLY
        raise


def _recover(verb: str, where: Here) -> None:
    """Bring to rest what was interrupted here; what is not understood stops only what would build on it."""
    if not pending.listed(where.store):
        return
    from agent_dev.merge import recover  # all of merging: most words have nothing to recover, and need none of it

    try:
        recover.recover_here(where.store, where.root, where.environ, say)
    except RecoveryRequired as error:
        if verb in ("merge", "redo", "resume"):
            raise
        say(error.message)
        say(f"→ {error.hint}")
