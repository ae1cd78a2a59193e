"""The names of sessions, which are unique among the open sessions of a repository."""

import fcntl
import hashlib
import os

from agent_dev.config.options import RunOptions
from agent_dev.errors import AgentDevError, UsageError
from agent_dev.session import sessions, store

_CLAIMS = "names"  # in the state directory; a starting run locks the byte to which its name hashes


def require_unused_name(options: RunOptions, environ: dict[str, str], prefix: str = "--name ") -> None:
    """Raise UsageError if an open session of this repository has the name `--name`; `prefix` begins the message."""
    try:
        context = sessions.command_context(options, environ)
        found = sessions.open_with_name(context, options.name)
    except AgentDevError:
        return  # the run fails for the same reason and reports it
    if found:
        name, state = options.name, found[0].state
        verbs = ("stop",) if state == store.RUNNING else ("merge", "discard")
        hint = f"use another name, or first {' or '.join(f'agent-dev {verb} {name}' for verb in verbs)}"
        raise UsageError(message=f"{prefix}{name}: a {state} session of this repository has that name", hint=hint)


def claim_name(state: str, root: str, options: RunOptions, environ: dict[str, str]) -> int:
    """Reserve a session's name until its record has it; return the descriptor that holds the reservation. Raises UsageError.

    It is a record lock, which forked processes do not inherit: they may outlive the run and must not keep the name.
    """
    os.makedirs(state, 0o700, exist_ok=True)
    fd = os.open(f"{state}/{_CLAIMS}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    offset = int.from_bytes(hashlib.sha256(os.fsencode(f"{root}\0{options.name}")).digest()[:7], "big")
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
        require_unused_name(options, environ)  # again: another run may have started since the first check
    except BaseException as error:
        os.close(fd)
        if isinstance(error, BlockingIOError):
            message = f"--name {options.name}: another run with that name is starting"
            raise UsageError(message=message, hint="use another name") from None
        raise
    return fd
