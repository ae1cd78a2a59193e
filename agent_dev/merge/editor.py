"""Resolve a conflict in the user's editor, with git's conflict markers."""

import os
import subprocess
import tempfile
from collections.abc import Mapping

from agent_dev.diff.merge3 import LineMerge, format_with_markers, parse_edited
from agent_dev.errors import CommandFailed, UsageError
from agent_dev.fs.entry import Key
from agent_dev.merge.review import Review


def resolve_in_editor(review: Review, key: Key, environ: dict[str, str]) -> bytes:
    """Open a session's conflict in an editor and return the resolved text; see `edit_conflict`."""
    fit = review.reconciliations.get(key)
    if fit is None or fit.merged is None or fit.merged.is_clean:
        shown = key.path.decode("utf-8", "replace")
        raise UsageError(message=f"{shown} has no conflicting lines", hint="resolve it with yours or agent")
    return edit_conflict(key.path, fit.merged, environ)


def edit_conflict(name: bytes, merged: LineMerge, environ: Mapping[str, str]) -> bytes:
    """Open a merge in `$VISUAL`, `$EDITOR` or vi and return the resolved text. Raises UsageError, CommandFailed."""
    shown = name.decode("utf-8", "replace")
    program = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="agent-dev-") as folder:
        path = os.path.join(folder, os.path.basename(os.fsdecode(name)))
        with open(path, "xb") as file:
            file.write(format_with_markers(merged, b"yours", b"the agent's", b"before"))
        code = subprocess.run(["/bin/sh", "-c", f'{program} "$@"', program, path], check=False, env=environ).returncode
        if code:
            raise CommandFailed(program=program, reason=f"it exited with status {code}; nothing was changed")
        with open(path, "rb") as file:
            text = parse_edited(merged, file.read())
    if text is None:
        raise UsageError(
            message=f"{shown} still contains conflict markers; nothing was changed",
            hint="resolve every conflict and save the file",
        )
    return text
