"""The gateway's process until it is needed."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.network import libraries
from agent_dev.network.standby import is_needed, search_path


def test_no_library_is_loaded_from_a_directory_that_the_agent_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, other = tmp_path / "repository", tmp_path / "other"
    repository.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(repository)
    site = f"{sys.prefix}/lib/site-packages"
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "path", ["", str(repository), f"{repository}/src", str(tmp_path / "link"), str(other), site])
    assert search_path([str(repository), os.path.dirname(sys.prefix)]) == [str(other), site]


def test_the_end_of_a_run_does_not_lose_what_has_connected() -> None:
    (control, launcher), (waiting, program) = socket.socketpair(), socket.socketpair()
    with control, launcher, waiting, program:
        launcher.send(b"e")
        assert not is_needed(control, [waiting.fileno()])
        program.send(b"1")
        assert is_needed(control, [waiting.fileno()])


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the only library of the gateway."""
    path = tmp_path / "agent_dev_test_library.py"
    path.write_text("")
    monkeypatch.setattr(libraries, "_MODULES", (path.stem,))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield path
    sys.modules.pop(path.stem, None)


def test_libraries_are_unchanged_until_a_file_is_replaced(library: Path, tmp_path: Path) -> None:
    noted = f"{tmp_path}/cache/gateway.json"
    assert not libraries.are_unchanged(noted)
    libraries.load(noted)
    del sys.modules[library.stem]  # as in the next run
    assert libraries.are_unchanged(noted)
    library.write_text("broken")
    assert not libraries.are_unchanged(noted)
    library.unlink()
    assert not libraries.are_unchanged(noted)


def test_libraries_found_in_other_directories_are_loaded_again(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = f"{tmp_path}/cache/gateway.json"
    libraries.load(noted)
    monkeypatch.setattr(sys, "path", sys.path[1:])
    assert not libraries.are_unchanged(noted)
    del sys.modules[library.stem]
    with pytest.raises(ValueError, match=f"^{library.stem} is not installed$"):
        libraries.load(noted)


@pytest.mark.parametrize("text", ["raise KeyError('x')", "def", "import os.no_such"])
def test_a_broken_library_is_one_line_and_is_not_noted(library: Path, tmp_path: Path, text: str) -> None:
    noted = f"{tmp_path}/cache/gateway.json"
    library.write_text(text)
    pattern = r"^a library is broken: .*\(.*agent_dev_test_library.py\)$|^os.no_such is not installed$"
    with pytest.raises(ValueError, match=pattern):
        libraries.load(noted)
    assert not libraries.are_unchanged(noted)
