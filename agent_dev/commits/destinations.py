"""Destinations of a session's commits: refs, their new targets, and the commits created for them."""

import shlex
from collections.abc import Mapping
from itertools import pairwise

from agent_dev.agent_git import current_refs, imported_branches, refs
from agent_dev.agent_git.changes import HEADS
from agent_dev.agent_git.repositories import AgentRepository
from agent_dev.commits import targets
from agent_dev.commits.targets import AgentBranch, ImportOptions, PickedCommits
from agent_dev.errors import CannotImport, CommitsAlreadyKept, UsageError
from agent_dev.git import commit_message, commit_reader, replay
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.git.replay import CommitMaker
from agent_dev.git.updates import RefUpdate
from agent_dev.git.user_refs import UserGit
from agent_dev.merge.review import Review
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import store


@dataclass(frozen=True, slots=True)
class RefDestination:
    """The update of a ref; `is_here`: it is the checked-out branch. `reason` and `next_command`: as in ImportResult."""

    update: RefUpdate
    is_here: bool = False
    reason: str = ""
    next_command: str = ""
    imported_branch: tuple[str, str] = ("", "")  # the agent's ref that is imported entirely, and its commit
    imported_commits: tuple[str, ...] = ()  # the agent's commits that are imported one by one


@dataclass(frozen=True, slots=True)
class IncomingCommits:
    """The agent's commits to import, the oldest first; a branch leads from `start` ("": the root) to `end`."""

    commits: tuple[ParsedCommit, ...]
    start: str = ""
    end: str = ""


@dataclass(slots=True)
class ImportContext:
    """The context of an import from one repository of a session."""

    review: Review
    source: AgentRepository
    options: ImportOptions
    user_git: UserGit
    config: dict[str, str]
    repo: BareRepository
    trailers: tuple[tuple[str, str], ...]

    @property
    def root(self) -> int:
        """The number of the root that is the work tree."""
        return self.source.root

    @property
    def label(self) -> str:
        """Return the session's name, or its id."""
        return str(self.review.record["name"] or self.review.session.id)


# Destinations


def format_commits_value(options: ImportOptions) -> str:
    """Return the value of --commits, for a suggested command."""
    return f" {options.commit_args[0]}" if len(options.commit_args) == 1 and options.commit_args[0] else ""


def format_import_options(options: ImportOptions) -> str:
    """Return the value of the first --commits and the other options, for a suggested command."""
    args = [*(f"{' --commits ' if number else ' '}{shlex.quote(arg)}" for number, arg in enumerate(options.commit_args) if arg)]
    args += [f" --as {shlex.quote(options.branch_name)}"] if options.branch_name else []
    args += [" --squash"] if options.squash else []
    args += [f" -m {shlex.quote(options.message)}"] if options.message else []
    args += [" --onto-current"] if options.onto_current else []
    return "".join(args)


def plan_branch(work: ImportContext, branch: AgentBranch) -> RefDestination:
    """Return the destination of an agent's branch. Raises CannotImport, UsageError or ConflictError."""
    if work.options.branch_name:
        return _new_branch(work, branch)
    current = work.user_git.read_refs(branch.name).get(branch.name, "") if branch.name.startswith(HEADS) else ""
    if not current:
        return _missing_branch(work, branch)
    if current == branch.tip or _is_ancestor(work, branch.tip, current):
        raise _no_new_commits(work, branch)
    is_here = work.user_git.read_head_branch() == branch.name
    if not is_here and _is_checked_out(work, branch.name):
        return _keep_as_ref(work, branch, "the branch is checked out in another work tree")
    if _is_ancestor(work, current, branch.tip) and not _has_removed_commits(work, branch, current):
        return RefDestination(RefUpdate(branch.name, current, _fast_forward(work, branch, current)), is_here)
    return _diverged(work, branch, current, is_here=is_here)


def _missing_branch(work: ImportContext, branch: AgentBranch) -> RefDestination:
    """Return the destination of a branch that the user does not have: a new one, or one without a commit."""
    if not branch.name.startswith(HEADS):
        return _keep_as_ref(work, branch, "" if work.options.commit_args[0] else "the session started with a detached HEAD")
    if not branch.before and work.user_git.read_head_branch() == branch.name:
        return RefDestination(RefUpdate(branch.name, "", _fast_forward(work, branch, "")), is_here=True)
    return _keep_as_ref(work, branch, "" if work.options.commit_args[0] else "the branch was deleted")


def _no_new_commits(work: ImportContext, branch: AgentBranch) -> CannotImport:
    name, rest = branch.name.removeprefix(HEADS), list_other_branches(work, branch.name)
    hint = f"agent-dev merge {work.label} --commits {rest[0]} --as NAME" if rest else "list the commits: agent-dev commits"
    return CannotImport(message=f"no new commits on {name}", hint=hint)


def _nothing_remains(branch: AgentBranch) -> CannotImport:
    name = branch.name.removeprefix(HEADS)
    return CannotImport(message=f"{name} is unchanged: your resolutions leave nothing of the agent's commits", hint="")


def _diverged(work: ImportContext, branch: AgentBranch, current: str, *, is_here: bool) -> RefDestination:
    if work.options.onto_current:
        new = _rebase_or_merge(work, branch, current)
        if new == current:
            raise _nothing_remains(branch) if work.options.resolutions else _no_new_commits(work, branch)
        return RefDestination(RefUpdate(branch.name, current, new), is_here)
    if imported_branches.read_imported_branches(work.source).get(branch.name) == branch.tip:
        raise _no_new_commits(work, branch)  # they were imported as other commits
    reason = "the branch has new commits" if current != branch.before else "the agent dropped commits that the branch has"
    reason = "you removed commits that the agent's branch has" if _has_removed_commits(work, branch, current) else reason
    return _keep_as_ref(
        work, branch, reason, next_=f"agent-dev merge {work.label} --commits{format_commits_value(work.options)} --onto-current"
    )


def _has_removed_commits(work: ImportContext, branch: AgentBranch, current: str) -> bool:
    """Return whether the user removed commits from a branch that the agent's still has: a fast-forward would restore them."""
    before = branch.before
    return bool(before) and before != current and _is_ancestor(work, current, before) and _is_ancestor(work, before, branch.tip)


def _is_ancestor(work: ImportContext, one: str, other: str) -> bool:
    return not work.repo.run("merge-base", "--is-ancestor", one, other)[0]


def list_other_branches(work: ImportContext, excluded: str) -> list[str]:
    """Return the agent's branches that have new commits."""
    before, after = refs.read_initial_refs(work.source), current_refs.read_refs(work.source, work.review.environ)
    known_tips = before | imported_branches.read_imported_branches(work.source)
    changed = [name for name in after if name.startswith(HEADS) and name != excluded and known_tips.get(name) != after[name]]
    return [name.removeprefix(HEADS) for name in sorted(changed)]


def _is_checked_out(work: ImportContext, name: str) -> bool:
    """Return whether a branch is checked out in any of the user's work trees."""
    _, output, _ = work.user_git.run("worktree", "list", "--porcelain", "-z")
    return f"branch {name}".encode("utf-8", "surrogateescape") in output.split(b"\0")


def _keep_as_ref(work: ImportContext, branch: AgentBranch, reason: str = "", next_: str = "") -> RefDestination:
    if work.options.squash or work.options.onto_current:
        cause = reason or f"{branch.name} is not a branch of yours"
        raise CannotImport(message=f"{cause}; nothing was imported", hint=next_ or "import it as a new branch: --as NAME")
    name = targets.kept_ref_name(work.review.session.id, branch.name)
    old = work.user_git.read_refs(name).get(name, "")
    if old == branch.tip:
        raise CommitsAlreadyKept(
            reason=reason or "already imported",
            ref=name,
            path=work.source.path,
            commit=old,
            hint=next_ or f"git branch NAME {name}",
        )
    return RefDestination(RefUpdate(name, old, branch.tip), reason=reason, next_command=next_ or f"git branch NAME {name}")


def _new_branch(work: ImportContext, branch: AgentBranch) -> RefDestination:
    name = f"{HEADS}{work.options.branch_name}"
    code, _, _ = work.user_git.run("check-ref-format", "--branch", work.options.branch_name)
    if code:
        raise UsageError(message=f"--as {work.options.branch_name}: invalid branch name", hint="git help check-ref-format")
    if work.user_git.read_refs(name):
        raise CannotImport(message=f"the branch {work.options.branch_name} exists already", hint="use another name: --as NAME")
    start = branch.before or find_fork_point(work, branch.tip)
    return RefDestination(RefUpdate(name, "", _fast_forward(work, branch, start)))


def find_fork_point(work: ImportContext, tip: str) -> str:
    """Return the merge base of the user's HEAD and the agent's branch, "" for none."""
    head = work.user_git.run("rev-parse", "-q", "--verify", "HEAD^{commit}")[1].decode("ascii").strip()
    if not head:
        return ""
    code, output, _ = work.repo.run("merge-base", head, tip)
    return output.decode("ascii").strip() if not code else ""


def _fast_forward(work: ImportContext, branch: AgentBranch, start: str) -> str:
    """Return the last commit of a branch that fast-forwards from `start`."""
    maker = _commit_maker(work, creates_commits=work.options.squash)
    if work.options.squash:
        commits = list_commits_between(work, branch.tip, start)
        message = _squash_message(work, commits)
        return replay.create_squash(maker, commit_reader.read_commits(work.repo, [branch.tip])[0].tree, start, message)
    return replay.rewrite(maker, list_commits_between(work, branch.tip, start)) if maker.rewrites_all else branch.tip


def _rebase_or_merge(work: ImportContext, branch: AgentBranch, current: str) -> str:
    """Return the agent's branch rebased or merged onto the user's current one. Raises ConflictError."""
    commits, maker = (
        list_commits_between(work, branch.tip, branch.before or find_fork_point(work, branch.tip)),
        _commit_maker(work, creates_commits=True),
    )
    if not commits:
        raise CannotImport(message="there are no commits to import", hint="list the commits: agent-dev commits")
    if work.options.squash:
        plain = replace(maker, trailers=(), signing=())
        new = (
            replay.rebase(plain, commits, current)
            if _is_linear(commits)
            else replay.create_merge(plain, current, branch.tip, b"")
        )
        return _squash(work, maker, (new, current), commits)
    if _is_linear(commits):
        return replay.rebase(maker, commits, current)
    tip = replay.rewrite(maker, commits) if maker.rewrites_all else branch.tip
    message = work.options.message or f"Merge the agent's commits of {branch.name.removeprefix(HEADS)}"
    return replay.create_merge(maker, current, tip, message.encode("utf-8", "surrogateescape") + b"\n")


def _squash(work: ImportContext, maker: CommitMaker, commit_ids: tuple[str, str], commits: tuple[ParsedCommit, ...]) -> str:
    """Return a commit with the tree of the first id and the second id as parent; the second id if the trees are equal."""
    new, onto = commit_reader.read_commits(work.repo, list(commit_ids))
    return (
        commit_ids[1] if new.tree == onto.tree else replay.create_squash(maker, new.tree, onto.id, _squash_message(work, commits))
    )


def _is_linear(commits: tuple[ParsedCommit, ...]) -> bool:
    return all(len(one.parents) < 2 for one in commits)


def _squash_message(work: ImportContext, commits: tuple[ParsedCommit, ...]) -> bytes:
    if work.options.message:
        return work.options.message.encode("utf-8", "surrogateescape").rstrip(b"\n") + b"\n"
    return commit_message.format_squash_message(commits, str(work.review.record.get("profile") or "the agent"))


def list_commits_between(work: ImportContext, tip: str, start: str) -> tuple[ParsedCommit, ...]:
    """Return the commits from `start` to `tip`, the oldest first."""
    stdin = f"{tip}\n" + (f"^{start}\n" if start else "")
    ids = work.repo.check_output("rev-list", "--reverse", "--topo-order", "--stdin", stdin=stdin.encode()).decode("ascii").split()
    return commit_reader.read_commits(work.repo, ids)


def find_incoming(work: ImportContext, selection: AgentBranch | PickedCommits) -> IncomingCommits:
    """Return the requested commits of the agent that the user's branch does not have."""
    if isinstance(selection, PickedCommits):
        return IncomingCommits(tuple(_read_picks(work, selection)))
    has_branch = selection.name.startswith(HEADS) and not work.options.branch_name
    current = work.user_git.read_refs(selection.name).get(selection.name, "") if has_branch else ""
    start = current or selection.before or find_fork_point(work, selection.tip)
    commits = list_commits_between(work, selection.tip, start)
    if not commits or not start:
        return IncomingCommits(commits, "", selection.tip if commits else "")
    code, output, _ = work.repo.run("merge-base", start, selection.tip)
    return IncomingCommits(commits, "" if code else output.decode("ascii").strip(), selection.tip)


def _read_picks(work: ImportContext, picks: PickedCommits) -> list[ParsedCommit]:
    commits: list[ParsedCommit] = []
    for item in picks.items:
        commits += (
            commit_reader.read_commits(work.repo, [item])
            if isinstance(item, str)
            else list_commits_between(work, item[1], item[0])
        )
    return commits


def plan_picks(work: ImportContext, picks: PickedCommits, before: Mapping[str, str]) -> RefDestination:
    """Return the destination of selected commits: the branch that the session started on. Raises as `plan_branch`."""
    commits = _read_picks(work, picks)
    if not commits or not _is_linear(tuple(commits)):
        reason = "a merge commit cannot be cherry-picked" if commits else "the range contains no commits"
        raise UsageError(message=reason, hint="list them: agent-dev commits")
    if work.options.branch_name:
        destination = _new_branch(work, AgentBranch("", commits[-1].id, _fork_of_picks(work, commits)))
        update = replace(destination.update, new=_pick(work, commits, _fork_of_picks(work, commits)))
        return replace(destination, update=update, imported_commits=tuple(one.id for one in commits))
    head = before.get("HEAD", "").removeprefix("ref:").strip()
    current = work.user_git.read_refs(head).get(head, "") if head.startswith(HEADS) else ""
    if not current:
        raise CannotImport(message="the session's first branch does not exist here", hint="import as a new branch: --as NAME")
    is_here = work.user_git.read_head_branch() == head
    if not is_here and _is_checked_out(work, head):
        raise CannotImport(message="the branch is checked out in another work tree", hint="import as a new branch: --as NAME")
    new = _pick(work, commits, current)
    if new == current:
        raise CannotImport(message="the branch has all of these commits already", hint="list the commits: agent-dev commits")
    return RefDestination(RefUpdate(head, current, new), is_here, imported_commits=tuple(one.id for one in commits))


def _fork_of_picks(work: ImportContext, commits: list[ParsedCommit]) -> str:
    return find_fork_point(work, commits[0].id) or commits[0].parents[0]


def _pick(work: ImportContext, commits: list[ParsedCommit], onto: str) -> str:
    is_in_place = commits[0].parents[:1] == (onto,) and _is_chain(commits) and not work.options.squash
    maker = _commit_maker(work, creates_commits=not is_in_place)
    if work.options.squash:
        new = replay.rebase(replace(maker, trailers=(), signing=()), commits, onto)
        return _squash(work, maker, (new, onto), tuple(commits))
    if is_in_place and not maker.rewrites_all:
        return commits[-1].id  # unchanged
    return replay.rebase(maker, commits, onto)


def _is_chain(commits: list[ParsedCommit]) -> bool:
    return all(later.parents == (one.id,) for one, later in pairwise(commits))


def _commit_maker(work: ImportContext, *, creates_commits: bool) -> CommitMaker:
    """Return the settings for new commits; `creates_commits`: an identity is required. Raises CannotImport."""
    signing = replay.read_signing_config(work.config, work.review.environ, store.untrusted_paths(work.review.record))
    if not (creates_commits or work.trailers or signing):
        return CommitMaker(work.repo, b"", b"", resolutions=work.options.resolutions)
    people = [_identity(work.user_git, role) for role in ("AUTHOR", "COMMITTER")]
    return CommitMaker(work.repo, people[0], people[1], work.trailers, signing, work.review.environ, work.options.resolutions)


def _identity(user: UserGit, role: str) -> bytes:
    code, output, reason = user.run("var", f"GIT_{role}_IDENT")
    if code:
        raise CannotImport(
            message=f"git has no identity for you: {reason}",
            hint="git config --global user.name NAME; git config --global user.email EMAIL",
        )
    return output.rstrip(b"\n")
