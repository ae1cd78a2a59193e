"""Readers of small state files return what was written, or less, for every cut and any flipped byte; they never fail.

What a killed program leaves behind, and files of running sessions; the whole program reads the others damaged in
tests/faults/test_damaged_state.py.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_dev.cli import run_result
from agent_dev.cli.render import question_words
from agent_dev.commits import saved_resolutions
from agent_dev.config import remembered_rules, trust_store
from agent_dev.config.trust_store import TrustRecord
from agent_dev.errors import AgentDevError, Refused
from agent_dev.fs import checksummed_json, rmtree, unlocked_modes
from agent_dev.git.repository import WorkTreeGitDir
from agent_dev.home import mount_points, network_lease
from agent_dev.home.importing import record
from agent_dev.network.deciding import live_rules
from agent_dev.session import approvals, made_work_trees, published, store, uppers
from tests.harness.faults import damage, planted_files
from tests.harness.program import tree
from tests.harness.scale import repeat, seeded_random

FLIPS = repeat(100)


@dataclass(frozen=True)
class Reader:
    """A file, relative to a folder: how it is written and read. `is_exact`: damage is always detected."""

    name: str
    write: Callable[[str], object]
    read: Callable[[str], object]
    is_exact: bool = True


def read_questions(folder: str) -> object:
    rows = approvals.list_questions(folder)
    return [(number, question_words.full_question(row), question_words.short_question(row)) for number, row in rows.items()]


def read_published(folder: str) -> object:
    return [published.url_of(port, "name") for port in published.read_published(folder)]


def ask_again(folder: str) -> object:
    number = approvals.add_question(folder, planted_files.COMMAND)
    approvals.remove_question(folder, number)
    return number


def write_trusted(folder: str) -> None:
    trust_store.write_record(folder, "/root", TrustRecord("d", "net: host\n", {"net": "host"}, {"net": 1}))


def write_mark(folder: str) -> None:
    os.makedirs(f"{folder}/worktrees/one")
    row = {"path": "/one", "branch": "one", "start": "1" * 40}
    Path(f"{folder}/worktrees/one/agent-dev").write_bytes(checksummed_json.dumps(row))


READERS = (
    Reader("asks/2.json", planted_files.write_questions, read_questions, is_exact=False),
    Reader("asks/last", planted_files.write_questions, ask_again, is_exact=False),
    Reader("asks/1.answer", planted_files.write_questions, lambda folder: approvals.read_answer(folder, 1)),
    Reader("network-rules.json", planted_files.write_rules, live_rules.read_session_rules),
    Reader("published.json", planted_files.write_published, read_published, is_exact=False),
    Reader("result.json", planted_files.write_result, run_result.kept_result),
    Reader("conflicts.json", planted_files.write_resolutions, saved_resolutions.load_resolutions),
    Reader(
        "opened",
        lambda folder: uppers._record_mode(store.Session("one", folder), 0, b"d", 7, 0o500),
        lambda folder: [*filter(None, map(uppers._parse_row, Path(folder, "opened").read_bytes().split(b"\n")))],
    ),
    Reader(
        unlocked_modes.NAME,
        lambda folder: unlocked_modes.add(folder, unlocked_modes.Note("/root", 1, b"d", 7, 0o500)),
        unlocked_modes.read,
    ),
    Reader(
        "imports",
        lambda folder: planted_files.write_import_record(folder, folder),
        lambda folder: record.read(folder, folder),
        is_exact=False,
    ),
    Reader("trust", write_trusted, lambda folder: trust_store.read_record(folder, "/root")),
    Reader("worktrees/one/agent-dev", write_mark, lambda folder: made_work_trees.list_made(WorkTreeGitDir(folder, folder, True))),
    Reader(
        "network/default.yaml",
        planted_files.write_remembered,
        lambda folder: remembered_rules.read_rules(f"{folder}/network/default.yaml"),
        is_exact=False,
    ),
)


def file_of(reader: Reader, folder: Path) -> Path:
    """Return a reader's file; of a name that depends on the folder, the only file there is."""
    path = folder / reader.name
    return path if path.is_file() else next(one for one in folder.rglob("*") if one.is_file())


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_damaged_file_is_read_as_written_or_not_at_all(tmp_path: Path, reader: Reader) -> None:
    reader.write(str(tmp_path))
    nothing = tmp_path.with_name(f"{tmp_path.name}-empty")
    shutil.copytree(tmp_path, nothing)
    file_of(reader, nothing).write_bytes(b"")
    path, right = file_of(reader, tmp_path), (reader.read(str(tmp_path)), _value(reader, nothing))
    data = path.read_bytes()
    for how, damaged in damage.damages(data, FLIPS, seeded_random()):
        path.write_bytes(damaged)
        found = _value(reader, tmp_path)
        assert not reader.is_exact or found in right or found == approvals.NO, (how, found)


def _value(reader: Reader, folder: Path) -> object:
    try:
        return reader.read(str(folder))
    except AgentDevError:
        return None


def test_no_damaged_list_of_objects_removes_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    monkeypatch.setattr(rmtree, "remove_tree", removed.append)  # else a mistake here would remove directories of this machine
    planted_files.write_external_objects(str(tmp_path))
    path, place = tmp_path / "objects.elsewhere", str(tmp_path / "store/agent-dev/one")
    data = path.read_bytes()
    for at in range(len(data)):
        for damaged in (data[:at], *(data[:at] + byte + data[at + 1 :] for byte in (b"\0", b"\n"))):
            path.write_bytes(damaged)
            rmtree.remove_external_objects(str(tmp_path))
    assert set(removed) <= {place}
    removed.clear()
    path.write_bytes(data)
    rmtree.remove_external_objects(str(tmp_path))
    assert removed == [place]


def test_a_damaged_lease_of_a_running_session_is_a_refusal_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_lease, "_TIMEOUT", 0)
    home = tmp_path / "home"
    home.mkdir()
    shared = network_lease.SharedPaths((str(home),), ())
    held = network_lease.NetworkLease(str(tmp_path), "host", shared)
    path = next((tmp_path / "homes/networks").iterdir())
    data = path.read_bytes()
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes((data[at] ^ 0x20,)) + data[at + 1 :]):
            path.write_bytes(damaged)
            with suppress(Refused):
                network_lease.NetworkLease(str(tmp_path), "none", shared).release()
            assert path.exists()
    held.release()


def test_a_damaged_list_of_mount_points_removes_empty_entries_of_the_home_alone(tmp_path: Path) -> None:
    home, state = tmp_path / "home", tmp_path / "state"
    for folder in (home / "full", home / "link", tmp_path / "elsewhere/empty"):
        folder.mkdir(parents=True)
    (home / "full/file").write_text("mine\n")
    (home / "empty").write_text("")
    (home / "link/out").symlink_to(tmp_path / "elsewhere")
    lease = mount_points.HomeLease(str(state), str(home), "host")
    [path] = (one for one in (state / "homes").iterdir() if one.is_file() and not one.name.endswith(".lock"))
    data = b"full\0link/out/empty\0../elsewhere/empty\0/etc\0.pyenv\0"
    before = tree(tmp_path / "elsewhere"), tree(home)
    for _, damaged in (("", data), *damage.damages(data, FLIPS, seeded_random())):
        path.write_bytes(damaged)
        lease._remove_points()
        assert (tree(tmp_path / "elsewhere"), tree(home)) == before
    lease.release()
