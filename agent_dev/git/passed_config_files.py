"""The user's git settings that an agent gets: as a configuration of the system's, and files that it names."""

import os

from agent_dev.git import passed_config as handed
from agent_dev.sandbox.plan import RUN, expand, is_below
from agent_dev.value import Value

# What git looks for where nothing is configured (git: git_path, "ignore" and "attributes" in the user's configuration).
_FILES = {handed.IGNORED: "ignore", handed.ATTRIBUTES: "attributes"}
_LARGEST = 1 << 20


class Handed(Value):
    """`config` is the system's configuration inside; `files` are there too. `own`: what the copy of the git dir says besides."""

    config: bytes = b""
    files: tuple[tuple[str, bytes], ...] = ()
    own: bytes = b""


class User(Value):
    """Whose settings they are, and the root that the agent sees."""

    name: str
    home: str
    root: str
    environ: dict[str, str]


def read(listing: bytes, user: User) -> Handed:
    """Return what an agent gets, from `git config --list -z --show-scope`."""
    listed = handed.parse(listing)
    values = handed.author(listed, user.environ, user.name, os.uname().nodename) | handed.content(listed)
    files: list[tuple[str, bytes]] = []
    own: dict[str, str] = {}
    for key, name in _FILES.items():
        path = expand(listed.values.get(key, ""), user.home) or _default(name, user)
        if is_below(path, user.root):
            continue  # as the repository says it itself
        data = _content(path)
        if data is not None:
            place = f"{RUN}/git-{name}"
            files.append((place, data))
            (own if key in listed.local else values)[key] = place
    return Handed(handed.text(values), tuple(files), handed.text(own))


def _default(name: str, user: User) -> str:
    folder = user.environ.get("XDG_CONFIG_HOME") or f"{user.home}/.config"
    return f"{folder}/git/{name}"


def _content(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(fd, _LARGEST)
    except OSError:
        return None  # a directory
    finally:
        os.close(fd)


def say(git_dir: str, own: bytes) -> None:
    """Let the agent's copy of a git dir name the files inside, where the repository's own settings name the user's."""
    if own:
        fd = os.open(f"{git_dir}/config", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.write(fd, b"\n" + own)
        os.close(fd)
