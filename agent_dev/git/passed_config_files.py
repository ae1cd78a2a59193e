"""The git settings passed through to an agent, as a system configuration and the files that it names."""

import os

from agent_dev.git import passed_config
from agent_dev.paths import RUN, expand, is_below
from agent_dev.value import Value

# Git's default files in the user's configuration directory.
_DEFAULT_FILES = {passed_config.EXCLUDES_FILE: "ignore", passed_config.ATTRIBUTES_FILE: "attributes"}
_MAX_SIZE = 1 << 20


class PassedConfig(Value):
    """`config` is the system configuration in the sandbox; `files` exist there, too.

    `git_dir_config` is added to the copied git dir's.

    `included_files`: settings files in the work tree that the user's settings include.
    """

    config: bytes = b""
    files: tuple[tuple[str, bytes], ...] = ()
    git_dir_config: bytes = b""
    included_files: tuple[str, ...] = ()


class ConfigUser(Value):
    """The user's identity and environment, and the root that the agent sees."""

    name: str
    home: str
    root: str
    environ: dict[str, str]


def read_passed_config(listing: bytes, user: ConfigUser) -> PassedConfig:
    """Return the settings for an agent from the output of `git config --list -z --show-scope`."""
    listed = passed_config.parse_listing(listing)
    values = passed_config.find_identity(
        listed, user.environ, user.name, os.uname().nodename
    ) | passed_config.select_content_settings(listed)
    files: list[tuple[str, bytes]] = []
    own: dict[str, str] = {}
    for key, name in _DEFAULT_FILES.items():
        path = expand(listed.values.get(key, ""), user.home) or _default_path(name, user)
        if is_below(path, user.root):
            continue  # it is visible in the sandbox at the same path
        data = _read_file(path)
        if data is not None:
            inside_path = f"{RUN}/git-{name}"
            files.append((inside_path, data))
            (own if key in listed.local_keys else values)[key] = inside_path
    return PassedConfig(
        passed_config.format_config(values), tuple(files), passed_config.format_config(own), _included(listed, user)
    )


def _included(listed: passed_config.ListedConfig, user: ConfigUser) -> tuple[str, ...]:
    git = f"{user.root}/.git"  # the agent has a copy of these files
    found = (os.path.realpath(os.path.join(git, expand(path, user.home))) for path in listed.included_files)
    within = (path for path in dict.fromkeys(found) if is_below(path, user.root) and not is_below(path, git))
    return tuple(path for path in within if os.path.isfile(path))


def _default_path(name: str, user: ConfigUser) -> str:
    folder = user.environ.get("XDG_CONFIG_HOME") or f"{user.home}/.config"
    return f"{folder}/git/{name}"


def _read_file(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(fd, _MAX_SIZE)
    except OSError:
        return None  # a directory
    finally:
        os.close(fd)


def append_to_config(git_dir: str, own: bytes) -> None:
    """Append settings to the config of the agent's git dir, for files whose paths differ in the sandbox."""
    if own:
        fd = os.open(f"{git_dir}/config", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.write(fd, b"\n" + own)
        os.close(fd)
