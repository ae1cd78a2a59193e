"""Write a report about an internal error, next to the sessions."""

import os
import time
import traceback
from collections.abc import Mapping

from agent_dev.bug_report.facts import describe_terminal, describe_versions
from agent_dev.bug_report.masking import mask_text
from agent_dev.bug_report.report import identity
from agent_dev.redact import mask_secrets
from agent_dev.sanitize import visible

_KEPT = 10


def crash_folder(environ: Mapping[str, str]) -> str:
    """Return the directory of the reports. It does not depend on settings, which may be the reason of an error."""
    base = environ.get("XDG_STATE_HOME", "")
    return (base if base.startswith("/") else f"{environ.get('HOME', '')}/.local/state") + "/agent-dev/crashes"


def write_crash_report(error: BaseException, argv: list[str], environ: Mapping[str, str]) -> str:
    """Write a report; return its path, or "" if it cannot be written."""
    folder = crash_folder(environ)
    path = f"{folder}/{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(describe_crash(error, argv, environ))
        for name in sorted(os.listdir(folder))[:-_KEPT]:
            os.unlink(f"{folder}/{name}")
    except OSError:
        return ""
    return path


def describe_crash(error: BaseException, argv: list[str], environ: Mapping[str, str]) -> str:
    """Return the report: versions, the terminal, the command, and the traceback without the values of variables."""
    reporter = identity(environ, os.getcwd() if os.path.isdir(".") else "")
    command = " ".join(["agent-dev", *mask_secrets(tuple(argv))])
    lines = [*describe_versions(), f"terminal: {describe_terminal(environ)}", f"command: {command}"]
    trace = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(visible(mask_text(line, reporter)) for line in (*lines, *trace)) + "\n"
