"""Bring what a transaction changed into the real tree, all of it or nothing, without a question."""

import os
from collections.abc import Callable

from agent_dev.errors import AgentDevError
from agent_dev.merge import merge
from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import selection
from agent_dev.overlay.changes import Change, Key
from agent_dev.overlay.selection import Selection
from agent_dev.sanitize import visible
from agent_dev.session import removal as ended
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here
from agent_dev.transaction import transact
from agent_dev.transaction.transact import FAILED, REFUSED, Attempt, Result, Terms


def land(attempt: Attempt, terms: Terms, notice: merge.Notice) -> Result:
    """Merge what passed, and let go of its session. What cannot be merged whole is not merged at all, and said."""
    session = attempt.session
    if session is None:
        return attempt.result
    where = sessions.here(terms.request.options, terms.request.environ)
    try:
        result = _opened(attempt.result, session, terms, where, notice)
        if result.state == FAILED:
            transact.note(session, result)
        return result
    finally:
        store.let_go(session)


def _opened(result: Result, session: store.Session, terms: Terms, where: Here, notice: merge.Notice) -> Result:
    try:
        review = open_review(session, terms.request.environ)
        try:
            return _land(result, review, terms, where, notice)
        finally:
            review.close()
    except AgentDevError as error:
        return _failed(result, "unreadable", error.message)


def _failed(result: Result, cause: str, reason: str) -> Result:
    return result.but(state=FAILED, code=REFUSED, cause=cause, reason=reason)


def _land(result: Result, review: Review, terms: Terms, where: Here, notice: merge.Notice) -> Result:
    result = result.but(unchanged=tuple(path for path in terms.take if not _changed_at(path, review, where)))
    if review.changes.changes and _names_nothing(result.unchanged, terms, where):
        return _failed(result, "take", f"nothing is at {visible(', '.join(terms.take))}, where --take says to look")
    wanted = _wanted(review, terms, where)
    chosen = selection.take(selection.NOTHING, wanted, review.changes)
    obstacle = _obstacle(review, wanted, chosen, _allowed(terms, where))
    if obstacle:
        return _failed(result, *obstacle)
    planned = merge.plan(review, chosen, wanted)
    many = merge.deletes_too_much(review, planned, where.profile.many_deletions)
    if many and not terms.with_many_deletions:
        reason = f"it would delete {many} files, more than {where.profile.many_deletions} % of the tree (--yes-delete-many)"
        return _failed(result, "deletions", reason)
    done = merge.carry_out(review, planned, where.store, notice, is_atomic=True)
    if done.conflicts or (wanted and not done.id):
        paths = [(left.key, left.why) for left in done.conflicts]
        return _failed(result, "conflict", _why("in conflict with what you changed", paths, review))
    name = _namer(review)
    transact.note(review.session, result.but(merge=done.id))  # before it is discarded, if nothing is left in it
    return result.but(
        merge=done.id,
        taken=tuple(name(change.key) for change in done.taken),
        left=tuple((name(one.key), one.why) for one in done.left),
        session=review.session.id if _is_waiting(review, where, done, has_commits=result.commits > 0) else "",
    )


def _allowed(terms: Terms, where: Here) -> frozenset[str] | None:
    """Return the names of the risk rules that stop nothing; None: no rule does."""
    return None if terms.with_risky else frozenset((*terms.allowed, *where.profile.tx_allow))


def _wanted(review: Review, terms: Terms, where: Here) -> frozenset[Key]:
    changes = review.changes.changes
    if terms.take:
        return frozenset(change.key for path in terms.take for change in _changed_at(path, review, where))
    return frozenset(change.key for change in changes if terms.with_ignored or not change.ignored)


def _changed_at(path: str, review: Review, where: Here) -> list[Change]:
    return [change for place in _places(path, review, where) for change in review.changes.below(place.root, place.path)]


def _names_nothing(unchanged: tuple[str, ...], terms: Terms, where: Here) -> bool:
    """Whether all paths to take are mistyped: nothing changed there, and nothing is there that could have."""
    return (
        bool(terms.take)
        and unchanged == terms.take
        and not any(os.path.lexists(os.path.join(where.cwd, path)) for path in unchanged)
    )


def _places(path: str, review: Review, where: Here) -> list[Key]:
    full = os.path.normpath(os.path.join(where.cwd, path))
    found = []
    for number, tree in enumerate(review.reals):
        if full == tree.path:
            found.append(Key(number, b""))
        elif full.startswith(tree.path + "/"):
            found.append(Key(number, os.fsencode(full[len(tree.path) + 1 :])))
    return found


def _obstacle(
    review: Review, wanted: frozenset[Key], chosen: Selection, allowed: frozenset[str] | None
) -> tuple[str, str] | None:
    """Return why what is wanted cannot be merged without a question: the cause and the reason."""
    if review.changes.problems:
        return "unreadable", visible(review.changes.problems[0])
    table = review.changes.by_key()
    stuck = [(key, _stuck(table[key])) for key in sorted(wanted - chosen.keys, key=lambda key: (key.root, key.path))]
    if stuck:
        return "conflict", _why("cannot be merged", stuck, review)
    risky = [(key, _risk(table[key], allowed)) for key in sorted(chosen.keys, key=lambda key: (key.root, key.path))]
    risky = [(key, why) for key, why in risky if why]
    if risky:
        return "risk", _why("risky", risky, review) + " (--allow RULE, --include-risky)"
    return None


def _stuck(change: Change) -> str:
    return change.conflict or change.obstacle or "it needs what cannot be merged"


def _risk(change: Change, allowed: frozenset[str] | None) -> str:
    return "" if allowed is None else ", ".join(risk.rule for risk in change.risks if risk.rule not in allowed)


def _why(word: str, paths: list[tuple[Key, str]], review: Review) -> str:
    name = _namer(review)
    shown = "; ".join(f"{visible(name(key))}: {visible(why)}" for key, why in paths[:3])
    return f"{word}: {shown}" + (f"; and {len(paths) - 3} more" if len(paths) > 3 else "")


def _namer(review: Review) -> Callable[[Key], str]:
    roots = review.record["roots"]

    def name(key: Key) -> str:
        path = os.fsdecode(key.path)
        return path if key.root == 0 else f"{roots[key.root]}/{path}"

    return name


def _is_waiting(review: Review, where: Here, done: merge.Merged, *, has_commits: bool) -> bool:
    """Return whether the session holds more than ignored files; one of which only those are left goes into the trash."""
    table = review.changes.by_key()
    if has_commits or any(not table[one.key].ignored for one in done.left):
        return True
    record = store.read(review.session)
    if record["state"] != store.MERGED:
        discard(where.store, review.session, record)
    return False


def discard(place: store.Store, session: store.Session, record: store.Record) -> None:
    """Put a held session that nobody needs into the trash."""
    folder = ended.to_trash(place, session)
    store.write(session.but(folder=folder), {**record, "state": store.DISCARDED})
