"""Mask paths, names, addresses and secrets in a text for a bug report. Pure."""

import re

from agent_dev.quick_dataclass import dataclass
from agent_dev.redact import mask_secrets

_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr")
_PATH = re.compile(r"(?:(?<![\w.~/…:-])//|(?<![\w.~/…-])/(?!/))(?:[^\s'\"(),:;<>|…]+)")
_HOME = re.compile(r"~[^\s'\"(),:;<>|]*")
_PROGRAM_FILE = re.compile(r"[^\s\"']*/((?:agent_dev|tui)/[^\s\"']+\.py)")
_ADDRESS = re.compile(r"[\w.+-]+@[\w.-]+")


@dataclass(frozen=True, slots=True)
class Identity:
    """The paths and names that identify a user."""

    home: str
    root: str
    user: str
    host: str


def mask_text(text: str, reporter: Identity) -> str:
    """Mask the user's paths, names, addresses and apparent secrets in a text; keep the paths of the system and of agent-dev."""
    text = _PROGRAM_FILE.sub(r"\1", mask_secrets((text,))[0])
    for name, mask in ((reporter.root, "REPOSITORY"), (reporter.home, "~")):
        if len(name) > 1:
            text = re.sub(rf"{re.escape(name)}(?=/|\b|$)", mask, text)
    text = _HOME.sub("~/…", re.sub(r"REPOSITORY/[^\s'\"(),:;<>|]*", "REPOSITORY/…", text))
    text = _PATH.sub(lambda found: found[0] if _is_system(found[0]) else "/…", text)
    text = _ADDRESS.sub("ADDRESS", text)
    for name, mask in ((reporter.user, "USER"), (reporter.host, "HOST")):
        if len(name) > 1 and name != "root":
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", mask, text)
    return text


def _is_system(path: str) -> bool:
    return path == "/" or any(path == top or path.startswith(f"{top}/") for top in _SYSTEM)
