"""A command that lies in no directory that is shown: whether it is one of the session's own words, and what to do if not."""

import os

from agent_dev.core import checks, plan
from agent_dev.host import door, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.commands.prepare import Prepared


def is_there(name: str, prepared: "Prepared", *, is_direct: bool) -> bool:
    """Whether it is a word that this session will have."""
    return name in plan.WORDS and not _lacking(prepared, is_direct=is_direct)


def hint(name: str, prepared: "Prepared", *, is_direct: bool) -> str:
    """Return what to do instead."""
    if name in plan.WORDS:
        return _lacking(prepared, is_direct=is_direct)
    if os.sep in name:
        return "it must be visible inside; agent-dev show true lists what is"
    known = [profile for profile, _, _ in load.names(prepared.machine.home, dict(os.environ)) if profile != "default"]
    return f"the profiles are {', '.join(known)}{checks.nearest(name, known)}"


def _lacking(prepared: "Prepared", *, is_direct: bool) -> str:
    """Return what a session lacks to have words of its own; nothing when it has them."""
    if not prepared.settings.profile.tx_inside:
        return "a session has it with `tx_inside: true` in a profile or config.yaml; outside it is a word of agent-dev itself"
    if is_direct:
        return "leave --direct: there is nothing kept apart there that could be rolled back"
    if not door.python(prepared.machine.system, prepared.untrusted):
        return "it needs a Python below /usr; agent-dev doctor says whether there is one"
    return ""
