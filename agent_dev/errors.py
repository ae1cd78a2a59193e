"""The error family: everything that can go wrong in a way a user can mend, one line and a hint each.

The docstring of an error is its message, a template over the values it is raised with. Exit codes are a contract
(docs/exit-codes.md).
"""

from agent_dev.sanitize import visible

DONE, PARTLY, USAGE = 0, 1, 2
NOT_STARTED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


def _shown(name: str, value: object) -> str:
    """Make a value safe to print; only our own `message` may have several lines."""
    text = value if isinstance(value, bytes) else str(value)
    if name == "message" and isinstance(text, str):
        return "\n".join(map(visible, text.split("\n")))
    return visible(text)


class AgentDevError(Exception):
    """{message}"""

    code = PARTLY

    def __init__(self, hint: str = "", **values: object) -> None:
        shown = {name: _shown(name, value) for name, value in values.items()}
        self.message = (type(self).__doc__ or "").format_map(shown)
        self.hint = hint
        self.values = values
        super().__init__(self.message)


class UsageError(AgentDevError):
    """{message}"""

    code = USAGE


class UnknownSession(UsageError):
    """no session {name} here"""


class NoSession(AgentDevError):
    """no session of {root} is {state}"""


class BadConfiguration(UsageError):
    """{message}"""


class CannotStart(AgentDevError):
    """{message}"""

    code = NOT_STARTED


class Refused(CannotStart):
    """refused: {message}"""


class KeeperFailed(CannotStart):
    """the sandbox cannot be prepared: {reason}"""


class BwrapFailed(CannotStart):
    """bubblewrap could not build the sandbox: {message}"""


class CommandNotFound(CannotStart):
    """{command}: not found, neither in the agent home nor in the tool directories nor in the system"""

    code = NOT_FOUND


class NoInterpreter(CommandNotFound):
    """{command}: its interpreter {interpreter} is not there inside"""


class DoesNotStart(CommandNotFound):
    """{command}: it is there, but does not start inside"""


class NotExecutable(CannotStart):
    """{command}: not executable"""

    code = NOT_EXECUTABLE


class NotLetStart(NotExecutable):
    """{command}: the command policy does not let it start"""


class StateUnusable(CannotStart):
    """the state directory {path} cannot be used: {reason}"""


class SessionBusy(AgentDevError):
    """session {session} is {what}"""


class NotTrustworthy(AgentDevError):
    """{path} is not used: {reason}"""


class HomeBusy(AgentDevError):
    """a session is using the agent home {path}"""


class AgentEnded(AgentDevError):
    """the agent has ended: leave, and `agent-dev merge` lets you choose"""


class UnreadableSession(AgentDevError):
    """session {session}: {reason}; nothing was changed"""


class CannotMerge(AgentDevError):
    """{path}: {reason}"""


class UnknownOutcome(AgentDevError):
    """merge {merge}: the disk failed, and how it ended is not known yet: {reason}"""


class RecoveryRequired(AgentDevError):
    """merge {merge} was interrupted, and what is there now is not understood: {reason}; nothing was changed"""


class CannotRecover(RecoveryRequired):
    """merge {merge} was interrupted, and cannot be brought to rest now: {reason}"""


class CannotUndo(AgentDevError):
    """{message}"""


class CommandFailed(AgentDevError):
    """{program} failed: {reason}"""


class UsageOfRun(CannotStart):
    """{message}"""


class RefusedCommits(AgentDevError):
    """the agent's commits are refused: {reason}"""


class CannotBring(AgentDevError):
    """{message}"""


class CheckpointFailed(AgentDevError):
    """no checkpoint of session {session}: {reason}"""


class UnknownCheckpoint(UsageError):
    """session {session} has no checkpoint {number}"""


class DamagedCheckpoint(AgentDevError):
    """checkpoint {number} is damaged: {reason}; nothing was changed"""


class CannotRollBack(AgentDevError):
    """{message}"""


class PartlyRolledBack(AgentDevError):
    """not all could be brought back: {what}"""


class UndoneWithOuter(AgentDevError):
    """it was rolled back with the transaction around it"""


class BackupBusy(AgentDevError):
    """another backup is being written to {target}"""


class BackupFailed(AgentDevError):
    """no backup of {source}: {reason}"""
