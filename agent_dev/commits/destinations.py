"""Where a session's commits go: which ref leads where afterwards, with the commits that have to be made for it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from agent_dev.agent_git.changes import HEADS
from agent_dev.commits import targets as core
from agent_dev.commits.agent_git import commits, refs
from agent_dev.commits.targets import Branch, Picks, Wish
from agent_dev.errors import CannotBring, UsageError
from agent_dev.git import commit_message as message
from agent_dev.git import replay
from agent_dev.git.bare import Bare
from agent_dev.git.formats.commit_format import Told
from agent_dev.git.replay import Maker
from agent_dev.git.user_refs import UserGit
from agent_dev.merge.review import Review
from agent_dev.merge_engine.journal import RefMove
from agent_dev.session import store


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a ref is to lead: `is_here` when it is the branch that is checked out. `why` and `next`: as in Brought."""

    move: RefMove
    is_here: bool = False
    why: str = ""
    next: str = ""


@dataclass(slots=True)
class Work:
    """What bringing works with."""

    review: Review
    wish: Wish
    user: UserGit
    config: dict[str, str]
    place: Bare
    trailers: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """Return how the session is called."""
        return str(self.review.record["name"] or self.review.session.id)


# Where it goes


def word(wish: Wish) -> str:
    """Return what stands behind --commits, for a line to type."""
    return f" {wish.words[0]}" if len(wish.words) == 1 and wish.words[0] else ""


def to_branch(work: Work, branch: Branch) -> Goal:
    """Return where a branch of the agent's goes. Raises CannotBring, UsageError, ConflictError."""
    if work.wish.name:
        return _new_branch(work, branch)
    current = work.user.values(branch.name).get(branch.name, "") if branch.name.startswith(HEADS) else ""
    if not current:
        return _without_one(work, branch)
    if current == branch.tip or _is_behind(work, branch.tip, current):
        raise _nothing_new(work, branch)
    is_here = work.user.head() == branch.name
    if not is_here and _is_checked_out(work, branch.name):
        return _kept(work, branch, "the branch is checked out in another work tree")
    if _is_behind(work, current, branch.tip):
        return Goal(RefMove(branch.name, current, _on_top(work, branch, current)), is_here)
    return _diverged(work, branch, current, is_here=is_here)


def _without_one(work: Work, branch: Branch) -> Goal:
    """Return where a branch goes that the user does not have: it is new, or nothing was committed here yet."""
    if not branch.name.startswith(HEADS):
        return _kept(work, branch, "" if work.wish.words[0] else "the session began on no branch")
    if not branch.before and work.user.head() == branch.name:
        return Goal(RefMove(branch.name, "", _on_top(work, branch, "")), is_here=True)
    return _kept(work, branch, "" if work.wish.words[0] else "the branch is not there any more")


def _nothing_new(work: Work, branch: Branch) -> CannotBring:
    name, rest = branch.name.removeprefix(HEADS), others(work, branch.name)
    hint = f"agent-dev merge {work.label} --commits {rest[0]} --as NAME" if rest else "agent-dev commits lists what there is"
    return CannotBring(message=f"the agent committed nothing on {name} that is not here already", hint=hint)


def _nothing_left(branch: Branch) -> CannotBring:
    name = branch.name.removeprefix(HEADS)
    return CannotBring(message=f"with these answers {name} stays as it is: nothing of the agent's commits is left", hint="")


def _diverged(work: Work, branch: Branch, current: str, *, is_here: bool) -> Goal:
    if work.wish.onto_current:
        new = _onto(work, branch, current)
        if new == current:
            raise _nothing_left(branch) if work.wish.answers else _nothing_new(work, branch)
        return Goal(RefMove(branch.name, current, new), is_here)
    why = "the branch moved meanwhile" if current != branch.before else "the agent took commits back that the branch has"
    return _kept(work, branch, why, next_=f"agent-dev merge {work.label} --commits{word(work.wish)} --onto-current")


def _is_behind(work: Work, one: str, other: str) -> bool:
    return not work.place.run("merge-base", "--is-ancestor", one, other)[0]


def others(work: Work, but: str) -> list[str]:
    """Return the agent's branches with commits of its own."""
    review = work.review
    before, after = refs.remembered(review.session), refs.now(review.session, review.record, review.environ)
    moved = [name for name in after if name.startswith(HEADS) and name != but and before.get(name) != after[name]]
    return [name.removeprefix(HEADS) for name in sorted(moved)]


def _is_checked_out(work: Work, name: str) -> bool:
    """Whether a branch is checked out in any work tree of the user's."""
    _, said, _ = work.user.run("worktree", "list", "--porcelain", "-z")
    return f"branch {name}".encode("utf-8", "surrogateescape") in said.split(b"\0")


def _kept(work: Work, branch: Branch, why: str = "", next_: str = "") -> Goal:
    if work.wish.squash or work.wish.onto_current:
        said = why or f"{branch.name} is no branch of yours"
        raise CannotBring(message=f"{said}; nothing was brought home", hint=next_ or "--as NAME makes a branch of it")
    name = core.kept_name(work.review.session.id, branch.name)
    old = work.user.values(name).get(name, "")
    if old == branch.tip:
        raise CannotBring(
            message=f"{why or 'it is here already'}; {name} has these commits", hint=next_ or f"git branch NAME {name}"
        )
    return Goal(RefMove(name, old, branch.tip), why=why, next=next_ or f"git branch NAME {name}")


def _new_branch(work: Work, branch: Branch) -> Goal:
    name = f"{HEADS}{work.wish.name}"
    code, _, _ = work.user.run("check-ref-format", "--branch", work.wish.name)
    if code:
        raise UsageError(message=f"--as {work.wish.name}: no branch can be called so", hint="git help check-ref-format")
    if work.user.values(name):
        raise CannotBring(
            message=f"there is a branch {work.wish.name} already", hint="--as ANOTHER; no branch is ever overwritten"
        )
    start = branch.before or fork(work, branch.tip)
    return Goal(RefMove(name, "", _on_top(work, branch, start)))


def fork(work: Work, tip: str) -> str:
    """Return where the user's history and a new branch of the agent's part."""
    head = work.user.run("rev-parse", "-q", "--verify", "HEAD^{commit}")[1].decode("ascii").strip()
    if not head:
        return ""
    code, said, _ = work.place.run("merge-base", head, tip)
    return said.decode("ascii").strip() if not code else ""


def _on_top(work: Work, branch: Branch, start: str) -> str:
    """Return the commit at which a branch ends that goes forward from `start`."""
    maker = _maker(work, makes=work.wish.squash)
    if work.wish.squash:
        told = between(work, branch.tip, start)
        words = _words(work, told)
        return replay.squash(maker, commits.read(work.place, [branch.tip])[0].tree, start, words)
    return replay.rewrite(maker, between(work, branch.tip, start)) if maker.changes_all else branch.tip


def _onto(work: Work, branch: Branch, current: str) -> str:
    """Return what becomes of a branch of the agent's on what the user's is now. Raises ConflictError."""
    told, maker = between(work, branch.tip, branch.before or fork(work, branch.tip)), _maker(work, makes=True)
    if not told:
        raise CannotBring(message="there are no commits to bring", hint="agent-dev commits lists what there is")
    if work.wish.squash:
        bare = replace(maker, trailers=(), signing=())
        made = replay.rebase(bare, told, current) if _is_linear(told) else replay.merge(bare, current, branch.tip, b"")
        return _as_one(work, maker, (made, current), told)
    if _is_linear(told):
        return replay.rebase(maker, told, current)
    tip = replay.rewrite(maker, told) if maker.changes_all else branch.tip
    words = work.wish.message or f"Merge the agent's commits of {branch.name.removeprefix(HEADS)}"
    return replay.merge(maker, current, tip, words.encode("utf-8", "surrogateescape") + b"\n")


def _as_one(work: Work, maker: Maker, ends: tuple[str, str], told: tuple[Told, ...]) -> str:
    """Return one commit that leads to the tree of the first of two commits from the second; that one where they have the same."""
    made, onto = commits.read(work.place, list(ends))
    return ends[1] if made.tree == onto.tree else replay.squash(maker, made.tree, onto.id, _words(work, told))


def _is_linear(told: tuple[Told, ...]) -> bool:
    return all(len(one.parents) < 2 for one in told)


def _words(work: Work, told: tuple[Told, ...]) -> bytes:
    if work.wish.message:
        return work.wish.message.encode("utf-8", "surrogateescape").rstrip(b"\n") + b"\n"
    return message.squashed(told, str(work.review.record.get("profile") or "the agent"))


def between(work: Work, tip: str, start: str) -> tuple[Told, ...]:
    """Return the commits that lead from one to another, the oldest first."""
    question = f"{tip}\n" + (f"^{start}\n" if start else "")
    ids = work.place.ask("rev-list", "--reverse", "--topo-order", "--stdin", question=question.encode()).decode("ascii").split()
    return commits.read(work.place, ids)


def to_picks(work: Work, picks: Picks, before: Mapping[str, str]) -> Goal:
    """Return where chosen commits go: onto the branch that the session began on. As `to_branch`."""
    told: list[Told] = []
    for item in picks.items:
        told += commits.read(work.place, [item]) if isinstance(item, str) else between(work, item[1], item[0])
    if not told or not _is_linear(tuple(told)):
        why = "a merge cannot be picked by itself" if told else "there is no commit in that range"
        raise UsageError(message=why, hint="agent-dev commits lists them")
    if work.wish.name:
        made = _new_branch(work, Branch("", told[-1].id, _picked_start(work, told)))
        return replace(made, move=replace(made.move, new=_picked(work, told, _picked_start(work, told))))
    head = before.get("HEAD", "").removeprefix("ref:").strip()
    current = work.user.values(head).get(head, "") if head.startswith(HEADS) else ""
    if not current:
        raise CannotBring(message="the branch that the session began on is not here", hint="--as NAME makes a branch of them")
    is_here = work.user.head() == head
    if not is_here and _is_checked_out(work, head):
        raise CannotBring(message="the branch is checked out in another work tree", hint="--as NAME makes a branch of them")
    new = _picked(work, told, current)
    if new == current:
        raise CannotBring(message="the branch has all of that already", hint="agent-dev commits lists what there is")
    return Goal(RefMove(head, current, new), is_here)


def _picked_start(work: Work, told: list[Told]) -> str:
    return fork(work, told[0].id) or told[0].parents[0]


def _picked(work: Work, told: list[Told], onto: str) -> str:
    stands = told[0].parents[:1] == (onto,) and _is_chain(told) and not work.wish.squash
    maker = _maker(work, makes=not stands)
    if work.wish.squash:
        made = replay.rebase(replace(maker, trailers=(), signing=()), told, onto)
        return _as_one(work, maker, (made, onto), tuple(told))
    if stands and not maker.changes_all:
        return told[-1].id  # as they are
    return replay.rebase(maker, told, onto)


def _is_chain(told: list[Told]) -> bool:
    return all(later.parents == (one.id,) for one, later in pairwise(told))


def _maker(work: Work, *, makes: bool) -> Maker:
    """Return what makes commits as the user; asked only when some are made, for it takes an identity. Raises CannotBring."""
    signing = replay.signing(work.config, work.review.environ, store.untrusted(work.review.record))
    if not (makes or work.trailers or signing):
        return Maker(work.place, b"", b"", answers=work.wish.answers)
    people = [_ident(work.user, role) for role in ("AUTHOR", "COMMITTER")]
    return Maker(work.place, people[0], people[1], work.trailers, signing, work.review.environ, work.wish.answers)


def _ident(user: UserGit, role: str) -> bytes:
    code, said, why = user.run("var", f"GIT_{role}_IDENT")
    if code:
        raise CannotBring(message=f"git does not know who you are: {why}", hint="git config user.name and user.email say so")
    return said.rstrip(b"\n")
