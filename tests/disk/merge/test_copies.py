"""New files with the content of an unchanged file are shown and written as copies; they are selected as new files."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.cli.render.changes import _change
from agent_dev.cli.render.format import change_row
from agent_dev.fs.entry import Key
from agent_dev.merge import link_renames
from agent_dev.merge.patches import PatchWriter
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.overlay.patch_write import PatchFormat
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import FILE, Node, UpperEntry
from tui.text.labels import describe_kind
from tui.widgets import change_list

TEXT = b"".join(b"line %d of the file\n" % number for number in range(9))
OTHER = TEXT.replace(b"line 3", b"line X")


def file(data: bytes, mode: int = 0o644) -> Node:
    return Node(FILE, data, mode)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[EndedSession]:
    base = {b"a": file(TEXT), b"b": file(OTHER), b"tiny": file(b"x\n" * 20), b"edited": file(TEXT + TEXT)}
    marks = [
        UpperEntry(b"copy", file(TEXT)),
        UpperEntry(b"run me", file(OTHER, 0o755)),
        UpperEntry(b"tiny2", file(b"x\n" * 20)),
        UpperEntry(b"edited", file(TEXT + TEXT + b"more\n")),
        UpperEntry(b"was edited", file(TEXT + TEXT)),
        UpperEntry(b"other", file(TEXT.replace(b"line 4", b"line Y"))),
    ]
    with EndedSession(tmp_path, base, marks) as made:
        yield made


def origins(session: EndedSession) -> dict[bytes, bytes]:
    return {one.key.path: one.copied_from.path for one in session.changes().changes if one.copied_from}


def patch_of(session: EndedSession, *paths: bytes, form: PatchFormat | None = None) -> bytes:
    review = session.review()
    try:
        some = [one for one in review.changes.changes if not paths or one.key.path in paths]
        return b"".join(PatchWriter(review, some, lambda key: key.path, form or PatchFormat()))
    finally:
        review.close()


def test_a_new_file_equal_to_an_unchanged_file_is_a_copy(session: EndedSession) -> None:
    assert origins(session) == {b"copy": b"a", b"run me": b"b"}


def test_the_list_and_json_name_the_origin(session: EndedSession) -> None:
    change = session.changes().by_key()[Key(0, b"copy")]
    assert change_row(change, ["/src"]).startswith("+ copied   copy (from a)")
    assert "".join(piece.text for piece in change_list._origin(change, 40)) == " copied from a"
    assert describe_kind(change) == "new file, copied from a"
    assert (_change(change, ["/src"])["kind"], _change(change, ["/src"])["from"]) == ("copied", "a")


def test_an_origin_that_the_user_edited_is_none(session: EndedSession) -> None:
    (session.real / "a").write_bytes(OTHER)
    assert origins(session) == {b"run me": b"b"}


def test_git_applies_the_patch_of_a_copy(session: EndedSession) -> None:
    patch = patch_of(session)
    assert patch.count(b"similarity index 100%\ncopy from ") == 2
    subprocess.run(["git", "apply"], input=patch, cwd=session.real, check=True)
    found = trees.read(session.real)
    wanted = {b"a": TEXT, b"b": OTHER, b"copy": TEXT, b"run me": OTHER}
    assert {path: found[path].content for path in wanted} == wanted
    assert (session.real / "run me").stat().st_mode & 0o111


def test_an_origin_edited_after_the_review_opened_is_not_named_in_a_patch(session: EndedSession) -> None:
    review = session.review()
    (session.real / "a").write_bytes(OTHER)
    try:
        some = [one for one in review.changes.changes if one.key.path == b"copy"]
        patch = b"".join(PatchWriter(review, some, lambda key: key.path))
    finally:
        review.close()
    assert b"new file mode 100644" in patch


def test_hunks_with_numbers_show_the_content_of_a_copy(session: EndedSession) -> None:
    assert b"+line 0 of the file\n" in patch_of(session, b"copy", form=PatchFormat(with_numbers=True))


def test_the_patch_of_a_copy_selects_the_new_file(session: EndedSession) -> None:
    session.merge_selected(SelectionRequest(patch=patch_of(session, b"copy")))
    assert (session.real / "copy").read_bytes() == TEXT
    assert not (session.real / "run me").exists()


def test_a_copy_is_selected_in_part_as_a_new_file(session: EndedSession) -> None:
    session.merge_selected(SelectionRequest(parts=((Key(0, b"copy"), frozenset((1,))),)))
    assert (session.real / "copy").read_bytes() == TEXT


def test_only_a_limited_number_of_files_is_read(session: EndedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_renames, "_MAX_COPIED_BYTES", 2 * len(TEXT) - 1)
    assert origins(session) == {}
    monkeypatch.setattr(link_renames, "_MAX_COPIED_BYTES", 1 << 20)
    monkeypatch.setattr(link_renames, "_MAX_COPIES", 0)
    assert origins(session) == {}
