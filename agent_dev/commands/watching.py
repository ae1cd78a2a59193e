"""The policy of a run: the process that watches its commands, and what the session's record says of it."""

from agent_dev.commands.prepare import Prepared
from agent_dev.host import load, store
from agent_dev.host.watcher import Tally, Watch, Watcher


def begin(prepared: Prepared, session: store.Session, environ: dict[str, str]) -> Watcher:
    """Start watching the commands of a session."""
    profile = prepared.settings.profile

    def roll_back(number: int) -> str:
        from agent_dev.commands import rollback, sessions  # in the process that watches, when a command has failed

        one = sessions.Listed(session, store.read(session), store.RUNNING)
        return "; ".join(rollback.roll_back_live(one, number).problems)

    home = prepared.machine.home
    return Watcher(Watch(profile.policy, session.folder, home, environ, profile.ask_seconds, roll_back))


def noted(record: store.Record, prepared: Prepared, environ: dict[str, str], tally: Tally) -> store.Record:
    """Return the session's record with the policy's version and the end of the log."""
    from hashlib import sha256  # after the agent

    policy = load.policy(prepared.settings.profile.policy, prepared.machine.home, environ)
    digest = sha256(repr([rule.but(origin="") for rule in policy.rules]).encode("utf-8", "replace")).hexdigest()
    log: store.LogRecord = {"count": tally.count, "chain": tally.chain, "dropped": tally.dropped}
    return {**record, "policy": {"set": policy.name, "digest": digest}, "commands": log}
