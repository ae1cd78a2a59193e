"""The agent's private git directory as a value."""

from agent_dev.value import Value


class PrivateGitDir(Value):
    """The agent's private copy of a git dir. `inside_path` is empty if the copy lies in the upper layer of a root.

    `removed_secrets`: names of the settings and files whose passwords or tokens were not copied.
    """

    host_path: str
    inside_path: str
    stores: tuple[tuple[str, str], ...]  # (object directory on the host, path inside)
    lfs_stores: tuple[tuple[str, str], ...] = ()  # the same for LFS objects
    removed_secrets: tuple[str, ...] = ()
