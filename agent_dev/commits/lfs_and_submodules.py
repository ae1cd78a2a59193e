"""What comes home beside a repository's own objects: contents of Git LFS, and commits of submodules (decision 0024)."""

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from agent_dev.commits.agent_git import commits, quarantine, refs
from agent_dev.commits.agent_git.quarantine import Sides
from agent_dev.commits.destinations import Work
from agent_dev.commits.report import GITLINK, blobs
from agent_dev.commits.submodules import git_dirs
from agent_dev.errors import CommandFailed, RefusedCommits
from agent_dev.git import bare
from agent_dev.git import lfs_objects as large_files
from agent_dev.git import lfs_pointer as pointing
from agent_dev.git import user_refs as users_refs
from agent_dev.git.bare import Bare
from agent_dev.git.formats.commit_format import Told
from agent_dev.git.user_refs import UserGit

_NOWHERE = "it is in no submodule that is here; it stays in the session"


@dataclass(frozen=True, slots=True)
class Submodule:
    """A commit of a submodule that a commit names. `ref`: where it is kept in the submodule; "" when it did not come, `why`."""

    path: bytes
    commit: str
    ref: str = ""
    why: str = ""


@dataclass(slots=True)
class Beside:
    """All of it: what is to come, and what came. `refused`: large files that are not what their names say."""

    submodules: tuple[Submodule, ...] = ()
    refused: list[str] = field(default_factory=list)
    _large: list["_Large"] = field(default_factory=list)
    _checked: list["_Checked"] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many large files there are."""
        return sum(len(some.pointers) for some in self._large)

    def adopt(self) -> None:
        """Put it among the user's: all of it only adds. Raises OSError."""
        for some in self._large:
            for one in some.pointers:
                if not large_files.bring(some.git_dir, some.storage, one):
                    self.refused.append(one.oid)
        for checked in self._checked:
            quarantine.adopt(checked.place, checked.user.folder, tuple(checked.refs.values()), checked.known)
            users_refs.keep(checked.user, checked.refs)


@dataclass(frozen=True, slots=True)
class _Large:
    """Large files out of one git dir of the agent's, and where the user's twin of it keeps them."""

    git_dir: str
    storage: str
    pointers: tuple[pointing.Pointer, ...]


@dataclass(frozen=True, slots=True)
class _Checked:
    """Commits of one submodule in a quarantine: by the refs that they get."""

    place: Bare
    user: UserGit
    refs: dict[str, str]
    known: tuple[str, ...]


@contextmanager
def opened(work: Work, told: tuple[Told, ...], tip: str) -> Iterator[Beside]:
    """Find what has to come with some commits, and check it. Nothing is changed. Raises CommandFailed."""
    folder, git = refs.private_dir(work.review.session, work.review.record), work.review.record["git"]
    if folder is None or git is None:
        yield Beside()
        return
    large = _large(Sides(folder, git["common"], _stores(work)), work.user, work.place, (tip,))
    with ExitStack() as stack:
        modules = _Modules(work, stack, _links(work.place, told) if git_dirs(folder) else {}, [large])
        for one in git_dirs(folder) if modules.left else ():
            modules.check(Sides(one, git["common"] + one.removeprefix(folder), _stores(work)))
        rows = (*modules.rows, *(Submodule(path, oid, why=_NOWHERE) for oid, path in modules.left.items()))
        yield Beside(rows, _large=modules.large, _checked=modules.checked)


def _stores(work: Work) -> tuple[str, ...]:
    return tuple(str(outside) for outside, _ in work.review.record["stores"])


# Large files


def _large(sides: Sides, user: UserGit, place: Bare, tips: tuple[str, ...]) -> _Large:
    """Return what pointers in commits name, that the agent has and the user has not."""
    if not large_files.are_in(sides.agent):
        return _Large(sides.agent, "", ())
    storage = large_files.storage(sides.common, user.config())
    question = _new(user, tips)
    rows = place.ask("rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin", question=question.encode())
    words = ("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)")
    small = []
    for row in place.ask(*words, question=rows).split(b"\n"):
        oid, _, kind = row.partition(b" ")
        what, _, size = kind.partition(b" ")
        if what == b"blob" and int(size) <= pointing.LARGEST:
            small.append(oid.decode("ascii"))
    found = {one for data in blobs(place, small).values() if (one := pointing.parse(data)) is not None}
    wanted = (one for one in found if not large_files.is_there(storage, one) and large_files.is_offered(sides.agent, one))
    return _Large(sides.agent, storage, tuple(sorted(wanted, key=lambda one: one.oid)))


def _new(user: UserGit, tips: tuple[str, ...]) -> str:
    """Return how git is asked for what some commits have and the user has not."""
    return "".join(f"{oid}\n" for oid in tips) + "".join(f"^{oid}\n" for oid in sorted(set(user.values().values())))


# Submodules


def _links(place: Bare, told: tuple[Told, ...], above: bytes = b"") -> dict[str, bytes]:
    """Return the commits of submodules that commits move to, with a path of theirs below that of their own submodule."""
    every = commits.with_files(place, told)
    return {file.new: above + file.path for one in every for file in one.files if file.new_mode == GITLINK}


class _Modules:
    """Commits of submodules by path, those of which nothing is known yet in `left`; and what of them is checked.

    Git dirs are asked from the top down, so what a submodule's own commits name is found in those below its.
    """

    def __init__(self, work: Work, stack: ExitStack, links: dict[str, bytes], large: list[_Large]) -> None:
        self.work, self.stack, self.left, self.large = work, stack, dict(links), large
        self.rows: list[Submodule] = []
        self.checked: list[_Checked] = []

    def check(self, sides: Sides) -> None:
        """See what one git dir of the agent's has that the user's twin of it has not."""
        if not os.path.isfile(f"{sides.common}/HEAD"):
            return
        user = UserGit(sides.common, self.work.user.program, self.work.review.environ)
        for oid in _commits(user, self.left):
            del self.left[oid]
        with bare.temporary(self.work.review.session.folder) as place:
            tips = tuple(_commits(bare.skeleton(place, user.program, sides.agent, sides.stores), self.left))
        if tips:
            paths = {oid: self.left.pop(oid) for oid in tips}
            try:
                self._take(sides, user, paths)
            except (RefusedCommits, CommandFailed) as error:
                self.rows += [Submodule(path, oid, why=str(error)) for oid, path in paths.items()]

    def _take(self, sides: Sides, user: UserGit, paths: dict[str, bytes]) -> None:
        session = self.work.review.session
        place = self.stack.enter_context(quarantine.between(session.folder, sides, user, tuple(paths)))
        large = _large(sides, user, place, tuple(paths))
        for tip, path in paths.items():
            self.left |= _links(place, _told(place, _new(user, (tip,))), path + b"/")
        self.large.append(large)
        names = {f"refs/agent-dev/{session.id}/{oid}": oid for oid in paths}
        self.rows += [Submodule(paths[oid], oid, name) for name, oid in names.items()]
        self.checked.append(_Checked(place, user, names, tuple(sorted(set(user.values().values())))))


def _told(place: Bare, question: str) -> tuple[Told, ...]:
    return commits.read(place, place.ask("rev-list", "--stdin", question=question.encode()).decode("ascii").split())


def _commits(place: Bare | UserGit, ids: Collection[str]) -> list[str]:
    """Return those of some commits that a repository has."""
    question = "".join(f"{oid}^{{commit}}\n" for oid in ids).encode()
    rows = place.run("cat-file", "--batch-check=%(objectname)", question=question)[1].decode("ascii", "replace").split("\n")
    return [row for row in rows if row in ids]
