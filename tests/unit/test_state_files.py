"""Every module that writes files is in the table of the tests of damaged state."""

import re
from pathlib import Path

import pytest

import agent_dev
from tests.harness.faults import state_files

_WRITES = re.compile(r"\breplace_file\(|\bO_CREAT\b|\bdurable\.(create|append)\(|\bopen\([^\n]*\"[wax]b?\"")
_ROOT = Path(agent_dev.__file__).parent


def writers() -> set[str]:
    """Return the modules outside of the sandbox whose source creates or replaces files, relative and without suffix."""
    found = (
        path for path in _ROOT.rglob("*.py") if path.parent.name != "inside" and _WRITES.search(path.read_text(encoding="utf-8"))
    )
    return {str(path.relative_to(_ROOT).with_suffix("")) for path in found}


def test_every_writer_has_a_kind_of_file_or_a_reason() -> None:
    known = {writer for kind in state_files.KINDS for writer in kind.writers} | state_files.NOT_DAMAGED.keys()
    assert writers() - known == set(), "add a row to tests/harness/faults/state_files.py"


@pytest.mark.parametrize(
    ("name", "is_unknown"),
    [
        ("other", True),
        ("homes/fe00-2a.other", True),
        ("sessions/1/other", True),
        ("sessions/1/base/other", True),
        ("sessions/1/base/manifest", False),
        ("sessions/1/session.json.new", False),
        ("sessions/1/checkpoints/objects/00ff", False),
        ("sessions/1/roots/0/upper/other", False),
        ("sessions/1/checkpoints", False),
    ],
)
def test_a_file_of_an_unknown_kind_is_found(tmp_path: Path, name: str, *, is_unknown: bool) -> None:
    path = tmp_path / "state" / name
    path.parent.mkdir(parents=True)
    path.write_text("content")
    found = [str(one) for one in state_files.find_unknown(tmp_path / "state", tmp_path / "cache")]
    assert found == ([f"state/agent-dev/{name}"] if is_unknown else [])
    path.write_text("")
    assert [*state_files.find_unknown(tmp_path / "state", tmp_path / "cache")] == []


def test_no_row_names_a_missing_module() -> None:
    named = {writer for kind in state_files.KINDS for writer in kind.writers} | state_files.NOT_DAMAGED.keys()
    assert {name for name in named if not (_ROOT / f"{name}.py").is_file()} == set()


def test_no_module_that_writes_nothing_has_a_reason() -> None:
    assert state_files.NOT_DAMAGED.keys() - writers() == set()
