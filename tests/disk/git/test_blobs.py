"""Blobs in batches, in a real repository: the same bytes in any order of use, and few at a time in memory."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.errors import CommandFailed
from agent_dev.git import bare, blobs
from agent_dev.git.bare import BareRepository
from agent_dev.git.blobs import BlobBatches
from tests.harness.scale import repeat, seeded_random

CONTENTS = [b"%d\n" % number * number for number in range(40)]


@pytest.fixture
def repo(tmp_path: Path) -> BareRepository:
    return bare.create(str(tmp_path), shutil.which("git") or "git", is_sha256=False, stores=())


@pytest.fixture
def written(repo: BareRepository, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Return blobs by id, in a repository whose batches hold few of them."""
    monkeypatch.setattr(blobs, "_MAX_BATCH_SIZE", 300)
    monkeypatch.setattr(blobs, "_MAX_BATCH_IDS", 6)
    return {repo.check_output("hash-object", "-w", "--stdin", stdin=data).decode().strip(): data for data in CONTENTS}


def counted_git(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return a list that gets the arguments of every git process from now on."""
    started: list[list[str]] = []
    start = subprocess.Popen.__init__

    def counting(self: "subprocess.Popen[bytes]", args: list[str], **keywords: object) -> None:
        started.append(list(args))
        start(self, args, **keywords)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", counting)
    return started


def batches(repo: BareRepository, written: dict[str, bytes]) -> BlobBatches:
    return blobs.batches_of(repo, written)


def orders(ids: list[str]) -> Iterator[list[str]]:
    yield ids
    yield ids[::-1]
    yield ids * 3
    random = seeded_random()
    for _ in range(repeat(40)):
        yield random.choices(ids, k=60)


def test_any_order_of_use_gives_the_same_bytes(repo: BareRepository, written: dict[str, bytes]) -> None:
    for order in orders(list(written)):
        found = batches(repo, written)
        assert [found[oid] for oid in order] == [written[oid] for oid in order]
    assert dict(batches(repo, written)) == written


def test_in_order_each_batch_is_read_once_and_two_are_kept(
    repo: BareRepository, written: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = batches(repo, written)
    started = counted_git(monkeypatch)
    largest = 0
    for oid, data in written.items():
        assert found[oid] == data
        largest = max(largest, sum(len(batch) for batch in found._kept.values()))
    assert 40 / 6 <= len(started) <= 40 / 2
    assert largest <= 12


def test_a_blob_that_many_files_share_is_not_read_with_its_batch_each_time(
    repo: BareRepository, written: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = written
    found = batches(repo, written)
    started = counted_git(monkeypatch)
    for oid in others:
        assert (found[oid], found[first]) == (written[oid], written[first])
    assert sum("--buffer" not in args for args in started) == 1  # one process answers all of them
    assert len(started) <= 40 / 2


def test_a_missing_blob_is_an_error_at_once(repo: BareRepository, written: dict[str, bytes]) -> None:
    with pytest.raises(CommandFailed, match="is not a blob"):
        blobs.batches_of(repo, [*written, "0" * 40])
    with pytest.raises(KeyError):
        batches(repo, written)["0" * 40]


@pytest.mark.parametrize("skips_unreadable", [False, True])
def test_a_damaged_blob_is_never_returned(repo: BareRepository, written: dict[str, bytes], *, skips_unreadable: bool) -> None:
    damaged, other = list(written)[20], list(written)[21]
    target, source = (Path(repo.path, "objects", oid[:2], oid[2:]) for oid in (damaged, other))
    target.chmod(0o644)
    target.write_bytes(source.read_bytes())
    sizes = {oid: len(data) for oid, data in written.items()}
    found = BlobBatches(repo, sizes, skips_unreadable=skips_unreadable)
    with pytest.raises(KeyError if skips_unreadable else CommandFailed):
        found[damaged]
    found[list(written)[-1]]  # a later batch
    with pytest.raises(KeyError if skips_unreadable else CommandFailed):
        found[damaged]
    assert os.path.getsize(target)
