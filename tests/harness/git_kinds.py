"""Work trees of every kind that git knows, each as somebody has it, made by the user's own git."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.harness.new_git import take_new_git
from tests.harness.program import AgentDev


@dataclass(frozen=True, slots=True)
class Place:
    """Where the agent starts, and the options that it is started with."""

    cwd: Path
    options: tuple[str | Path, ...] = ()


Kind = Callable[[AgentDev, Path], Place]


def clone(agent_dev: AgentDev, _: Path) -> Place:
    """A repository as `git init` or `git clone` makes it."""
    return Place(agent_dev.repo)


def sub_directory(agent_dev: AgentDev, _: Path) -> Place:
    """A directory in one."""
    return Place(agent_dev.repo / "sub/deep")


def linked(agent_dev: AgentDev, folder: Path) -> Place:
    """A linked work tree."""
    agent_dev.git("worktree", "add", "-q", "-b", "side", folder / "linked")
    return Place(folder / "linked")


def linked_within(agent_dev: AgentDev, _: Path) -> Place:
    """A linked work tree that lies in the main one."""
    agent_dev.git("worktree", "add", "-q", "-b", "side", agent_dev.repo / ".worktrees/side")
    return Place(agent_dev.repo / ".worktrees/side")


def linked_relatively(agent_dev: AgentDev, folder: Path) -> Place:
    """A linked work tree whose two links are relative, as git 2.48 can make them."""
    place = linked(agent_dev, folder)
    for link, prefix in ((place.cwd / ".git", "gitdir: "), (agent_dev.repo / ".git/worktrees/linked/gitdir", "")):
        target = link.read_text().removeprefix(prefix).strip()
        link.write_text(f"{prefix}{os.path.relpath(target, link.parent)}\n")
    return place


def bare_parent(agent_dev: AgentDev, folder: Path) -> Place:
    """A work tree of a bare repository."""
    agent_dev.git("clone", "-q", "--bare", agent_dev.repo, folder / "shop.git")
    agent_dev.git("worktree", "add", "-q", "-b", "side", folder / "tree", cwd=folder / "shop.git")
    return Place(folder / "tree")


def hidden_bare_parent(agent_dev: AgentDev, folder: Path) -> Place:
    """A work tree beside the bare repository that the directory's `.git` leads to."""
    project = folder / "project"
    agent_dev.git("clone", "-q", "--bare", agent_dev.repo, project / ".bare")
    (project / ".git").write_text("gitdir: ./.bare\n")
    agent_dev.git("worktree", "add", "-q", "-b", "side", "tree", cwd=project)
    return Place(project / "tree")


def submodule(agent_dev: AgentDev, folder: Path) -> Place:
    """A submodule."""
    _with_submodule(agent_dev, folder)
    agent_dev.git("checkout", "-q", "main", cwd=agent_dev.repo / "lib")
    return Place(agent_dev.repo / "lib")


def with_submodule(agent_dev: AgentDev, folder: Path) -> Place:
    """A repository that has one."""
    _with_submodule(agent_dev, folder)
    return Place(agent_dev.repo)


def linked_with_submodule(agent_dev: AgentDev, folder: Path) -> Place:
    """A linked work tree with a submodule, which has a git dir of its own there."""
    _with_submodule(agent_dev, folder)
    place = linked(agent_dev, folder)
    agent_dev.git("-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init", cwd=place.cwd)
    return place


def _with_submodule(agent_dev: AgentDev, folder: Path) -> None:
    agent_dev.git("clone", "-q", agent_dev.repo, folder / "library")
    agent_dev.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", folder / "library", "lib")
    agent_dev.git("commit", "-q", "-m", "Add a library")


def shallow(agent_dev: AgentDev, folder: Path) -> Place:
    """A clone without its older commits."""
    return _cloned(agent_dev, folder, "--depth", "1")


def partial(agent_dev: AgentDev, folder: Path) -> Place:
    """A clone whose objects are fetched when they are needed."""
    agent_dev.git("config", "uploadpack.allowFilter", "true")
    agent_dev.git("config", "uploadpack.allowAnySHA1InWant", "true")
    place = _cloned(agent_dev, folder, "--filter=blob:none")
    return Place(place.cwd, ("--ro", agent_dev.repo))


def sparse(agent_dev: AgentDev, folder: Path) -> Place:
    """A clone of which only some files are checked out."""
    place = _cloned(agent_dev, folder)
    agent_dev.git("sparse-checkout", "set", "--no-cone", "/*", "!/sub/deep", cwd=place.cwd)
    return place


def sparse_cone(agent_dev: AgentDev, folder: Path) -> Place:
    """A clone of which only some directories are checked out."""
    place = _cloned(agent_dev, folder)
    agent_dev.git("sparse-checkout", "set", "--cone", "agents", cwd=place.cwd)
    return place


def sparse_index(agent_dev: AgentDev, folder: Path) -> Place:
    """The same, with an index that has whole directories for entries."""
    place = _cloned(agent_dev, folder)
    agent_dev.git("sparse-checkout", "set", "--cone", "--sparse-index", "agents", cwd=place.cwd)
    return place


def _cloned(agent_dev: AgentDev, folder: Path, *options: str) -> Place:
    agent_dev.git("clone", "-q", *options, f"file://{agent_dev.repo}", folder / "clone")
    return Place(folder / "clone")


def sha256(agent_dev: AgentDev, folder: Path) -> Place:
    """A repository with longer ids."""
    return _made(agent_dev, folder, "--object-format=sha256")


def reftable(agent_dev: AgentDev, folder: Path) -> Place:
    """A repository whose refs are in a reftable."""
    options = take_new_git(agent_dev)
    return Place(_made(agent_dev, folder, "--ref-format=reftable").cwd, options)


def linked_reftable(agent_dev: AgentDev, folder: Path) -> Place:
    """A linked work tree of one, which has a reftable of its own."""
    place = reftable(agent_dev, folder)
    agent_dev.git("worktree", "add", "-q", "-b", "side", folder / "linked", cwd=place.cwd)
    return Place(folder / "linked", place.options)


def separate_git_dir(agent_dev: AgentDev, folder: Path) -> Place:
    """A work tree whose git dir lies elsewhere."""
    return _made(agent_dev, folder, f"--separate-git-dir={folder / 'elsewhere.git'}")


def linked_git_dir(agent_dev: AgentDev, folder: Path) -> Place:
    """A work tree whose `.git` is a symbolic link."""
    (agent_dev.repo / ".git").rename(folder / "elsewhere.git")
    (agent_dev.repo / ".git").symlink_to(folder / "elsewhere.git")
    return Place(agent_dev.repo)


def _made(agent_dev: AgentDev, folder: Path, *options: str) -> Place:
    root = folder / "made"
    (root / "sub").mkdir(parents=True)
    agent_dev.git("init", "-q", *options, cwd=root)
    (root / "README.md").write_text("made\n")
    (root / "sub/app.py").write_text("print('made')\n")
    agent_dev.git("add", "-A", cwd=root)
    agent_dev.git("commit", "-q", "-m", "Make it", cwd=root)
    return Place(root)


def split_index(agent_dev: AgentDev, _: Path) -> Place:
    """An index in two files."""
    agent_dev.git("config", "core.splitIndex", "true")
    agent_dev.git("update-index", "--split-index")
    return Place(agent_dev.repo)


def borrowing(agent_dev: AgentDev, folder: Path) -> Place:
    """A clone that borrows the objects of another repository."""
    agent_dev.git("clone", "-q", "--shared", agent_dev.repo, folder / "clone")
    return Place(folder / "clone")


def packed(agent_dev: AgentDev, _: Path) -> Place:
    """Everything in packs, with all the files that git keeps to be quicker."""
    agent_dev.git("-c", "repack.writeBitmaps=true", "repack", "-q", "-a", "-d", "--write-midx")
    agent_dev.git("commit-graph", "write", "--reachable", "--changed-paths")
    agent_dev.git("pack-refs", "--all")
    return Place(agent_dev.repo)


def unborn(agent_dev: AgentDev, folder: Path) -> Place:
    """A repository without a commit."""
    (folder / "new").mkdir()
    agent_dev.git("init", "-q", cwd=folder / "new")
    (folder / "new/README.md").write_text("new\n")
    return Place(folder / "new")


KINDS: dict[str, Kind] = {
    "a clone": clone,
    "a sub-directory": sub_directory,
    "a linked work tree": linked,
    "a linked work tree within the main one": linked_within,
    "a linked work tree, relative": linked_relatively,
    "a work tree of a bare repository": bare_parent,
    "a work tree beside a hidden bare repository": hidden_bare_parent,
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
    "objects borrowed": borrowing,
    "packed": packed,
    "unborn": unborn,
}
