"""A failure while a long journal is appended to leaves the journal as it was."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.merge_engine import journal_file
from agent_dev.merge_engine.journal import MergeHeader
from agent_dev.merge_engine.journal_codec import LOCKED, begin_record

BEGIN = begin_record(MergeHeader("1", "session", (("/r", 1, 2),), ("/s",), 5))


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EIO, "Input/output error")], ids=["memory", "disk"])
def test_a_failure_after_some_writes_removes_them(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "_BUFFER", 1)
    written = []

    def records() -> Iterator[dict[str, object]]:
        yield LOCKED
        written.append((tmp_path / journal_file.FILE_NAME).read_bytes())
        raise error

    file = journal_file.JournalFile(str(tmp_path))
    file.append((BEGIN,))
    before = (tmp_path / journal_file.FILE_NAME).read_bytes()
    with pytest.raises(type(error)):
        file.append(records())
    assert len(written[0]) > len(before)
    assert (tmp_path / journal_file.FILE_NAME).read_bytes() == before
    file.append((LOCKED,))
    file.close()
    assert journal_file.read_journal(str(tmp_path)).header is not None
