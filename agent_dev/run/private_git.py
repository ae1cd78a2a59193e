"""The agent's private git dirs: one for each repository that it is given, none of which is the user's own."""

import os

from agent_dev.errors import StateUnusable
from agent_dev.fs import cache
from agent_dev.git import private_copy as private_git
from agent_dev.git import repository as repo
from agent_dev.run.prepare import Prepared
from agent_dev.sandbox import machine
from agent_dev.sandbox.plan import GitDir, Root
from agent_dev.session import store
from agent_dev.value import Value


class Job(Value):
    """For whom twins are made. `roots`: those with uppers, none where the agent works in the real tree."""

    prepared: Prepared
    session: store.Session
    roots: tuple[Root, ...]
    environ: dict[str, str]  # the user's


def make(job: Job) -> tuple[GitDir, ...]:
    """Make a private twin of each root's git dir, the first one's first; what two roots share has one."""
    found = [(0, job.prepared.place.git), *((n, repo.git_of(root.path)) for n, root in enumerate(job.roots) if n)]
    made: dict[str, GitDir] = {}
    for number, git in found:
        if git is not None and git.common not in made:
            if not made:
                os.mkdir(f"{job.session.folder}/git", 0o700)
            made[git.common] = _twin(job, git, number)
    return tuple(made.values())


def _twin(job: Job, git: repo.Git, number: int) -> GitDir:
    session, prepared = job.session, job.prepared
    is_in_upper = git.inside and number < len(job.roots)
    copy = f"{job.roots[number].upper}/.git" if is_in_upper else f"{session.folder}/git/{number}"
    wish = private_git.Wish(
        source=git.common,
        copy=copy,
        farm=f"{session.folder}/objects",
        name=str(number),
        linked=git.folder if git.is_linked else "",
        roots=(prepared.place.root, *prepared.overlays),
        beside=session.id,
        git=machine.program("git", job.environ, prepared.untrusted) or "",
        environ=tuple(job.environ.items()),
        cache=cache.folder(job.environ),
    )
    made = private_git.make(wish, "" if is_in_upper else git.common)
    if is_in_upper:
        _hide_lower(copy, session)
    return made


def _hide_lower(copy: str, session: store.Session) -> None:
    try:
        os.setxattr(copy, "user.overlay.opaque", b"y")
    except OSError as error:
        hint = "set `state:` in config.yaml to a directory on a local disk"
        raise StateUnusable(path=session.folder, reason=f"no extended attributes ({error.strerror})", hint=hint) from None
