"""The newest conversation of an agent, in a home that the agent can write."""

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from agent_dev.home import conversations
from agent_dev.home.conversations import newest_conversation

PLACE = "x/sessions/{conversation}/{conversation}.json#cwd"
LINES = "x/*/{conversation}.jsonl#cwd"
ROOT = "/src/shop"


def write(home: Path, name: str, changed: int, document: object = None) -> Path:
    """Write the file of a conversation that was changed at a time, in seconds."""
    file = home / f"x/sessions/{name}/{name}.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"cwd": ROOT} if document is None else document))
    os.utime(file, (changed, changed))
    return file


def write_lines(home: Path, name: str, changed: int, *lines: str) -> Path:
    """Write a file of lines that was changed at a time, in seconds."""
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))
    os.utime(file, (changed, changed))
    return file


def line_of(one: str, cwd: str = ROOT) -> str:
    """Return a line of a conversation that names its id and directory."""
    return json.dumps({"cwd": cwd, "sessionId": one})


def found(home: Path) -> str:
    return newest_conversation(str(home), PLACE, ROOT)


def found_in_lines(home: Path) -> str:
    return newest_conversation(str(home), LINES, ROOT)


def test_the_newest_one_of_the_directory_is_found(tmp_path: Path) -> None:
    write(tmp_path, "9_old", 1)
    write(tmp_path, "1_new", 3, {"cwd": f"{ROOT}/"})
    write(tmp_path, "2_mid", 2)
    for number, other in enumerate(("/src/shop2", "/src", f"{ROOT}/docs", f"{ROOT}/../other", "src/shop")):
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


def test_the_key_may_be_in_an_object(tmp_path: Path) -> None:
    for number, info in enumerate(({"cwd": ROOT}, {"cwd": "/other"}, {}, ROOT, None)):
        write(tmp_path, f"{number}", number + 1, {"cwd": ROOT, "info": info})
    assert newest_conversation(str(tmp_path), PLACE.replace("#", "#info."), ROOT) == "0"


def test_the_conversation_of_a_sub_agent_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, "good", 1, {"cwd": ROOT, "session_kind": "headless"})
    write(tmp_path, "sub", 2, {"cwd": ROOT, "session_kind": "subagent"})
    assert found(tmp_path) == "good"


def test_one_directory_may_have_any_name(tmp_path: Path) -> None:
    for number, folder in enumerate(("-src-shop", "%2Fsrc", "a b", os.fsdecode(b"\xff"))):
        write_lines(tmp_path, f"x/{folder}/id{number}.jsonl", number + 1, line_of(f"id{number}"))
    write_lines(tmp_path, "x/deep/er/id8.jsonl", 8, line_of("id8"))
    write_lines(tmp_path, "x/id9.jsonl", 9, line_of("id9"))
    assert found_in_lines(tmp_path) == "id3"
    (tmp_path / "top/id").mkdir(parents=True)
    (tmp_path / "top/id/it.json").write_text(json.dumps({"cwd": ROOT}))
    assert newest_conversation(str(tmp_path), "*/{conversation}/it.json#cwd", ROOT) == "id"


def test_the_first_line_with_the_directory_counts(tmp_path: Path) -> None:
    before = ("", "{", "[]", '"text"', json.dumps({"type": "mode", "sessionId": "good"}))
    write_lines(tmp_path, "x/a/good.jsonl", 1, *before, line_of("good"), line_of("good", "/other"))
    write_lines(tmp_path, "x/a/other.jsonl", 2, *before, line_of("other", "/other"), line_of("other"))
    write_lines(tmp_path, "x/a/empty.jsonl", 3)
    assert found_in_lines(tmp_path) == "good"


def test_a_line_may_be_too_long(tmp_path: Path) -> None:
    """An image in the first prompt: a later line has the directory, too."""
    long = json.dumps({"image": "x" * 3_000_000, "cwd": "/other", "sessionId": "good"})
    write_lines(tmp_path, "x/a/good.jsonl", 1, long, line_of("good"), *[line_of("good")] * 50_000)
    assert found_in_lines(tmp_path) == "good"


def test_a_line_of_another_conversation_is_skipped(tmp_path: Path) -> None:
    """A sub-agent's file names the conversation of its caller."""
    write_lines(tmp_path, "x/a/good.jsonl", 1, line_of("first"), line_of("good"))
    write_lines(tmp_path, "x/a/agent-1.jsonl", 2, line_of("good"))
    assert found_in_lines(tmp_path) == "good"


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


def test_no_link_stands_for_one_directory(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    write_lines(home, "x/a/good.jsonl", 1, line_of("good"))
    write_lines(outside, "link.jsonl", 2, line_of("link"))
    (home / "x/b").symlink_to(outside)
    (home / "x/a/link.jsonl").symlink_to(outside / "link.jsonl")
    assert found_in_lines(home) == "good"


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


def test_the_number_of_lines_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "_MOST_READ", 10)
    write_lines(tmp_path, "x/a/good.jsonl", 1, *["{}"] * 4, line_of("good"))
    write_lines(tmp_path, "x/a/other.jsonl", 2, *["{}"] * 5)
    assert found_in_lines(tmp_path) == "good"
    write_lines(tmp_path, "x/a/other.jsonl", 2, *["{}"] * 6)
    assert found_in_lines(tmp_path) == ""


def test_the_number_of_entries_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, changed = Mock(wraps=conversations._names), Mock(wraps=conversations._changed)
    monkeypatch.setattr(conversations, "_names", names)
    monkeypatch.setattr(conversations, "_changed", changed)
    monkeypatch.setattr(conversations, "_MOST_ENTRIES", 4)
    for number in range(6):
        write_lines(tmp_path, f"x/a/id{number}.jsonl", 1, line_of("other"))
        write_lines(tmp_path, f"x/b/id{number}.jsonl", 1, line_of("other"))
        (tmp_path / f"y/{number}").mkdir(parents=True)
    assert found_in_lines(tmp_path) == ""
    assert changed.call_count == 4
    names.reset_mock()
    assert newest_conversation(str(tmp_path), LINES.replace("x/", "y/"), ROOT) == ""
    assert names.call_count == 1 + 4
