"""Work trees of every kind, created by the user's git."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.harness.git.new_git import use_new_git
from tests.harness.program import AgentDev


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The directory in which the agent starts, and the options of the run."""

    cwd: Path
    options: tuple[str | Path, ...] = ()


Kind = Callable[[AgentDev, Path], WorkTree]


def clone(agent_dev: AgentDev, _: Path) -> WorkTree:
    """Create a repository as `git init` or `git clone` does."""
    return WorkTree(agent_dev.repo)


def sub_directory(agent_dev: AgentDev, _: Path) -> WorkTree:
    """Use a subdirectory."""
    return WorkTree(agent_dev.repo / "sub/deep")


def linked(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a linked work tree."""
    agent_dev.git("worktree", "add", "-q", "-b", "side", folder / "linked")
    return WorkTree(folder / "linked")


def linked_within(agent_dev: AgentDev, _: Path) -> WorkTree:
    """Create a linked work tree inside the main one."""
    agent_dev.git("worktree", "add", "-q", "-b", "side", agent_dev.repo / ".worktrees/side")
    return WorkTree(agent_dev.repo / ".worktrees/side")


def linked_relatively(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a linked work tree with two relative links, as git 2.48 can."""
    place = linked(agent_dev, folder)
    for link, prefix in ((place.cwd / ".git", "gitdir: "), (agent_dev.repo / ".git/worktrees/linked/gitdir", "")):
        target = link.read_text().removeprefix(prefix).strip()
        link.write_text(f"{prefix}{os.path.relpath(target, link.parent)}\n")
    return place


def bare_parent(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a work tree of a bare repository."""
    agent_dev.git("clone", "-q", "--bare", agent_dev.repo, folder / "shop.git")
    agent_dev.git("worktree", "add", "-q", "-b", "side", folder / "tree", cwd=folder / "shop.git")
    return WorkTree(folder / "tree")


def hidden_bare_parent(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a work tree next to the bare repository that the directory's `.git` refers to."""
    project = folder / "project"
    agent_dev.git("clone", "-q", "--bare", agent_dev.repo, project / ".bare")
    (project / ".git").write_text("gitdir: ./.bare\n")
    agent_dev.git("worktree", "add", "-q", "-b", "side", "tree", cwd=project)
    return WorkTree(project / "tree")


def submodule(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Use a submodule."""
    _with_submodule(agent_dev, folder)
    agent_dev.git("checkout", "-q", "main", cwd=agent_dev.repo / "lib")
    return WorkTree(agent_dev.repo / "lib")


def with_submodule(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Use a repository with a submodule."""
    _with_submodule(agent_dev, folder)
    return WorkTree(agent_dev.repo)


def linked_with_submodule(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a linked work tree with a submodule, which has its own git directory there."""
    _with_submodule(agent_dev, folder)
    place = linked(agent_dev, folder)
    agent_dev.git("-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init", cwd=place.cwd)
    return place


def _with_submodule(agent_dev: AgentDev, folder: Path) -> None:
    agent_dev.git("clone", "-q", agent_dev.repo, folder / "library")
    agent_dev.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", folder / "library", "lib")
    agent_dev.git("commit", "-q", "-m", "Add a library")


def shallow(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a shallow clone."""
    return _cloned(agent_dev, folder, "--depth", "1")


def partial(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a partial clone, whose objects are fetched on demand."""
    agent_dev.git("config", "uploadpack.allowFilter", "true")
    agent_dev.git("config", "uploadpack.allowAnySHA1InWant", "true")
    place = _cloned(agent_dev, folder, "--filter=blob:none")
    return WorkTree(place.cwd, ("--ro", agent_dev.repo))


def sparse(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a clone with sparse patterns."""
    place = _cloned(agent_dev, folder)
    agent_dev.git("sparse-checkout", "set", "--no-cone", "/*", "!/sub/deep", cwd=place.cwd)
    return place


def sparse_cone(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a clone with sparse directories (cone mode)."""
    place = _cloned(agent_dev, folder)
    agent_dev.git("sparse-checkout", "set", "--cone", "agents", cwd=place.cwd)
    return place


def sparse_index(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a clone with a sparse index."""
    place = _cloned(agent_dev, folder)
    agent_dev.git("sparse-checkout", "set", "--cone", "--sparse-index", "agents", cwd=place.cwd)
    return place


def _cloned(agent_dev: AgentDev, folder: Path, *options: str) -> WorkTree:
    agent_dev.git("clone", "-q", *options, f"file://{agent_dev.repo}", folder / "clone")
    return WorkTree(folder / "clone")


def sha256(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a repository with SHA-256 ids."""
    return _made(agent_dev, folder, "--object-format=sha256")


def reftable(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a repository with a reftable."""
    options = use_new_git(agent_dev)
    return WorkTree(_made(agent_dev, folder, "--ref-format=reftable").cwd, options)


def linked_reftable(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a linked work tree with its own reftable."""
    place = reftable(agent_dev, folder)
    agent_dev.git("worktree", "add", "-q", "-b", "side", folder / "linked", cwd=place.cwd)
    return WorkTree(folder / "linked", place.options)


def separate_git_dir(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a work tree with a separate git directory."""
    return _made(agent_dev, folder, f"--separate-git-dir={folder / 'elsewhere.git'}")


def linked_git_dir(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a work tree whose `.git` is a symlink."""
    (agent_dev.repo / ".git").rename(folder / "elsewhere.git")
    (agent_dev.repo / ".git").symlink_to(folder / "elsewhere.git")
    return WorkTree(agent_dev.repo)


def _made(agent_dev: AgentDev, folder: Path, *options: str) -> WorkTree:
    root = folder / "made"
    (root / "sub").mkdir(parents=True)
    agent_dev.git("init", "-q", *options, cwd=root)
    (root / "README.md").write_text("made\n")
    (root / "sub/app.py").write_text("print('made')\n")
    agent_dev.git("add", "-A", cwd=root)
    agent_dev.git("commit", "-q", "-m", "Make it", cwd=root)
    return WorkTree(root)


def split_index(agent_dev: AgentDev, _: Path) -> WorkTree:
    """Use a split index."""
    agent_dev.git("config", "core.splitIndex", "true")
    agent_dev.git("update-index", "--split-index")
    return WorkTree(agent_dev.repo)


def with_alternates(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a clone that borrows the objects of another repository."""
    agent_dev.git("clone", "-q", "--shared", agent_dev.repo, folder / "clone")
    return WorkTree(folder / "clone")


def packed(agent_dev: AgentDev, _: Path) -> WorkTree:
    """Pack everything, with all auxiliary files of git."""
    agent_dev.git("-c", "repack.writeBitmaps=true", "repack", "-q", "-a", "-d", "--write-midx")
    agent_dev.git("commit-graph", "write", "--reachable", "--changed-paths")
    agent_dev.git("pack-refs", "--all")
    return WorkTree(agent_dev.repo)


def unborn(agent_dev: AgentDev, folder: Path) -> WorkTree:
    """Create a repository without a commit."""
    (folder / "new").mkdir()
    agent_dev.git("init", "-q", cwd=folder / "new")
    (folder / "new/README.md").write_text("new\n")
    return WorkTree(folder / "new")


KINDS: dict[str, Kind] = {
    "a clone": clone,
    "a sub-directory": sub_directory,
    "a linked work tree": linked,
    "a linked work tree within the main one": linked_within,
    "a linked work tree, relative": linked_relatively,
    "a work tree of a bare repository": bare_parent,
    "a work tree next to a hidden bare repository": hidden_bare_parent,
    "a submodule": submodule,
    "with a submodule": with_submodule,
    "a linked work tree with a submodule": linked_with_submodule,
    "a shallow clone": shallow,
    "a partial clone": partial,
    "sparse, patterns": sparse,
    "sparse, cone": sparse_cone,
    "sparse index": sparse_index,
    "sha256": sha256,
    "a reftable": reftable,
    "a linked work tree of a reftable": linked_reftable,
    "a separate git dir": separate_git_dir,
    "a git dir behind a link": linked_git_dir,
    "a split index": split_index,
    "objects borrowed": with_alternates,
    "packed": packed,
    "unborn": unborn,
}
