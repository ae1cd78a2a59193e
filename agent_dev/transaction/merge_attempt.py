"""Merge the changes of a transaction into the real tree without a prompt, all or nothing."""

import os
from collections.abc import Callable

from agent_dev.agent_git.read_unlisted import find_in_session
from agent_dev.errors import AgentDevError
from agent_dev.fs.entry import Key
from agent_dev.merge import merge
from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import selection
from agent_dev.overlay.changes import Change, ignored_place
from agent_dev.overlay.fold_renames import fold_changes
from agent_dev.overlay.selection import Selection
from agent_dev.retention import automatic
from agent_dev.sanitize import visible
from agent_dev.session import removal, sessions, store
from agent_dev.session.sessions import CommandContext
from agent_dev.transaction import result as transaction_result
from agent_dev.transaction.result import EXIT_REFUSED, FAILED, TransactionAttempt, TransactionResult, TransactionSpec


def merge_result(attempt: TransactionAttempt, spec: TransactionSpec, notice: merge.Notify) -> TransactionResult:
    """Merge the changes of a passed transaction, and unlock its session. If they cannot all be merged, merge none and fail."""
    session = attempt.session
    if session is None:
        return attempt.result
    context = sessions.command_context(spec.request.options, spec.request.environ)
    try:
        result = _open_and_merge(attempt.result, session, spec, context, notice)
        if result.state == FAILED:
            transaction_result.log_result(session, result)
        return result
    finally:
        store.unlock_session(session)
        automatic.clean_after_merge(context)


def _open_and_merge(
    result: TransactionResult, session: store.Session, spec: TransactionSpec, context: CommandContext, notice: merge.Notify
) -> TransactionResult:
    try:
        review = open_review(session, spec.request.environ, with_risks=False)
        try:
            return _merge(result, review, spec, context, notice)
        finally:
            review.close()
    except AgentDevError as error:
        return _failed(result, "unreadable", error.message)


def _failed(result: TransactionResult, cause: str, reason: str) -> TransactionResult:
    return result.replace(state=FAILED, code=EXIT_REFUSED, cause=cause, reason=reason)


def _merge(
    result: TransactionResult, review: Review, spec: TransactionSpec, context: CommandContext, notice: merge.Notify
) -> TransactionResult:
    result = result.replace(unchanged=tuple(path for path in spec.take if not _changed_at(path, review, context)))
    if review.changes.changes and _are_mistyped(result.unchanged, spec, context):
        return _failed(result, "selection", f"--take {visible(', '.join(spec.take))}: no such path")
    wanted = _wanted(review, spec, context)
    selected = selection.select(selection.EMPTY_SELECTION, wanted, review.changes)
    obstacle = _obstacle(review, wanted, selected, _allowed(spec, context))
    if obstacle:
        return _failed(result, *obstacle)
    review.release_derived()
    moved = _moved_to_ignored(review, spec)
    planned = merge.plan_selection(review, selected, wanted | moved)
    many = merge.excessive_deletions(review, planned, context.profile.many_deletions)
    if many and not spec.with_many_deletions:
        reason = f"it deletes {many} files, more than {context.profile.many_deletions} % of the tree (--yes-delete-many)"
        return _failed(result, "deletions", reason)
    del selected  # 100,000 need 4 MB
    merged = merge.apply_plan(review, planned, context.store, notice, is_atomic=True)
    if merged.conflicts or (wanted and not merged.id):
        paths = [(left.key, left.reason) for left in merged.conflicts]
        return _failed(result, "conflict", _describe("in conflict with your changes", paths, review))
    name = _make_namer(review)
    transaction_result.log_result(review.session, result.replace(merge=merged.id))  # before an empty session is discarded
    return result.replace(
        merge=merged.id,
        applied=tuple(name(change.key) for change in fold_changes(merged.applied, review.changes.renames)),
        skipped=tuple((name(one.key), one.reason) for one in merged.skipped),
        session=review.session.id if _is_waiting(review, context, merged, has_commits=result.commits > 0) else "",
    )


def _allowed(spec: TransactionSpec, context: CommandContext) -> frozenset[str] | None:
    """Return the names of the risk rules that are allowed; None: all."""
    return None if spec.with_risky else frozenset((*spec.allowed, *context.profile.tx_allow))


def _wanted(review: Review, spec: TransactionSpec, context: CommandContext) -> frozenset[Key]:
    changes = review.changes.changes
    if spec.take:
        return frozenset(change.key for path in spec.take for change in _changed_at(path, review, context))
    wanted = frozenset(change.key for change in changes if spec.with_ignored or not change.is_ignored)
    return wanted - _moved_to_ignored(review, spec)


def _moved_to_ignored(review: Review, spec: TransactionSpec) -> frozenset[Key]:
    """Return the deletions that are left out with the ignored files to which the deleted files were moved."""
    if spec.take or spec.with_ignored:
        return frozenset()
    changes = review.changes
    return frozenset(change.key for change in changes.changes if ignored_place(change, changes) is not None)


def _changed_at(path: str, review: Review, context: CommandContext) -> list[Change]:
    return [change for key in _keys_at(path, review, context) for change in review.changes.below(key.root, key.path)]


def _are_mistyped(unchanged: tuple[str, ...], spec: TransactionSpec, context: CommandContext) -> bool:
    """Return whether all paths of --take are mistyped: none of them was changed or exists."""
    return (
        bool(spec.take)
        and unchanged == spec.take
        and not any(os.path.lexists(os.path.join(context.cwd, path)) for path in unchanged)
    )


def _keys_at(path: str, review: Review, context: CommandContext) -> list[Key]:
    return review.keys_at(os.path.normpath(os.path.join(context.cwd, path)))


def _obstacle(
    review: Review, wanted: frozenset[Key], selected: Selection, allowed: frozenset[str] | None
) -> tuple[str, str] | None:
    """Return the cause and the reason why the wanted changes cannot be merged without a prompt."""
    if review.changes.problems:
        return "unreadable", visible(review.changes.problems[0])
    table = review.changes.by_key() if allowed is None else review.assess(selected.keys).by_key()
    unmergeable = [
        (key, _why_unmergeable(table[key])) for key in sorted(wanted - selected.keys, key=lambda key: (key.root, key.path))
    ]
    if unmergeable:
        return "conflict", _describe("cannot be merged", unmergeable, review)
    risky = [(key, _risk(table[key], allowed)) for key in sorted(selected.keys, key=lambda key: (key.root, key.path))]
    risky = [(key, why) for key, why in risky if why]
    if risky:
        return "risk", _describe("risky", risky, review) + " (--allow RULE, --include-risky)"
    return None


def _why_unmergeable(change: Change) -> str:
    return change.conflict or change.obstacle or "it depends on a change that cannot be merged"


def _risk(change: Change, allowed: frozenset[str] | None) -> str:
    return "" if allowed is None else ", ".join(risk.rule for risk in change.risks if risk.rule not in allowed)


def _describe(label: str, paths: list[tuple[Key, str]], review: Review) -> str:
    name = _make_namer(review)
    shown = "; ".join(f"{visible(name(key))}: {visible(why)}" for key, why in paths[:3])
    return f"{label}: {shown}" + (f"; and {len(paths) - 3} more" if len(paths) > 3 else "")


def _make_namer(review: Review) -> Callable[[Key], str]:
    roots = review.record["roots"]

    def name(key: Key) -> str:
        path = os.fsdecode(key.path)
        return path if key.root == 0 else f"{roots[key.root]}/{path}"

    return name


def _is_waiting(review: Review, context: CommandContext, merged: merge.MergeResult, *, has_commits: bool) -> bool:
    """Return whether the session holds more than ignored files; if it does not, move it to the trash."""
    table = review.changes.by_key()
    if has_commits or merged.unlisted or any(not table[one.key].is_ignored for one in merged.skipped):
        return True
    if not merged.id and any(one.has_content for one in find_in_session(review.session, review.record, review.environ)):
        return True
    record = store.read_record(review.session)
    if record["state"] != store.MERGED:
        discard_session(context.store, review.session, record)
    return False


def discard_session(session_store: store.Store, session: store.Session, record: store.Record) -> None:
    """Move a locked session to the trash."""
    folder = removal.move_to_trash(session_store, session)
    store.write_record(session.replace(folder=folder), {**record, "state": store.DISCARDED})
