"""The report about an internal error."""

import os
import re
import stat
from pathlib import Path

import pytest

from agent_dev.bug_report import crash
from agent_dev.cli import console


def fail_with(secret: str) -> int:
    raise ZeroDivisionError(f"cannot read {secret}/notes with --token abc123secret")


def test_an_internal_error_writes_a_masked_report_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(ZeroDivisionError):  # Python prints its traceback
        console.guard(lambda: fail_with(str(tmp_path / "home")))
    (report,) = (tmp_path / "state/agent-dev/crashes").iterdir()
    assert str(report) in capfd.readouterr().err
    text = report.read_text(encoding="utf-8")
    assert re.search(r"^agent-dev \d", text)
    assert "ZeroDivisionError: cannot read ~/… with --token ***" in text
    assert str(tmp_path) not in text
    assert stat.S_IMODE(report.stat().st_mode) == 0o600


def test_only_the_newest_reports_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "agent-dev/crashes"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"2026010{number // 10}-0000{number:02}-1.txt").touch()
    path = crash.write_crash_report(ValueError("x"), [], {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert len(os.listdir(folder)) == 10
    assert os.path.exists(path)


def test_an_unwritable_state_directory_gives_no_report(tmp_path: Path) -> None:
    (tmp_path / "agent-dev").write_text("a file")
    assert crash.write_crash_report(ValueError("x"), [], {"XDG_STATE_HOME": str(tmp_path)}) == ""
