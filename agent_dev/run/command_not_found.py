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
    profile = prepared.settings.profile
    if name == profile.name and not profile.command:
        return f"the profile {name} has no `command`, and no program is called {name}"
    names = load.list_profile_names(prepared.machine.home, dict(os.environ))
    known = [one for one in names if one != load.DEFAULT_PROFILE]
    return f"install it on this machine, or inside into ~/.local/agent/bin{validators.did_you_mean(name, known)}"


def _missing_for_control(prepared: "PreparedRun", *, is_direct: bool) -> str:
    """Return why a session has no control commands; empty if it has them."""
    if not prepared.settings.profile.tx_inside:
        return "it requires `tx_inside: true` in a profile or config.yaml; outside a session, use the agent-dev subcommand"
    if is_direct:
        return "remove --direct: the agent writes to the real tree, which cannot be rolled back"
    if not socket_file.inside_python(prepared.machine.system, prepared.untrusted_paths):
        return "it requires a Python below /usr (agent-dev doctor)"
    return ""
