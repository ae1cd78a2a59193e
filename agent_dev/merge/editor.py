"""A conflict settled in the user's editor: git's markers around what both changed."""

import os
import subprocess
import tempfile
from collections.abc import Mapping

from agent_dev.diff.merge3 import Merged, marked, parse_marked
from agent_dev.errors import CommandFailed, UsageError
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Key


def edited(review: Review, key: Key, environ: dict[str, str]) -> bytes:
    """Open a conflict of a session's in an editor; see `settled`."""
    fit = review.fits.get(key)
    if fit is None or fit.merged is None or fit.merged.is_clean:
        shown = key.path.decode("utf-8", "replace")
        raise UsageError(message=f"{shown} has no lines in conflict", hint="mine or agent takes one side whole")
    return settled(key.path, fit.merged, environ)


def settled(name: bytes, merged: Merged, environ: Mapping[str, str]) -> bytes:
    """Open a merge in `$VISUAL`, `$EDITOR` or vi and return what came back. Raises UsageError, CommandFailed."""
    shown = name.decode("utf-8", "replace")
    program = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="agent-dev-") as folder:
        path = os.path.join(folder, os.path.basename(os.fsdecode(name)))
        with open(path, "xb") as file:
            file.write(marked(merged, b"yours", b"the agent's", b"before"))
        code = subprocess.run(["/bin/sh", "-c", f'{program} "$@"', program, path], check=False, env=environ).returncode
        if code:
            raise CommandFailed(program=program, reason=f"it ended with {code}; nothing was changed")
        with open(path, "rb") as file:
            text = parse_marked(merged, file.read())
    if text is None:
        raise UsageError(message=f"{shown}: a conflict marker is left in it; nothing was changed", hint="settle each, and save")
    return text
