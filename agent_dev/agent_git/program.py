"""The git program of a session."""

from agent_dev.errors import CommandFailed
from agent_dev.linux import programs
from agent_dev.session import store


def find_git(record: store.Record, environ: dict[str, str]) -> str:
    """Return the path of the user's git; never one in a directory that the agent could write to. Raises CommandFailed."""
    program = programs.find_program("git", environ, store.untrusted_paths(record))
    if program is None:
        raise CommandFailed(program="git", reason="it is not installed")
    return program
