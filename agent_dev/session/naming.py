"""The name that a session is given: one that an open session here has would be a second one that the same word means."""

from agent_dev.errors import AgentDevError, UsageError
from agent_dev.run.prepare import Options
from agent_dev.session import sessions


def check(options: Options, environ: dict[str, str]) -> None:
    """Raise UsageError for a `--name` that a session of this repository has which runs or waits."""
    try:
        here = sessions.of_root(sessions.here(options, environ))
    except AgentDevError:
        return  # the run ends for the same reason, and says it
    for one in here:
        if one.record.get("name") == options.name:
            hint = f"another name; or first agent-dev merge {options.name}, or discard {options.name}"
            raise UsageError(message=f"--name {options.name}: a session of that name is {one.state} here", hint=hint)
