"""Read real keys from a variable, a file, or the output of a command, in the gateway's process. No argument contains a key."""

import os
import stat
import subprocess

from agent_dev.config.credentials import Credential
from agent_dev.linux import syscalls
from agent_dev.linux.programs import find_program
from agent_dev.network.broker.options import BrokerOptions
from agent_dev.paths import expand, is_below

_MAX_SIZE = 65536
_PATIENCE = 60  # seconds for a command


class NoKey(Exception):
    """A key that cannot be read; the text is the reason, and contains no part of the key."""


def check_source(credential: Credential, options: BrokerOptions) -> None:
    """Raise NoKey if a credential's real key cannot be read. A command is only looked up, not run."""
    if not credential.command:
        read_key(credential, options)
        return
    try:
        _find(credential.command[0], options)
    except NoKey as error:
        raise NoKey(f"credentials: {credential.name}: {error}") from None


def read_key(credential: Credential, options: BrokerOptions) -> bytes:
    """Return a credential's real key. Raises NoKey."""
    try:
        if credential.command:
            text = _run(credential.command, options)
        elif credential.file:
            text = _read(os.path.realpath(expand(credential.file, options.home)), options.untrusted)
        else:
            text = options.environ.get(credential.env, "").encode()
            if not text.strip():
                raise NoKey(f"{credential.env} is not set in your environment")
    except NoKey as error:
        raise NoKey(f"credentials: {credential.name}: {error}") from None
    key = text.strip()
    if not key or any(not 0x21 <= byte <= 0x7E for byte in key):
        raise NoKey(f"credentials: {credential.name}: {credential.source} has no key: it must be one line without spaces")
    return key


def _read(path: str, untrusted: tuple[str, ...]) -> bytes:
    if any(is_below(path, folder) for folder in untrusted):
        raise NoKey(f"{path} is readable to the agent")
    try:
        with open(path, "rb", 0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise NoKey(f"{path} is not a file")
            if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise NoKey(f"{path} is open to other users: chmod 600 {path}")
            return file.read(_MAX_SIZE)
    except OSError as error:
        raise NoKey(f"{path}: {error.strerror}") from None


def _find(name: str, options: BrokerOptions) -> str:
    program = find_program(name, options.environ, options.untrusted)
    if program is None:
        raise NoKey(f"{name} is not found in a directory that the agent cannot write to")
    return program


def _run(command: tuple[str, ...], options: BrokerOptions) -> bytes:
    name = command[0]
    program = _find(name, options)
    try:
        done = subprocess.run(
            (program, *command[1:]),
            env=options.environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            preexec_fn=syscalls.die_with_parent,
        )
    except subprocess.TimeoutExpired:
        raise NoKey(f"{name} timed out after {_PATIENCE} s") from None
    except OSError as error:
        raise NoKey(f"{name}: {error.strerror}") from None
    if done.returncode:
        raise NoKey(f"{name} exited with status {done.returncode}")
    return done.stdout[:_MAX_SIZE]
