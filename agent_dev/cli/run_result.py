"""The result of a run in a session that can be detached: sent to the client, and kept for one that attaches later."""

import os

from agent_dev.fs import checksummed_json, fast_json, state_files
from agent_dev.run.job import RunOutcome
from agent_dev.session.store import Session
from agent_dev.value import Value

_FILE = "result.json"  # in the session's folder
_LOCAL = ("session", "review_cache", "last_checkpoint")  # fields of an outcome that only its own process can use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RunResult(Value):
    """The exit code, what the launcher wrote to its stdout and stderr, and the outcome's fields; none if it has none."""

    code: int
    messages: str
    fields: "dict[str, Any]"

    def encode(self) -> bytes:
        """Return the result as JSON."""
        return fast_json.dumps(self.as_dict())

    def outcome(self, session: Session) -> RunOutcome | None:
        """Return the outcome, with the session that holds its changes."""
        return RunOutcome(session=session, **self.fields) if self.fields else None


def make_result(code: int, messages: bytes, outcome: RunOutcome | None) -> RunResult:
    """Return the result of a run. `outcome`: None if it failed."""
    fields = {name: value for name, value in outcome.as_dict().items() if name not in _LOCAL} if outcome else {}
    return RunResult(code, messages.decode("utf-8", "replace"), fields)


def parse_result(data: bytes) -> RunResult:
    """Return the result that was encoded."""
    value = fast_json.loads(data)
    return RunResult(**value)  # type: ignore[arg-type]  # ours


def keep_result(folder: str, result: RunResult) -> None:
    """Keep a result in the session's folder."""
    try:
        state_files.replace_file(f"{folder}/{_FILE}", checksummed_json.dumps(result.as_dict()))
    except OSError:
        return  # full disk: the record of the session has the exit code


def kept_result(folder: str) -> RunResult | None:
    """Return the result that is kept in a session's folder, or None."""
    try:
        with open(f"{folder}/{_FILE}", "rb", 0) as file:
            return RunResult(**checksummed_json.loads(file.read()))
    except (OSError, ValueError, TypeError):
        return None


def remove_result(folder: str) -> None:
    """Remove the result from a session's folder, once it was shown."""
    try:
        os.unlink(f"{folder}/{_FILE}")
    except OSError:
        return  # there was none
