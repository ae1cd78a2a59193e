"""Hints for a command that no shown directory has, and the session's own commands."""

import os

from agent_dev.config import load, validators
from agent_dev.control import socket_file
from agent_dev.sandbox import plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.request import PreparedRun


def is_control_command(name: str, prepared: "PreparedRun", *, is_direct: bool) -> bool:
    """Return whether this session provides the command."""
    return name in plan.CONTROL_COMMANDS and not _missing_for_control(prepared, is_direct=is_direct)


def missing_command_hint(name: str, prepared: "PreparedRun", *, is_direct: bool) -> str:
    """Return a hint for a missing command."""
    if name in plan.CONTROL_COMMANDS:
        return _missing_for_control(prepared, is_direct=is_direct)
    if os.sep in name:
        full = os.path.normpath(os.path.join(prepared.cwd, name))
        if not os.path.lexists(full):
            return f"{full} does not exist"
        return f"{full} is not visible in the sandbox: add --ro {os.path.dirname(full)}"
    known = _profiles(prepared.machine.home, dict(os.environ))
    return f"the profiles are {', '.join(known)}{validators.did_you_mean(name, known)}"


def _profiles(home: str, environ: dict[str, str]) -> list[str]:
    return [profile for profile, _, _ in load.list_profiles(home, environ) if profile != "default"]


def _missing_for_control(prepared: "PreparedRun", *, is_direct: bool) -> str:
    """Return why a session has no control commands; empty if it has them."""
    if not prepared.settings.profile.tx_inside:
        return "it requires `tx_inside: true` in a profile or config.yaml; outside a session, use the agent-dev subcommand"
    if is_direct:
        return "remove --direct: the agent writes to the real tree, which cannot be rolled back"
    if not socket_file.inside_python(prepared.machine.system, prepared.untrusted_paths):
        return "it requires a Python below /usr (agent-dev doctor)"
    return ""
