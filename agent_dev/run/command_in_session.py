"""Run a command in the sandbox of a running session, or on the files of an ended one."""

import os

from agent_dev.environment import BASE_ENV
from agent_dev.paths import is_below
from agent_dev.run import join
from agent_dev.sandbox.joining.service import JoinRequest
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession

_SHELLS = ("/bin/bash", "/bin/sh")


def exec_in_session(one: ListedSession, command: tuple[str, ...], context: CommandContext) -> int | None:
    """Run a command in a running session, in the user's directory if the session shows it; return its exit code.

    None: the session ended first. Raises CannotStart if the command did not start.
    """
    cwd = working_directory(one.record, context.cwd)
    env = tuple((name, context.environ[name]) for name in BASE_ENV if name in context.environ)
    request = JoinRequest(command, cwd, env, in_foreground=False)
    return join.run_joined(
        f"{one.session.folder}/{store.JOIN_SOCKET}", request, one.record["init"], may_copy=one.record.get("clipboard", True)
    )


def working_directory(record: store.Record, cwd: str) -> str:
    """Return the user's directory if a session shows it, else the session's own."""
    return cwd if any(is_below(cwd, root) for root in record["roots"]) else str(record["cwd"])


def shell_of(environ: dict[str, str]) -> str:
    """Return the user's shell if the system has it, which the sandbox shows; else bash or sh."""
    shell = environ.get("SHELL", "")
    candidates = (shell, *_SHELLS) if shell.startswith(("/bin/", "/usr/bin/")) else _SHELLS
    return next(filter(os.path.exists, candidates), _SHELLS[-1])
