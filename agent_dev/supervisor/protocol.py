"""The messages between the launcher and its supervisor."""

import marshal
import os

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

OFF = "off"  # the policy that supervises no commands
CONTROL, REPORT = 3, 4  # the only descriptors that the supervisor keeps
READY = b"+"


class SupervisorOptions(Value):
    """The supervisor's options: policy, session folder, the user's home and environment, seconds to wait for an answer.

    `alerts`, `alert_command`: how the user is alerted of a question (the settings `notify` and `notify_command`); no program
    below the `untrusted` paths is run for it. `roll_back`: restores the running session to a checkpoint and returns the
    problems. `has_renames`: prepare directories of overlays for renames. `policy` may be "off". `findings`: a file for the
    paths that the sandbox looked up and the commands that it was denied; "": none.
    """

    policy: str
    folder: str
    home: str
    environ: dict[str, str]
    answer_seconds: int
    roll_back: "Callable[[int], str]"
    has_renames: bool = False
    alerts: tuple[str, ...] = ()
    alert_command: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    findings: str = ""


class SupervisedSandbox(Value):
    """The sandbox to supervise: its init, the listener's descriptor in it, its overlays (path inside, upper), its relay."""

    init_pid: int = 0
    listener: int = -1
    overlays: tuple[tuple[str, str], ...] = ()
    relay_pid: int = 0  # 0: the sandbox has no terminal


def read_sandbox() -> SupervisedSandbox:
    """Return the launcher's message; a negative listener if there is nothing to supervise or the launcher is gone."""
    data = b""
    while chunk := os.read(CONTROL, 1 << 16):
        data += chunk
        size, newline, rest = data.partition(b"\n")
        if newline and len(rest) >= int(size):
            return SupervisedSandbox(*marshal.loads(rest))  # noqa: S302  (the launcher wrote it)
    return SupervisedSandbox()
