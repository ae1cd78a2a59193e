"""Files of a session that real runs seldom leave behind, written by agent-dev's own functions."""

import os
import socket
from collections.abc import Callable

from agent_dev.cli import run_result
from agent_dev.commits import saved_resolutions
from agent_dev.commits.saved_resolutions import SavedResolutions
from agent_dev.config.remembered_rules import ALLOW, remember
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.diff.review_note import ReviewNote
from agent_dev.fs import unlocked_modes
from agent_dev.fs.unlocked_modes import Note
from agent_dev.git import object_links
from agent_dev.git.merge_tree_conflict import PathConflict
from agent_dev.home.importing import record
from agent_dev.merge import saved_selection, session_access
from agent_dev.merge.review import open_review
from agent_dev.merge.saved_selection import SavedSelection
from agent_dev.network.deciding.live_rules import LiveRules
from agent_dev.network.published.port_list import PortList
from agent_dev.network.upstream import certificates
from agent_dev.overlay.selection import Selection
from agent_dev.session import approvals, hash_chain, sessions, store, uppers

CONNECTION = {"kind": "connection", "name": "example.invalid", "address": "192.0.2.1", "port": 443, "program": "curl", "pid": 2}
COMMAND = {"argv": ["rm", "-r", "d"], "cwd": "/somewhere", "rule": "rm"}
_ROW = {"time": 1, "name": "example.invalid", "address": "192.0.2.1", "port": 443, "decision": "allow", "rule": "example.invalid"}


def write_questions(folder: str) -> None:
    """Write two questions and an answer."""
    for row in (COMMAND, CONNECTION):
        approvals.add_question(folder, row)
    approvals.write_answer(folder, 1, approvals.NO)


def write_rules(folder: str) -> None:
    """Write the rules that answers added for a session."""
    LiveRules((), (), folder, (f"{folder}/none", ())).add_for_session(ALLOW, "example.invalid:443")


def write_published(folder: str) -> None:
    """Write the list of published ports."""
    ports = PortList(f"{folder}/{store.PUBLISHED}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports.add(listener, 8000)
    ports.write()


def write_result(folder: str) -> None:
    """Write the result of a detached run."""
    run_result.keep_result(folder, run_result.make_result(0, b"done\n", None))


def write_resolutions(folder: str) -> None:
    """Write resolutions of commit conflicts."""
    conflict = PathConflict(b"a", (0o100644, "1" * 40), (0o100644, "2" * 40), (0o100644, "3" * 40))
    saved = SavedResolutions({conflict: (ConflictSide.AGENT, b"mine\n")}, frozenset((conflict,)), b"a")
    saved_resolutions.save_resolutions(folder, saved)


def write_external_objects(folder: str) -> None:
    """Write the list of object directories on other file systems: one below a directory that must stay."""
    place = f"{folder}/store/agent-dev/one"
    os.makedirs(place)
    object_links.append_to_list(f"{folder}/objects.elsewhere", place)


IN_A_SESSION: tuple[Callable[[str], None], ...] = (write_questions, write_rules, write_published, write_result, write_resolutions)


def write_draft(environ: dict[str, str], one: sessions.ListedSession) -> None:
    """Write a selection and a note of an unfinished review."""
    held = session_access.lock_ended(one).session
    review = open_review(held, environ, with_risks=False)
    try:
        keys = [change.key for change in review.changes.changes]
        note = ReviewNote(0, keys[0].path, "why?", 1, False, "line")
        saved_selection.save(review, SavedSelection(Selection(frozenset(keys[:1])), frozenset(keys), keys[0], notes=(note,)))
    finally:
        review.close()
        store.unlock_session(held)


def write_import_record(state: str, home: str) -> None:
    """Write the record of an import into an agent home."""
    record.add(state, home, "agent", {"settings.json": "1"}, {"settings.json": "2"})


def write_connections(session: store.Session) -> None:
    """Write a log of connections, and its end in the session's record."""
    log = hash_chain.LogWriter(f"{session.folder}/network.jsonl")
    log.write([_ROW, {**_ROW, "decision": "deny", "why": "not allowed"}])
    log.close()
    end: store.LogRecord = {"count": log.end.count, "chain": log.end.chain, "dropped": 0}
    store.write_record(session, {**store.read_record(session), "network": end})


def write_unlocked(session: store.Session, merge: str, snapshot: str) -> None:
    """Write the records of directories that a killed command had unlocked: none of them exists."""
    uppers._record_mode(session, 0, b"gone", 1, 0o500)
    for folder in (merge, snapshot):
        unlocked_modes.add(folder, Note("/nowhere", 1, b"gone", 1, 0o500))


def write_certificates(cache: str) -> None:
    """Write a bundle of certificates."""
    certificates.make_bundle(b"", cache)


def write_remembered(config: str) -> None:
    """Write rules that `approve --always` added."""
    remember(f"{config}/network/default.yaml", ALLOW, "example.invalid:443")
