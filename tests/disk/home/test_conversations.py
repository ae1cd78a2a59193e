"""The newest conversation of an agent, in a home that the agent can write."""

import json
import os
from pathlib import Path

import pytest

from agent_dev.home import conversations
from agent_dev.home.conversations import newest_conversation

PLACE = "x/sessions/{conversation}/{conversation}.json#cwd"
ROOT = "/src/shop"


def write(home: Path, name: str, changed: int, document: object = None) -> Path:
    """Write the file of a conversation that was changed at a time, in seconds."""
    file = home / f"x/sessions/{name}/{name}.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"cwd": ROOT} if document is None else document))
    os.utime(file, (changed, changed))
    return file


def found(home: Path) -> str:
    return newest_conversation(str(home), PLACE, ROOT)


def test_the_newest_one_of_the_repository_is_found(tmp_path: Path) -> None:
    write(tmp_path, "9_old", 1)
    write(tmp_path, "1_new", 3, {"cwd": f"{ROOT}/docs"})
    write(tmp_path, "2_mid", 2)
    for number, other in enumerate(("/src/shop2", "/src", f"{ROOT}/../other", "src/shop")):
        write(tmp_path, f"other{number}", 9, {"cwd": other})
    assert found(tmp_path) == "1_new"


def test_there_may_be_none(tmp_path: Path) -> None:
    assert found(tmp_path) == ""
    assert found(tmp_path / "missing") == ""
    (tmp_path / "x/sessions").mkdir(parents=True)
    assert found(tmp_path) == ""


def test_the_id_may_be_in_the_middle_of_a_name(tmp_path: Path) -> None:
    for name in ("chat-abc.json", "chat-.json", "chat.json", "abc.json"):
        (tmp_path / name).write_text(json.dumps({"in": ROOT}))
    assert newest_conversation(str(tmp_path), "chat-{conversation}.json#in", ROOT) == "abc"


@pytest.mark.parametrize("name", ["-rf", "--id", ".hidden", "a b", "a\nb", "a;b", "ä", "a=b", "a" * 129, b"\xff"])
def test_only_a_plain_id_is_found(tmp_path: Path, name: str | bytes) -> None:
    write(tmp_path, "plain-1.a_b", 1)
    write(tmp_path, os.fsdecode(name), 2)
    assert found(tmp_path) == "plain-1.a_b"


@pytest.mark.parametrize(
    "document", [[], "text", {}, {"cwd": 1}, {"cwd": None}, {"cwd": [ROOT]}, {"cwd": ROOT, "more": "x" * (1 << 20)}]
)
def test_a_file_of_another_form_is_skipped(tmp_path: Path, document: object) -> None:
    write(tmp_path, "good", 1)
    write(tmp_path, "other", 2, document)
    assert found(tmp_path) == "good"


@pytest.mark.parametrize("text", [b"", b"{", b'{"cwd": "\xff"}', b"[" * 100_000, b"1" * 10_000])
def test_a_damaged_file_is_skipped(tmp_path: Path, text: bytes) -> None:
    write(tmp_path, "good", 1)
    write(tmp_path, "damaged", 2).write_bytes(text)
    assert found(tmp_path) == "good"


def test_no_link_is_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    write(home, "good", 1)
    for name in ("file", "folder"):
        write(outside, name, 2)
    write(home, "file", 3).unlink()
    (home / "x/sessions/file/file.json").symlink_to(outside / "x/sessions/file/file.json")
    (home / "x/sessions/folder").symlink_to(outside / "x/sessions/folder")
    assert found(home) == "good"
    (home / "x").rename(home / "y")
    (home / "x").symlink_to(outside / "x")
    assert found(home) == ""


def test_a_pipe_or_directory_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, "good", 1)
    for name, make in (("pipe", os.mkfifo), ("folder", os.mkdir)):
        file = write(tmp_path, name, 2)
        file.unlink()
        make(file)
    assert found(tmp_path) == "good"


def test_the_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "_MOST_READ", 2)
    write(tmp_path, "good", 1)
    write(tmp_path, "other1", 2, {})
    assert found(tmp_path) == "good"
    write(tmp_path, "other2", 3, {})
    assert found(tmp_path) == ""
