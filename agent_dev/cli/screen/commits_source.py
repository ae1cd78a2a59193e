"""The commits of a session as the merge screen wants them: listed, told in full, brought home."""

from collections.abc import Mapping, Sequence

from agent_dev.agent_git.changes import HEADS, branch_of
from agent_dev.cli.render import commits as output
from agent_dev.cli.screen.conflicts_source import Bring
from agent_dev.commits import report as found
from agent_dev.commits import submodules as pointers
from agent_dev.commits.agent_git import commits, refs
from agent_dev.commits.bring import Brought, bring
from agent_dev.commits.submodules import Pointer
from agent_dev.commits.targets import Wish
from agent_dev.errors import AgentDevError
from agent_dev.git.formats.commit_format import Commit, Told
from agent_dev.git.merge_tree_conflict import Answers
from agent_dev.merge.merge import Notice
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Key
from agent_dev.risk.commits import MOVED
from agent_dev.sanitize import visible
from agent_dev.session import store
from tui.model.tabs import Entry, Risky, Way

_SHORT = 10
_MOST_FILES = 200  # of a commit that are named


def listed(review: Review) -> tuple[Entry, ...]:
    """Return the commits by id and subject: quickly, for the screen opens with them."""
    try:
        made = commits.made(review.session, review.record, review.environ)
    except AgentDevError as error:
        return (Entry("the commits cannot be read", (error.message,)),)
    links = pointers.of_session(review.session, review.record, [one.id for one in made], review.environ)
    return tuple(_entry(one, (one.id, one.subject), _moved_links(links, one.id)) for one in made)


def told(review: Review) -> tuple[Entry, ...]:
    """Return the commits with all that they say of themselves, and what else came of the session's git dir."""
    try:
        looked = found.look(review)
    except AgentDevError as error:
        return (Entry("the commits cannot be read", (error.message,)),)
    rows = []
    for one in looked.found.commits:
        about = [one.id, *output.about(one, looked, _MOST_FILES)]
        about[2:2] = ["", *(visible(line) for line in one.message.decode("utf-8", "surrogateescape").split("\n")), ""]
        rows.append(_entry(one, (*about, *output.links(looked.pointers, one.id)), _risky(review, looked, one)))
    return (*rows, *(Entry(line) for line in output.others(looked)))


def _entry(one: Commit | Told, about: tuple[str, ...], risky: tuple[Risky, ...]) -> Entry:
    return Entry(f"{one.id[:_SHORT]} {one.subject}", about, bool(risky), id=one.id, risky=risky)


def _risky(review: Review, looked: found.Looked, one: Told) -> tuple[Risky, ...]:
    """Return what of a commit wants a look: by the rules over its own files, and over the session's where these hold the same."""
    table, rows = review.changes.by_key(), []
    standing = looked.standing.get(one.id, frozenset())
    links = {link.path: link for link in _moved_links(looked.pointers, one.id)}
    for file in one.files:
        change = table.get(Key(0, file.path)) if file.path in standing else None
        every = (*(change.risks if change is not None else ()), *looked.risks.get(one.id, {}).get(file.path, ()))
        if every:
            risks = tuple({risk.rule: risk for risk in every}.values())
            rows.append(Risky(file.path, risks, links[file.path].about if file.path in links else ()))
    return tuple(rows)


def _moved_links(links: Sequence[Pointer], commit: str) -> tuple[Risky, ...]:
    ours = (one for one in links if one.commit == commit)
    return tuple(Risky(one.path, (MOVED,), tuple(output.links((one,), commit))) for one in ours)


def bringer(review: Review, place: store.Store, ids: Sequence[str], wish: tuple[Way, str], *, with_trailers: bool) -> Bring:
    """Return what brings commits home (the newest first) one way, as a branch of some name, with answers to their conflicts."""
    way, name = wish
    is_onto = way is not Way.BRANCH
    words = _words(review, ids)

    def again(answers: Answers, notice: Notice) -> Brought:
        asked = Wish(words, "" if is_onto else name, squash=way is Way.ONE, onto_current=is_onto, answers=answers)
        return bring(review, asked, place, notice, with_trailers=with_trailers)

    return again


def _words(review: Review, ids: Sequence[str]) -> tuple[str, ...]:
    """Return what stands behind each --commits: the branch that the session began on when that is what they are, else ids."""
    before, after = refs.remembered(review.session), refs.now(review.session, review.record, review.environ)
    made = commits.made(review.session, review.record, review.environ)
    start, moved = branch_of(before.get("HEAD", "")), _moved(before, after)
    is_all_there_is = len(ids) == len(made) and moved == [start]
    if is_all_there_is or (start in moved and _is_branch(review, ids, after[start], before.get(start, ""))):
        return ("",)
    return tuple(reversed(ids))


def _is_branch(review: Review, ids: Sequence[str], tip: str, before: str) -> bool:
    """Whether commits are all that a branch has now and had not before: it may hold merges, which cannot be picked."""
    with commits.opened(review.session, review.record, review.environ) as skeleton:
        return commits.reached(skeleton, (tip,), (before,) if before else (), len(ids) + 1) == frozenset(ids)


def _moved(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [name for name in after if name.startswith(HEADS) and before.get(name) != after[name]]
