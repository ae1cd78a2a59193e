"""The command policy of a run: start the supervisor, and record the policy and its log in the session."""

from agent_dev.run.request import PreparedRun
from agent_dev.sandbox.supervisor_interface import CommandLogSummary
from agent_dev.session import store
from agent_dev.supervisor.handle import Supervisor
from agent_dev.supervisor.protocol import SupervisorOptions


def start_supervisor(prepared: PreparedRun, session: store.Session, environ: dict[str, str]) -> Supervisor:
    """Start the supervisor of a session."""
    profile = prepared.settings.profile

    def roll_back(number: int) -> str:
        from agent_dev.checkpoint import rollback
        from agent_dev.session import events, sessions  # in the supervisor, when a command has failed

        listed = sessions.ListedSession(session, store.read_record(session), store.RUNNING)
        return "; ".join(events.limit_problems(rollback.roll_back_live(listed, number).problems))

    home = prepared.machine.home
    options = SupervisorOptions(
        profile.policy,
        session.folder,
        home,
        environ,
        profile.ask_seconds,
        roll_back,
        profile.directory_renames,
        profile.notify,
        profile.notify_command,
        (*prepared.untrusted_paths, session.folder),
        prepared.findings,
    )
    return Supervisor(options)


def with_policy_log(path: str, record: store.Record, prepared: PreparedRun, summary: CommandLogSummary) -> store.Record:
    """Return the session's record with the policy's version and the end of the command log at `path`."""
    from agent_dev.session import events  # after the run
    from agent_dev.session.hash_chain import ChainEnd  # as above

    log = events.extend_log_record(path, record.get("commands"), ChainEnd(summary.count, summary.chain, summary.dropped))
    return {**record, "policy": {"set": prepared.settings.profile.policy, "digest": summary.digest}, "commands": log}
