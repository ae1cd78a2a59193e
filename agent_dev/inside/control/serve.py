"""Transactions inside a session: what its door does for the agent, and what becomes of one that nobody ended."""

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import rollback
from agent_dev.checkpoint import timer_process as clock
from agent_dev.errors import AgentDevError
from agent_dev.inside.control import server as doorkeeper
from agent_dev.inside.control import socket_file as door
from agent_dev.linux import process as callers
from agent_dev.redact import masked
from agent_dev.sandbox import sandbox_monitor as supervise
from agent_dev.session import events, store
from agent_dev.session.sessions import Listed

_OFTEN = 32  # checkpoints until it is looked at which need not be kept


def serve(session: store.Session, record: store.Record, listener: int, wish: clock.Wish) -> None:
    """Answer at the door of a running session until it is over. Never returns."""
    taken = 0

    def take(cause: str, message: str) -> int:
        nonlocal taken
        taken += 1
        if taken % _OFTEN == 0:
            clock.thin(session, wish)
        return checkpoints.take(session, record, _masked(cause), _masked(message), always=bool(message)).number

    def roll_back(number: int, kept: tuple[str, ...]) -> tuple[str, ...]:
        return rollback.roll_back_live(Listed(session, record, store.RUNNING), number, but=kept).problems

    deeds = doorkeeper.Deeds(
        take=take,
        roll_back=roll_back,
        mark=lambda number: door.mark(session, number),
        note=lambda number, text, verdict, problem: _note(session, number, text, verdict, problem),
        is_over=lambda: _is_over(record),
    )
    doorkeeper.Doorkeeper(listener, deeds).run()


def _masked(text: str) -> str:
    return " ".join(masked(tuple(text.split(" "))))


def _note(session: store.Session, number: int, text: str, verdict: str, problem: str) -> None:
    told = {"command": _masked(text) or None, "verdict": verdict, "problem": "; ".join(events.few(problem.split("; "))) or None}
    events.note(session, events.INSIDE, at=0, checkpoint=number, **told)


def _is_over(record: store.Record) -> bool:
    """Whether the sandbox has ended or is about to: its first process goes before all that are killed with it."""
    init = record["init"]
    inner = supervise.first_child(init)
    return not inner or callers.is_ending(inner) or callers.is_ending(init)


def finish(session: store.Session) -> str:
    """Roll back what was begun in a session that is over and held, and never ended; return what there is to say of it."""
    number = door.marked(session)
    record = store.read(session)
    try:
        done = rollback.roll_back(Listed(session, record, store.WAITING), number)
        said, problem = (
            f"rolled back to checkpoint {number}; what was there is checkpoint {done.before}",
            "; ".join(done.problems),
        )
    except AgentDevError as error:
        said, problem = f"not rolled back to checkpoint {number}: {error.message}", error.message
    _note(session, number, "", "left open", problem)
    door.mark(session, 0)
    return f"a transaction of the agent's was never ended: {said}"
