"""Exceptions for failures that a user can fix: a one-line message and a hint each.

The docstring of an exception is its message, a template over the values it is raised with. Exit codes are a contract
(docs/exit-codes.md).
"""

import errno

from agent_dev.sanitize import visible

SUCCESS, FAILURE, USAGE = 0, 1, 2
NOT_STARTED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


def _shown(name: str, value: object) -> str:
    """Make a value safe to print; only `message` may have several lines."""
    text = value if isinstance(value, bytes) else str(value)
    if name == "message" and isinstance(text, str):
        return "\n".join(map(visible, text.split("\n")))
    return visible(text)


class AgentDevError(Exception):
    """{message}"""

    code = FAILURE

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
    """no session {name}"""


class NoSession(AgentDevError):
    """no {state} session for {root}"""


class InvalidConfiguration(UsageError):
    """{message}"""


class CannotStart(AgentDevError):
    """{message}"""

    code = NOT_STARTED


class AgentNotStarted(CannotStart):
    """the agent was not started: {reason}"""


class Refused(CannotStart):
    """refused: {message}"""


class NoDirectory(Refused):
    """refused: {path} is not a directory"""


class SandboxSetupFailed(CannotStart):
    """cannot prepare the sandbox: {reason}"""


class BwrapFailed(CannotStart):
    """bubblewrap could not build the sandbox: {message}"""


class CommandNotFound(CannotStart):
    """{command}: not found in the agent home, the tool directories or the system"""

    code = NOT_FOUND


class AgentNotInstalled(CommandNotFound):
    """{command}: not found in the agent home, the tool directories or the system"""


class UnknownAgent(CannotStart):
    """{name} is not {expected}"""


class InterpreterNotFound(CommandNotFound):
    """{command}: its interpreter {interpreter} does not exist in the sandbox"""


class CommandDoesNotStart(CommandNotFound):
    """{command}: found, but it does not start in the sandbox"""


class NotExecutable(CannotStart):
    """{command}: not executable"""

    code = NOT_EXECUTABLE


class DeniedByPolicy(NotExecutable):
    """{command}: denied by the command policy"""


class UnusableStateDirectory(CannotStart):
    """the state directory {path} cannot be used: {reason}"""


class NewerState(AgentDevError):
    """the state directory {path} was written by a newer agent-dev: it has format {found}, this version reads up to {known}"""


class NewerFile(AgentDevError):
    """{path} was written by a newer agent-dev: it has version {found}, this version reads up to {known}"""


class SessionBusy(AgentDevError):
    """session {session} is {what}"""


class IgnoredSettings(AgentDevError):
    """ignoring {path}: {reason}"""


class HomeBusy(AgentDevError):
    """the agent home {path} is in use by a session"""


class AgentExited(AgentDevError):
    """the agent has exited; leave this screen and run `agent-dev merge`"""


class UnreadableSession(AgentDevError):
    """session {session}: {reason}; nothing was changed"""


class MissingRoot(UnreadableSession):
    """session {session}: {path} does not exist; nothing was changed"""


class CannotMerge(AgentDevError):
    """{path}: {reason}"""


class UnknownOutcome(AgentDevError):
    """merge {merge}: the disk failed and the outcome is unknown: {reason}"""


class RecoveryRequired(AgentDevError):
    """merge {merge} was interrupted and cannot be recovered: {reason}; nothing was changed"""


class CannotRecover(RecoveryRequired):
    """merge {merge} was interrupted and cannot be recovered now: {reason}"""


class CannotUndo(AgentDevError):
    """{message}"""


class CommandFailed(AgentDevError):
    """{program} failed: {reason}"""


class DiskFull(CommandFailed):
    """{path}: {reason}; nothing was changed"""


class DamagedRefs(CommandFailed):
    """{path} is damaged: the refs at the start of the session are unknown"""


class RunUsageError(CannotStart):
    """{message}"""


class RefusedCommits(AgentDevError):
    """the agent's commits are refused: {reason}"""


class BadBundle(AgentDevError):
    """the bundle is refused: {reason}"""


class BadTicket(CannotStart):
    """the ticket is refused: {reason}"""


class RepositoryNeeded(CannotStart):
    """commit {commit} is not on this machine"""

    code = 75  # EX_TEMPFAIL of sysexits.h: try again, with the repository


class WorkerRefused(AgentDevError):
    """{host} cannot be used: {reason}"""


class CannotImport(AgentDevError):
    """{message}"""


class CommitsAlreadyKept(CannotImport):
    """{reason}; {ref} has these commits"""


class CheckpointFailed(AgentDevError):
    """cannot take a checkpoint of session {session}: {reason}"""


class UnknownCheckpoint(UsageError):
    """session {session} has no checkpoint {number}"""


class DamagedCheckpoint(AgentDevError):
    """checkpoint {number} is damaged: {reason}; nothing was changed"""


class CannotRollBack(AgentDevError):
    """{message}"""


class IncompleteRollback(AgentDevError):
    """rollback is incomplete: {what}"""


class RolledBackWithOuter(AgentDevError):
    """rolled back together with the outer transaction"""


class BackupBusy(AgentDevError):
    """another backup to {target} is running"""


class BackupFailed(AgentDevError):
    """cannot back up {source}: {reason}"""


class NewerBackup(BackupFailed):
    """the backup {path} was written by a newer agent-dev: it has version {found}, this version reads up to {known}"""


_LIMITS = {
    errno.EMFILE: "raise the limit on open files: ulimit -n",
    errno.ENOMEM: "free memory, or raise the limit on it: ulimit -v",
}

# Out of memory, CPython cannot map extension modules (ImportError), and some of its failures are SystemError.
SYSTEM_ERRORS = (OSError, MemoryError, SystemError, ImportError)


def describe_system_error(error: Exception) -> tuple[str, str]:
    """Return a one-line description of an operating system failure, and a hint; the hint is empty if none is known."""
    if isinstance(error, ImportError):
        return str(error), ""
    if not isinstance(error, OSError):
        detail = "" if isinstance(error, MemoryError) else f", or an internal error of Python: {error}"
        return f"out of memory{detail}", _LIMITS[errno.ENOMEM]
    text = error.strerror or str(error)
    return (f"{text}: {error.filename}" if error.filename else text), _LIMITS.get(error.errno or 0, "")


def agent_not_started(error: Exception) -> AgentNotStarted:
    """Return the error for a run that failed before the agent was started."""
    error.__traceback__ = None  # its frames keep memory in use
    reason, hint = describe_system_error(error)
    return AgentNotStarted(reason=reason, hint=hint)
