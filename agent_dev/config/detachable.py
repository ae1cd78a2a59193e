"""Find out by the options or config.yaml if a session can be detached. On the launch path: most files do not mention it."""

import os

from agent_dev.config import load
from agent_dev.paths import expand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.config.options import RunOptions


def may_detach(options: "RunOptions", environ: dict[str, str]) -> bool:
    """Return whether a session can be detached: by its options, or on a terminal by config.yaml."""
    if options.detachable or options.detach:
        return True
    home = environ.get("HOME", "")
    explicit = options.config or environ.get("AGENT_DEV_CONFIG", "")
    path = expand(explicit, home) if explicit else f"{load.config_folder(home, environ)}/config.yaml"
    if not os.path.isfile(path):
        return False  # what is read from a pipe is gone
    try:
        with open(path, "rb", 0) as file:
            is_mentioned = b"detachable" in file.read()
    except OSError:
        return False  # the run reports it if it should exist
    if not is_mentioned or options.record or not all(map(is_foreground_terminal, range(3))):
        return False
    return load.load_settings(load.SettingsRequest("", home, environ, options.config)).profile.detachable


def is_foreground_terminal(fd: int) -> bool:
    """Return whether a descriptor is our controlling terminal, and we are in its foreground."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
