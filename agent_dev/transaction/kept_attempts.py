"""The results of the attempts of `tx --best`, kept in the records of their sessions, so that they can be compared again."""

import os

from agent_dev.errors import AgentDevError, Refused
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession
from agent_dev.transaction import child_process, measure_attempts
from agent_dev.transaction.best import ScoredAttempt


@dataclass(frozen=True, slots=True)
class BestRun:
    """A run of `tx --best`: its number of attempts, the command of `--score`, whether the lowest score is the best."""

    count: int
    command: str
    is_lowest: bool


def keep_attempts(attempts: tuple[ScoredAttempt, ...], run: BestRun, context: CommandContext) -> None:
    """Write the result of each attempt that has a session to its record. One that is in use or gone is left out."""
    run_id = os.urandom(8).hex()
    for one in attempts:
        if not one.result.session:
            continue
        try:
            session = child_process.lock_session(
                store.Session(one.result.session, f"{context.store.sessions}/{one.result.session}")
            )
        except (AgentDevError, OSError):
            continue
        try:
            kept: store.AttemptRecord = {
                "run": run_id,
                "number": one.number,
                "count": run.count,
                "command": run.command,
                "lowest": run.is_lowest,
                "host": one.host,
                "result": child_process.to_row(one.result),
            }
            store.write_record(session, {**store.read_record(session), "attempt": kept})
        finally:
            store.unlock_session(session)


def find_attempts(name: str, context: CommandContext) -> tuple[tuple[ScoredAttempt, ...], BestRun]:
    """Return the attempts of a session's run whose own sessions are still waiting. Raises AgentDevError."""
    kept = sessions.find_session(context, name).record.get("attempt")
    if kept is None:
        raise Refused(message=f"session {name} is not an attempt of tx --best", hint="agent-dev sessions shows those that are")
    found = [one for one in sessions.list_sessions(context.store) if _belongs(one, kept["run"])]
    attempts = sorted(filter(None, (_attempt(one, context) for one in found)), key=lambda one: one.number)
    return tuple(attempts), BestRun(kept["count"], kept["command"], kept["lowest"])


def _belongs(one: ListedSession, run_id: str) -> bool:
    return one.state == store.WAITING and one.record.get("attempt", {}).get("run") == run_id


def _attempt(one: ListedSession, context: CommandContext) -> ScoredAttempt | None:
    kept = one.record["attempt"]
    try:
        noted = child_process.from_row(kept["result"], context.store)
    except (KeyError, TypeError, ValueError):
        noted = None
    if noted is None:
        return None
    now = noted.result.replace(session=one.session.id, name=one.name)  # it may have been renamed
    (measured,) = measure_attempts.measure_attempts((now,), (kept["host"],), context)
    return replace(measured, number=kept["number"])
