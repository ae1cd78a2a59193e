"""A command that lies in no directory that is shown: whether it is one of the session's own words, and what to do if not."""

import os

from agent_dev.config import load
from agent_dev.config import validators as checks
from agent_dev.inside.control import socket_file as door
from agent_dev.sandbox import machine, plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.prepare import Prepared, Request

_LISTED = "the profiles are"


def is_there(name: str, prepared: "Prepared", *, is_direct: bool) -> bool:
    """Whether it is a word that this session will have."""
    return name in plan.WORDS and not _lacking(prepared, is_direct=is_direct)


def hint(name: str, prepared: "Prepared", *, is_direct: bool) -> str:
    """Return what to do instead."""
    if name in plan.WORDS:
        return _lacking(prepared, is_direct=is_direct)
    if os.sep in name:
        full = os.path.normpath(os.path.join(prepared.cwd, name))
        if not os.path.lexists(full):
            return f"there is no {full}"
        return f"{full} is not shown inside; --ro {os.path.dirname(full)} shows it"
    known = _profiles(prepared.machine.home, dict(os.environ))
    return f"{_LISTED} {', '.join(known)}{checks.nearest(name, known)}"


def or_word(hint: str, request: "Request", words: tuple[str, ...]) -> str:
    """Return the hint for a command that is not there with the word of agent-dev's that is more like it than any profile."""
    if not hint.startswith(_LISTED):
        return hint
    known = _profiles(machine.home(request.environ), request.environ)
    meant = checks.most_like(request.words[0], (*words, *known))
    return f"did you mean agent-dev {meant}? {_LISTED} {', '.join(known)}" if meant in words else hint


def _profiles(home: str, environ: dict[str, str]) -> list[str]:
    return [profile for profile, _, _ in load.names(home, environ) if profile != "default"]


def _lacking(prepared: "Prepared", *, is_direct: bool) -> str:
    """Return what a session lacks to have words of its own; nothing when it has them."""
    if not prepared.settings.profile.tx_inside:
        return "a session has it with `tx_inside: true` in a profile or config.yaml; outside it is a word of agent-dev itself"
    if is_direct:
        return "leave --direct: there is nothing kept apart there that could be rolled back"
    if not door.python(prepared.machine.system, prepared.untrusted):
        return "it needs a Python below /usr; agent-dev doctor says whether there is one"
    return ""
