"""Serve the control socket of a running session, and roll back a transaction that was never ended."""

from agent_dev.checkpoint import checkpoint_store, rollback, timer_process
from agent_dev.control import server
from agent_dev.errors import AgentDevError
from agent_dev.linux import process
from agent_dev.redact import mask_secrets
from agent_dev.session import events, open_transaction, store
from agent_dev.session.sessions import ListedSession

_PRUNE_INTERVAL = 32  # checkpoints between prunings


def serve(session: store.Session, record: store.Record, listener: int, retention: timer_process.TimerSpec) -> None:
    """Serve the control socket of a running session until it ends. Never returns."""
    taken = 0

    def take(cause: str, message: str) -> int:
        nonlocal taken
        taken += 1
        if taken % _PRUNE_INTERVAL == 0:
            timer_process.prune(session, retention)
        return checkpoint_store.take_checkpoint(
            session, record, _redacted(cause), _redacted(message), always=bool(message)
        ).number

    def roll_back(number: int, excluded: tuple[str, ...]) -> tuple[str, ...]:
        return rollback.roll_back_live(ListedSession(session, record, store.RUNNING), number, excluded=excluded).problems

    actions = server.Actions(
        take_checkpoint=take,
        roll_back=roll_back,
        set_mark=lambda number: open_transaction.record_checkpoint(session, number),
        log=lambda number, text, verdict, problem: _note(session, number, text, verdict, problem),
        has_session_ended=lambda: _is_over(record),
    )
    server.ControlServer(listener, actions).run()


def _redacted(text: str) -> str:
    return " ".join(mask_secrets(tuple(text.split(" "))))


def _note(session: store.Session, number: int, text: str, verdict: str, problem: str) -> None:
    fields = {
        "command": _redacted(text) or None,
        "verdict": verdict,
        "problem": "; ".join(events.limit_problems(problem.split("; "))) or None,
    }
    events.log_event(session, events.INSIDE, at=0, checkpoint=number, **fields)


def _is_over(record: store.Record) -> bool:
    """Return whether the sandbox has ended or is ending: its init dies before the processes that are killed with it."""
    init = record["init"]
    inner = process.first_child(init)
    return not inner or process.is_exiting(inner) or process.is_exiting(init)


def roll_back_open(session: store.Session) -> str:
    """Roll back the transaction that an ended session left open; return a message for the user."""
    number = open_transaction.recorded_checkpoint(session)
    record = store.read_record(session)
    try:
        result = rollback.roll_back_ended(ListedSession(session, record, store.WAITING), number)
        outcome, problem = (
            f"rolled back to checkpoint {number}; the previous state is checkpoint {result.previous}",
            "; ".join(result.problems),
        )
    except AgentDevError as error:
        outcome, problem = f"not rolled back to checkpoint {number}: {error.message}", error.message
    _note(session, number, "", "left open", problem)
    open_transaction.record_checkpoint(session, 0)
    return f"the agent left a transaction open: {outcome}"
