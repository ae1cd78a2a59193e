"""The git directories of submodules in an agent's git directory."""

import os

from agent_dev.agent_git.repositories import AgentRepository
from agent_dev.fs import read_regular

_MAX_DEPTH, _MAX_DIRECTORIES = 6, 500  # nesting of a submodule's name, searched directories


def list_submodules(source: AgentRepository) -> tuple[AgentRepository, ...]:
    """Return the submodules of a repository, at any depth, each as a repository of its own."""
    top = source.private_dir
    modules = [path.removeprefix(f"{top}/") for path in find_submodule_git_dirs(top)]
    return tuple(source.replace(folder=f"{source.common}/{one}", common=f"{source.common}/{one}", module=one) for one in modules)


def find_submodule_git_dirs(folder: str) -> list[str]:
    """Return the git dirs of submodules in a private git dir, without following links."""
    found: list[str] = []
    tops = [f"{folder}/modules", *(f"{entry.path}/modules" for entry in _subdirectories(f"{folder}/worktrees"))]
    pending = [
        (top, 0)
        for top in tops
        if read_regular.are_real_directories(folder) and read_regular.are_real_directories(os.path.dirname(top), "modules")
    ]
    for count, (path, depth) in enumerate(pending):
        if read_regular.are_real_directories(path, "objects"):
            found.append(path)
        if depth < _MAX_DEPTH and count < _MAX_DIRECTORIES:
            below = _subdirectories(f"{path}/modules" if path in found else path)
            pending += [(entry.path, depth + 1) for entry in below]
    return found


def _subdirectories(path: str) -> "list[os.DirEntry[str]]":
    try:
        return (
            [entry for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
            if read_regular.are_real_directories(path)
            else []
        )
    except OSError:
        return []
