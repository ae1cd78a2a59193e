"""The agent's private git dirs, one copy for each of its repositories."""

import os

from agent_dev.errors import UnusableStateDirectory
from agent_dev.fs import cache
from agent_dev.git import private_copy, repository
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.git.secret_removal import STASH
from agent_dev.linux import programs
from agent_dev.run.request import PreparedRun
from agent_dev.sanitize import visible
from agent_dev.session import store
from agent_dev.session.root import Root
from agent_dev.value import Value

_MAX_NAMES = 5


class CopyJob(Value):
    """The session for which private copies are made. `roots`: those with upper layers, none in direct mode."""

    prepared: PreparedRun
    session: store.Session
    roots: tuple[Root, ...]
    environ: dict[str, str]  # the user's


GitDirs = tuple[tuple[int, repository.WorkTreeGitDir], ...]  # with the number of the first root that each belongs to


def find_git_dirs(first: repository.WorkTreeGitDir | None, others: tuple[str, ...]) -> GitDirs:
    """Return the git dirs of the roots, each once. `first`: that of the first root; `others`: the paths of the other roots."""
    found = [(0, first), *((number, repository.find_git_dir(path)) for number, path in enumerate(others, start=1))]
    unique: dict[str, tuple[int, repository.WorkTreeGitDir]] = {}
    for number, git in found:
        if git is not None:
            unique.setdefault(git.common, (number, git))
    return tuple(unique.values())


def record_fields(
    git_dirs: GitDirs, copies: tuple[PrivateGitDir, ...], roots: tuple[Root, ...], *, is_direct: bool
) -> "store.GitFields":
    """Return the fields of a session's record about its git dirs. `copies`: those of the git dirs first."""
    return {
        "git": [
            {"root": number, "folder": git.folder, "common": git.common, "inside": git.inside and not is_direct}
            for number, git in git_dirs
        ],
        "stores": [list(pair) for one in copies for pair in one.stores],
        "large": [list(pair) for one in copies for pair in one.lfs_stores],
        "copies": [n for n, root in enumerate(roots) if any(one.host_path == f"{root.upper}/.git" for one in copies)],
        "bound": [[one.host_path, one.inside_path] for one in copies[len(git_dirs) :] if one.inside_path],
    }


def make_copies(job: CopyJob) -> tuple[PrivateGitDir, ...]:
    """Make a private copy of each root's git dir, the first root's first; roots that share a git dir share the copy."""
    git_dirs = find_git_dirs(job.prepared.location.git, tuple(root.path for root in job.roots[1:]))
    if job.prepared.nested_repositories or git_dirs:
        os.mkdir(f"{job.session.folder}/git", 0o700)
    copies = {git.common: _copy(job, git, number) for number, git in git_dirs}
    for number, nested in enumerate(job.prepared.nested_repositories, start=1):  # only in direct mode, which has one root
        path = f"{job.prepared.location.root}/{nested.path}"
        if nested.kind == "directory" and path not in copies:
            copies[path] = _copy(job, repository.WorkTreeGitDir(path, path, inside=False), number, has_object_links=False)
    return tuple(copies.values())


def left_out_notice(copies: tuple[PrivateGitDir, ...]) -> str:
    """Return a line about secrets and a stash missing from the agent's git directories; "" if nothing is missing."""
    names = dict.fromkeys(name for one in copies for name in one.removed_secrets)
    secrets = [visible(name) for name in names if name != STASH]
    more = f" and {len(secrets) - _MAX_NAMES} more" if len(secrets) > _MAX_NAMES else ""
    parts = [f"passwords or tokens in {', '.join(secrets[:_MAX_NAMES])}{more}"] if secrets else []
    parts += ["your stash"] if STASH in names else []
    return f"not in the agent's git directory: {'; '.join(parts)}" if parts else ""


def preview_copy(prepared: PreparedRun) -> tuple[PrivateGitDir, ...]:
    """Return what a run would make of the first root's git dir, in a temporary directory that is removed again."""
    from tempfile import TemporaryDirectory  # only for `show`

    git = prepared.location.git
    if git is None:
        return ()
    with TemporaryDirectory(prefix="agent-dev-show-") as folder:
        spec = private_copy.CopyRequest(
            git.common, f"{folder}/copy", f"{folder}/objects", "0", roots=(prepared.location.root,), uses_links=False
        )
        return (private_copy.create_private_copy(spec, ""),)


def _copy(job: CopyJob, git: repository.WorkTreeGitDir, number: int, *, has_object_links: bool = True) -> PrivateGitDir:
    session, prepared = job.session, job.prepared
    is_in_upper = git.inside and number < len(job.roots)
    copy = f"{job.roots[number].upper}/.git" if is_in_upper else f"{session.folder}/git/{number}"
    spec = private_copy.CopyRequest(
        source=git.common,
        copy=copy,
        links_dir=f"{session.folder}/objects",
        store_name=str(number),
        linked_git_dir=git.folder if git.is_linked else "",
        roots=(prepared.location.root, *prepared.overlays),
        outside_prefix=session.id,
        program=programs.find_program("git", job.environ, prepared.untrusted_paths) or "",
        environ=tuple(job.environ.items()),
        cache_dir=cache.folder(job.environ),
        uses_links=has_object_links,
    )
    if not is_in_upper:
        return private_copy.create_private_copy(spec, git.common)
    git_dir = _create_in_upper(spec, job.roots[number].upper)
    make_opaque(copy, session)
    return git_dir


def _create_in_upper(spec: private_copy.CopyRequest, upper: str) -> PrivateGitDir:
    """Make a copy in an upper, which has the mode of its root: that may forbid its owner to create entries."""
    mode = os.stat(upper).st_mode & 0o7777
    os.chmod(upper, mode | 0o700)
    try:
        return private_copy.create_private_copy(spec, "")
    finally:
        os.chmod(upper, mode)


def make_opaque(copy: str, session: store.Session) -> None:
    """Let a private git directory in an upper layer hide the user's. Raises UnusableStateDirectory."""
    try:
        os.setxattr(copy, "user.overlay.opaque", b"y")
    except OSError as error:
        hint = "set `state:` in config.yaml to a directory on a local disk"
        raise UnusableStateDirectory(
            path=session.folder, reason=f"no extended attributes ({error.strerror})", hint=hint
        ) from None
