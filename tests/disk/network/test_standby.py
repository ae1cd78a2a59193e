"""The gateway's process until it is needed."""

import os
import sys
from pathlib import Path

import pytest

from agent_dev.network.standby import search_path


def test_no_library_is_loaded_from_a_directory_that_the_agent_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, other = tmp_path / "repository", tmp_path / "other"
    repository.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(repository)
    site = f"{sys.prefix}/lib/site-packages"
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "path", ["", str(repository), f"{repository}/src", str(tmp_path / "link"), str(other), site])
    assert search_path([str(repository), os.path.dirname(sys.prefix)]) == [str(other), site]
