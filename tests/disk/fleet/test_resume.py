"""The folder of a run: what an interrupted coordinator has received is used once, whatever is left of its journal."""

import io
import json
import os
from pathlib import Path

import pytest

from agent_dev.bundle import archive
from agent_dev.config.options import RunOptions
from agent_dev.errors import BadTicket, NewerFile, UsageError
from agent_dev.fleet import answer, run_folder, worker
from agent_dev.fleet.delivery import REFUSED, Delivery
from agent_dev.fleet.hosts import SourceRepository
from agent_dev.fleet.run_folder import FleetRun
from agent_dev.fleet.ticket import MAX_TICKET, Ticket
from agent_dev.fs import checksummed_json
from agent_dev.run.request import RunRequest
from agent_dev.session import sessions
from agent_dev.transaction.result import MERGED, TransactionResult, TransactionSpec
from tests.harness.repository import repository

LINES = ("echo 1", "echo 2")
PASSED = TransactionResult(MERGED, 0, ())


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    repo = repository(tmp_path / "repo")
    environ = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    (tmp_path / "home").mkdir()
    options = RunOptions(directory=str(repo))
    context = sessions.command_context(options, environ)
    run = run_folder.start_run(context.store.path, context.root, "a" * 40, LINES)
    return Delivery(run, TransactionSpec(request=RunRequest((), options, environ)), context, "many")


def sent(run: FleetRun, number: int, task_id: str) -> str:
    """Write what a worker sends for a task that changed nothing; return the file."""
    ticket = Ticket(task_id, run.commit, "main", "repo", "", ("true",), "command")
    path = f"{run.folder}/sent-{number}"
    Path(path).write_bytes(worker.empty_bundle(ticket, answer.encode_task(task_id, PASSED)))
    return path


def test_a_finished_task_is_recalled_and_a_half_line_is_ignored(delivery: Delivery) -> None:
    run = delivery.run
    assert delivery.receive(0, sent(run, 0, run.task_id(0))).state == MERGED
    with open(f"{run.folder}/journal", "ab") as file:
        file.write(b'{"event": "finished", "task": 1, "resu')
    assert {number: done for number, (_, done) in delivery.recall().items()} == {0: True}


@pytest.mark.parametrize("row", ["3", "{}", '{"steps": 5}', '{"state": 1, "steps": [[1]]}', "null"])
def test_a_damaged_journal_is_ignored(delivery: Delivery, row: str) -> None:
    delivery.run.note("finished", task=0, result=json.loads(row))
    delivery.run.note("finished", task=0)
    delivery.run.note("finished", task=77)
    delivery.run.note("attempt", path=5)
    with open(f"{delivery.run.folder}/journal", "ab") as file:
        file.write(b"[]\n\0\n{}")
    assert delivery.recall() == {}
    assert delivery.sent_files((0, 1)) == []


def test_the_bundle_of_another_task_is_refused_and_not_noted(delivery: Delivery) -> None:
    run = delivery.run
    assert delivery.receive(1, sent(run, 1, run.task_id(0))).cause == REFUSED
    assert delivery.recall() == {}
    assert sessions.sessions_of_repository(delivery.context) == ()


@pytest.mark.parametrize("keep", [0, 1, 511, 512, 600, -1, -1024, -1500])
def test_a_cut_bundle_is_refused(delivery: Delivery, keep: int) -> None:
    path = sent(delivery.run, 0, delivery.run.task_id(0))
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:keep])
    assert delivery.receive(0, path).cause == REFUSED


@pytest.mark.parametrize("text", [b"", b"hello", b"\0" * 4096, archive.header(archive.MANIFEST, 8**10) + b"x"])
def test_other_data_is_refused(delivery: Delivery, text: bytes) -> None:
    path = f"{delivery.run.folder}/sent"
    Path(path).write_bytes(text)
    assert delivery.receive(0, path).cause == REFUSED


def test_only_an_interrupted_run_of_the_same_tasks_is_resumed(delivery: Delivery) -> None:
    run, state = delivery.run, delivery.context.store.path
    with pytest.raises(UsageError, match="still running"):
        run_folder.resume_run(state, run.root, LINES)
    assert not run_folder.is_interrupted(state, run.root, run.commit, LINES)
    run.close(is_complete=False)
    assert run_folder.is_interrupted(state, run.root, run.commit, LINES)
    assert not run_folder.is_interrupted(state, run.root, "b" * 40, LINES)
    with pytest.raises(UsageError, match="no interrupted run"):
        run_folder.resume_run(state, run.root, LINES[:1])
    resumed = run_folder.resume_run(state, run.root, LINES)
    assert (resumed.id, resumed.commit) == (run.id, run.commit)
    resumed.close(is_complete=True)
    with pytest.raises(UsageError, match="no interrupted run"):
        run_folder.resume_run(state, run.root, LINES)


def test_a_changed_bit_or_a_half_line_hides_one_event_alone(delivery: Delivery) -> None:
    run, journal = delivery.run, Path(f"{delivery.run.folder}/journal")
    run.note("merging", task=0)
    data = bytearray(journal.read_bytes())
    data[-5] ^= 1
    journal.write_bytes(data + b'{"check":"0')
    run.note("merging", task=1)
    assert [event["task"] for event in run.events()] == [1]


def test_each_attempt_has_a_directory_of_its_own_even_if_the_journal_is_lost(delivery: Delivery) -> None:
    first = delivery.run.new_attempt((0, 1))
    Path(f"{delivery.run.folder}/journal").unlink()
    assert delivery.run.new_attempt((1,)) != first


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 1}', '{"version": 2}', "\0"])
def test_a_damaged_description_of_a_run_is_ignored(delivery: Delivery, damage: str) -> None:
    run, state = delivery.run, delivery.context.store.path
    run.close(is_complete=False)
    Path(f"{run.folder}/run.json").write_text(damage)
    with pytest.raises(UsageError, match="no interrupted run"):
        run_folder.resume_run(state, run.root, LINES)


def test_a_run_that_a_newer_version_began_is_not_resumed(delivery: Delivery) -> None:
    run, state = delivery.run, delivery.context.store.path
    run.close(is_complete=False)
    path = Path(f"{run.folder}/run.json")
    path.write_bytes(checksummed_json.dumps({"version": 2, "root": run.root, "tasks": []}))
    with pytest.raises(NewerFile) as caught:
        run_folder.resume_run(state, run.root, LINES)
    assert caught.value.message == f"{path} was written by a newer agent-dev: it has version 2, this version reads up to 1"
    assert caught.value.hint == "upgrade agent-dev, or leave out --resume"
    assert not run_folder.is_interrupted(state, run.root, run.commit, LINES)
    with pytest.raises(UsageError, match="no interrupted run"):
        run_folder.resume_run(state, "/elsewhere", LINES)


def test_only_files_that_differ_from_the_commit_are_uncommitted(delivery: Delivery) -> None:
    root, source = Path(delivery.context.root), SourceRepository(delivery.context)
    tracked = next(path for path in root.iterdir() if path.is_file())
    os.utime(tracked, (1, 1))
    assert source.count_uncommitted() == 0
    (root / "untracked").write_text("new\n")
    tracked.write_text("edited\n")
    assert source.count_uncommitted() == 2


def test_a_ticket_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadTicket):
        worker.read_ticket(io.BytesIO(b"x" * (MAX_TICKET + 1)))
