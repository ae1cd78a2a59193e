"""The policy of a run: the process that watches its commands, and what the session's record says of it."""

from agent_dev.policy.watcher import Tally, Watch, Watcher
from agent_dev.run.prepare import Prepared
from agent_dev.session import store


def begin(prepared: Prepared, session: store.Session, environ: dict[str, str]) -> Watcher:
    """Start watching the commands of a session."""
    profile = prepared.settings.profile

    def roll_back(number: int) -> str:
        from agent_dev.checkpoint import rollback  # in the process that watches, when a command has failed
        from agent_dev.session import (
            events,  # as above
            sessions,  # in the process that watches, when a command has failed
        )

        one = sessions.Listed(session, store.read(session), store.RUNNING)
        return "; ".join(events.few(rollback.roll_back_live(one, number).problems))

    home = prepared.machine.home
    return Watcher(Watch(profile.policy, session.folder, home, environ, profile.ask_seconds, roll_back))


def noted(path: str, record: store.Record, prepared: Prepared, tally: Tally) -> store.Record:
    """Return the session's record with the policy's version and the end of the log of commands, which lies at `path`."""
    from agent_dev.session import events  # after the agent
    from agent_dev.session.hash_chain import Head  # as above

    log = events.extended(path, record.get("commands"), Head(tally.count, tally.chain, tally.dropped))
    return {**record, "policy": {"set": prepared.settings.profile.policy, "digest": tally.digest}, "commands": log}
