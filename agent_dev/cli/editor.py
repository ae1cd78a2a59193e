"""Resolve a conflict in the user's editor, with git's conflict markers; show a copy of a file there."""

import os
import subprocess
import tempfile
from collections.abc import Mapping

from agent_dev.diff.merge3 import LineMerge, format_with_markers, parse_edited
from agent_dev.errors import AgentDevError, CommandFailed, UsageError
from agent_dev.fs.entry import Key
from agent_dev.merge import select_by_options
from agent_dev.merge.review import Review

_TAKE_LINE = ("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "mg", "less")  # as +LINE


def resolve_in_editor(review: Review, key: Key, environ: dict[str, str]) -> bytes:
    """Open a session's conflict in an editor and return the resolved text.

    Raises UsageError, CommandFailed, AgentDevError if conflict markers are left.
    """
    reconciliation, shown = review.reconciliations.get(key), key.path.decode("utf-8", "replace")
    if reconciliation is None or reconciliation.merged is None or reconciliation.merged.is_clean:
        change = review.changes.by_key().get(key)
        if change is not None and change.conflict and reconciliation is None:
            raise select_by_options.not_resolvable(review, change)
        raise UsageError(message=f"{shown} has no conflicting lines", hint="resolve it with yours or agent")
    resolved = parse_edited(reconciliation.merged, _edit(key.path, _with_markers(reconciliation.merged), environ))
    if resolved is None:
        message = f"{shown} still contains conflict markers; nothing was changed"
        raise AgentDevError(message=message, hint="resolve every conflict and save the file")
    return resolved


class ConflictEditor:
    """Opens the conflicts of a review in an editor. A text that still contains conflict markers is kept, to be edited further."""

    def __init__(self) -> None:
        self._unfinished: dict[Key, tuple[LineMerge, bytes]] = {}

    def edit(self, key: Key, merged: LineMerge, environ: Mapping[str, str], earlier: bytes | None) -> bytes:
        """Open a merge in `$VISUAL`, `$EDITOR` or vi at its first conflict and return the resolved text.

        `earlier`: the text that resolved it before, to be edited further. Raises UsageError, CommandFailed.
        """
        before, text = self._unfinished.get(key, (merged, earlier))
        if before != merged:  # the user's file has changed since: the text lacks that
            text = earlier
        edited = _edit(key.path, _with_markers(merged) if text is None else text, environ)
        resolved = parse_edited(merged, edited)
        if resolved is None:
            self._unfinished[key] = merged, edited
            raise UsageError(message="conflict markers left: not resolved yet (e: edit your text again)")
        return resolved

    def drop(self, key: Key) -> None:
        """Drop the unfinished text of a conflict that was resolved."""
        self._unfinished.pop(key, None)


def _with_markers(merged: LineMerge) -> bytes:
    return format_with_markers(merged, b"yours", b"the agent's", b"before")


def _edit(name: bytes, text: bytes, environ: Mapping[str, str]) -> bytes:
    """Open a text in the editor at its first conflict and return it as saved."""
    program = _program(environ)
    line = next((number for number, one in enumerate(text.split(b"\n"), 1) if one.startswith(b"<<<<<<<")), 1)
    with tempfile.TemporaryDirectory(prefix="agent-dev-") as folder:
        path = os.path.join(folder, os.path.basename(os.fsdecode(name)))
        with open(path, "xb") as file:
            file.write(text)
        _run(program, (*_line_option(program, line), path), environ)
        with open(path, "rb") as file:
            return file.read()


def view_file(name: bytes, data: bytes | None, line: int, environ: Mapping[str, str]) -> None:
    """Open a read-only copy of a file in the editor, at a line where the editor is known to take one. Raises CommandFailed."""
    if data is None:
        raise CommandFailed(program=_program(environ), reason="the file is too large or cannot be read")
    program = _program(environ)
    with tempfile.TemporaryDirectory(prefix="agent-dev-") as folder:
        path = os.path.join(folder, os.path.basename(os.fsdecode(name)))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with open(fd, "wb") as file:
            file.write(data)
        _run(program, (*_line_option(program, line), path), environ)


def _line_option(program: str, line: int) -> tuple[str, ...]:
    command = os.path.basename(program.split(maxsplit=1)[0]) if program.split() else ""
    return (f"+{line}",) if command in _TAKE_LINE else ()


def _program(environ: Mapping[str, str]) -> str:
    return environ.get("VISUAL") or environ.get("EDITOR") or "vi"


def _run(program: str, arguments: tuple[str, ...], environ: Mapping[str, str]) -> None:
    """Run the editor as git does: by the shell, since `$EDITOR` may contain options. Raises CommandFailed."""
    code = subprocess.run(["/bin/sh", "-c", f'{program} "$@"', program, *arguments], check=False, env=environ).returncode
    if code:
        raise CommandFailed(program=program, reason=f"it exited with status {code}; nothing was changed")
