"""The commits of an agent, read without running git in a directory that the agent can write to (decision 0005).

Refs are parsed here; objects (regular files only) are hard-linked into a repository of ours, where git reads them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain

from agent_dev.agent_git import changes as git_changes
from agent_dev.agent_git import current_refs, imported_branches, refs
from agent_dev.agent_git.changes import GitChanges, RefChange, Tips
from agent_dev.agent_git.program import find_git
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.git import bare, user_refs
from agent_dev.git.bare import BareRepository
from agent_dev.git.commit_reader import _add_files, _Rows, _start_diff, _start_read
from agent_dev.git.formats.commit_format import Commit, parse_log
from agent_dev.quick_dataclass import replace
from agent_dev.session import store

MAX_COMMITS = 1000
_MANY_FETCHED = 100_000
_MAX_BRANCHES = 4  # of the user and of the agent whose patches are compared
_MAX_COMPARED = 300  # new commits of the user on such a branch


def list_commits(
    source: AgentRepository, environ: dict[str, str], *, without_imported: bool = False, limit: int = MAX_COMMITS
) -> tuple[Commit, ...]:
    """Return the agent's own commits in a repository, newest first, without fetched ones.

    `without_imported`: also omit commits that are already imported unchanged or in one of the user's branches, and mark those
    that were imported as other commits or declined.

    Raises CommandFailed.
    """
    tips = _tips(source, environ)
    branches: tuple[str, ...] = ()
    if without_imported and tips.new:
        tips, branches = _without_imported(tips, source, environ)
    if not tips.new:
        return ()
    with open_agent_objects(source, environ) as repo:
        fetched = _fetched(repo, tips)
        args = ("log", f"-{limit + len(fetched)}", "-z", "--format=%H%n%s", "--ignore-missing", "--stdin")
        commits = parse_log(repo.check_output(*args, stdin=_rev_list_input(tips.new, tips.old)))
        made = tuple(commit for commit in commits if commit.id not in fetched)[:limit]
        if not (without_imported and made):
            return made
        imported, declined = _find_imported(source, repo, tips, branches), imported_branches.read_declined_commits(source)
        return tuple(replace(one, is_imported=one.id in imported, is_declined=one.id in declined) for one in made)


def list_undecided(source: AgentRepository, environ: dict[str, str]) -> tuple[Commit, ...]:
    """Return the agent's own commits that were neither imported nor declined, newest first. Raises CommandFailed."""
    made = list_commits(source, environ, without_imported=True, limit=_MANY_FETCHED)
    return tuple(one for one in made if not (one.is_imported or one.is_declined))


def list_session_commits(
    session: store.Session, record: store.Record, environ: dict[str, str], *, without_imported: bool = False
) -> tuple[Commit, ...]:
    """Return the agent's own commits in all repositories of a session, as `list_commits` does."""
    sources = list_repositories(session, record)
    found = [list_commits(source, environ, without_imported=without_imported) for source in sources]
    if len(sources) > 1:
        roots = record["roots"]
        found = [
            tuple(replace(one, place=roots[source.root]) for one in made) for source, made in zip(sources, found, strict=True)
        ]
    return tuple(chain.from_iterable(found))


def read_changes(source: AgentRepository, repo: BareRepository, environ: dict[str, str]) -> GitChanges:
    """Return all changes of the agent's git dir, read through `repo`. Raises CommandFailed if git cannot read it."""
    with start_read(source, repo, environ) as finish:
        return finish()


@contextmanager
def start_read(source: AgentRepository, repo: BareRepository, environ: dict[str, str]) -> Iterator[Callable[[], GitChanges]]:
    """Start the slowest query, the files of commits; yield a function that waits for it and returns all changes."""
    folder = current_refs.find_refs_dir(source, environ)
    before, after = refs.read_initial_refs(source), current_refs.read_refs(source, environ)
    known_stashes = refs.read_initial_stashes(source)
    stashes = tuple(entry for entry in git_changes.parse_stashes(refs.read_stash_log(folder)) if entry.id not in known_stashes)
    imported = imported_branches.read_imported_branches(source)
    tips = _tips(source, environ)
    tips, branches = _without_imported(tips, source, environ) if tips.new else (tips, ())
    fetched = _fetched(repo, tips)
    reachable = (
        _rev_list(repo, _rev_list_input(tips.new, tips.old), MAX_COMMITS + 1 + len(fetched), "--parents") if tips.new else []
    )
    rows = [row for row in reachable if row[0] not in fetched][: MAX_COMMITS + 1]
    ids = [row[0] for row in rows]
    remote = list_reachable(repo, tips.remote, tips.old, _MANY_FETCHED) if tips.remote and ids else frozenset()
    with _start_read(repo, ids) as finish_read, _start_diff(repo, rows) as finish_diff:
        changes = GitChanges(
            (),
            tuple(entry for entry in git_changes.compare_refs(before, after) if _is_reported(entry, imported)),
            stashes,
            refs.list_operations_in_progress(source, folder),
            git_changes.parse_head_branch(after.get("HEAD", "")),
            git_changes.parse_head_branch(before.get("HEAD", "")),
            is_truncated=len(ids) > MAX_COMMITS,
            fetched_count=len(fetched),
            remote_ids=remote.intersection(ids),
            imported_ids=_find_imported(source, repo, tips, branches).intersection(ids) if ids else frozenset(),
            declined_ids=imported_branches.read_declined_commits(source).intersection(ids) if ids else frozenset(),
        )
        yield lambda: replace(changes, commits=_add_files(finish_read(), finish_diff())[:MAX_COMMITS])


def _without_imported(tips: Tips, source: AgentRepository, environ: dict[str, str]) -> tuple[Tips, tuple[str, ...]]:
    """Return the tips without commits that are imported, or in a branch of the user's by now; and the tips of these."""
    branches = user_refs.UserGit(source.folder, find_git(source.record, environ), environ).read_branches()
    imported = imported_branches.read_imported_branches(source)
    old = tuple(dict.fromkeys((*tips.old, *imported.values(), *branches.values())))
    return replace(tips, old=old), tuple(dict.fromkeys(branches.values()))


def _find_imported(source: AgentRepository, repo: BareRepository, tips: Tips, branches: tuple[str, ...]) -> frozenset[str]:
    """Return the commits that the user has under other ids: those picked by an import, and those with the same patch.

    `branches`: the tips of the user's branches; patches are compared with those of a limited number of new commits there.
    """
    initial = {*refs.read_initial_refs(source).values()}
    moved = [oid for oid in branches if oid not in initial]
    found: set[str] = set()
    for end, ids in imported_branches.read_imported_commits(source).items():
        code, output, _ = repo.run("rev-list", "-1", end, "--not", *branches)
        found |= ids if not (code or output) else frozenset()  # else the user deleted the branch
    for yours in moved[:_MAX_BRANCHES]:
        for tip in tips.new[:_MAX_BRANCHES]:
            code, output, _ = repo.run("rev-list", f"-{_MAX_COMPARED + 1}", yours, f"^{tip}")
            if code or not 0 < output.count(b"\n") <= _MAX_COMPARED:
                continue
            code, output, _ = repo.run("rev-list", "--cherry-mark", "--right-only", "--no-merges", f"{yours}...{tip}")
            marked = output.decode("ascii", "replace").split() if not code else ()
            found |= {line[1:] for line in marked if line.startswith("=")}
    return frozenset(found)


def _is_reported(ref: RefChange, imported: Mapping[str, str]) -> bool:
    """Return whether to report a changed ref: all except the stash and refs whose current commit was imported."""
    return ref.name != "refs/stash" and (ref.name not in imported or imported[ref.name] != ref.after)


def _tips(source: AgentRepository, environ: dict[str, str]) -> Tips:
    """Return the ids to which the agent's refs point now but did not at the start."""
    return git_changes.compute_tips(refs.read_initial_refs(source), current_refs.read_refs(source, environ))


def _rev_list_input(new: tuple[str, ...], *old: tuple[str, ...]) -> bytes:
    return ("".join(f"{oid}\n" for oid in new) + "".join(f"^{oid}\n" for ids in old for oid in ids)).encode()


def _rev_list(repo: BareRepository, stdin: bytes, limit: int, *options: str) -> _Rows:
    args = ("rev-list", f"-{limit}", *options, "--ignore-missing", "--stdin")
    return [line.split(" ") for line in repo.check_output(*args, stdin=stdin).decode("ascii", "replace").splitlines()]


def list_reachable(repo: BareRepository, new: tuple[str, ...], old: tuple[str, ...], limit: int) -> frozenset[str]:
    """Return at most `limit` commits that are reachable from `new` and not from `old`. Raises CommandFailed."""
    return frozenset(row[0] for row in _rev_list(repo, _rev_list_input(new, old), limit))


def _fetched(repo: BareRepository, tips: Tips) -> frozenset[str]:
    """Return the commits that are on remote branches only: the agent fetched them."""
    if not tips.remote:
        return frozenset()
    return frozenset(row[0] for row in _rev_list(repo, _rev_list_input(tips.remote, tips.own, tips.old), _MANY_FETCHED))


@contextmanager
def open_agent_objects(source: AgentRepository, environ: dict[str, str]) -> Iterator[BareRepository]:
    """Yield a repository of ours that links the objects of the agent's git dir. Raises CommandFailed."""
    with bare.temporary_directory(source.session.folder) as parent:
        stores = (*source.stores, f"{source.common}/objects")  # the last has what the user committed since the start
        yield bare.create_linked(parent, find_git(source.record, environ), source.private_dir, stores)
