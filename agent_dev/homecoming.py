"""The commits of a session as the merge screen wants them: listed, told in full, brought home."""

from collections.abc import Mapping, Sequence

from agent_dev.commands import found
from agent_dev.commands.bring import Brought, bring
from agent_dev.commands.merge import Notice
from agent_dev.commands.review import Review
from agent_dev.core.bring import Wish
from agent_dev.core.clash import Answers
from agent_dev.core.found import HEADS, branch_of
from agent_dev.errors import AgentDevError
from agent_dev.host import commits, refs, store
from agent_dev.output import commits as output
from agent_dev.settling import Bring
from agent_dev.text import visible
from tui.entries import Entry, Way

_SHORT = 10
_MOST_FILES = 200  # of a commit that are named


def listed(review: Review) -> tuple[Entry, ...]:
    """Return the commits by id and subject: quickly, for the screen opens with them."""
    try:
        made = commits.made(review.session, review.record, review.environ)
    except AgentDevError as error:
        return (Entry("the commits cannot be read", (error.message,)),)
    return tuple(Entry(_line(one.id, one.subject), (one.id, one.subject), id=one.id) for one in made)


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
        paths = tuple(file.path for file in one.files)
        rows.append(Entry(_line(one.id, one.subject), (*about, *output.links(looked.pointers, one.id)), id=one.id, paths=paths))
    return (*rows, *(Entry(line) for line in output.others(looked)))


def _line(oid: str, subject: str) -> str:
    return f"{oid[:_SHORT]} {subject}"


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
    """Return what stands behind each --commits: the branch that the session began on when that is all there is, else ids."""
    before, after = refs.remembered(review.session), refs.now(review.session, review.record)
    made = commits.made(review.session, review.record, review.environ)
    if len(ids) == len(made) and _moved(before, after) == [branch_of(before.get("HEAD", ""))]:
        return ("",)
    return tuple(reversed(ids))


def _moved(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [name for name in after if name.startswith(HEADS) and before.get(name) != after[name]]
