"""An import writes to the working tree what git checks out from the commit's blobs, not files of the agent's working tree."""

import shutil
from pathlib import Path

import pytest

from tests.disk.commits.import_world import status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit, git

GOOD = "echo good $Id$\n"
ATTRIBUTES = [
    "*.sh ident", "*.sh filter=unknown", "*.sh working-tree-encoding=UTF-16", "*.sh ident eol=crlf", "*.sh -ident",
    "*.sh working-tree-encoding=ISO-8859-1", "*.sh filter=lfs", "*.sh text=auto eol=crlf working-tree-encoding=UTF-16LE-BOM",
]  # fmt: skip


def fresh(root: Path, folder: Path) -> Path:
    """Return a fresh clone: the files as git checks them out."""
    git(root.parent, "clone", "-q", "--no-hardlinks", str(root), str(folder))
    return folder


def tree(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if ".git" not in path.relative_to(root).parts and path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def encoded(text: str, attributes: str) -> bytes:
    encoding = attributes.partition("encoding=")[2]
    return text.encode("utf-16" if encoding == "UTF-16LE-BOM" else encoding or "utf-8")


@pytest.mark.parametrize("attributes", ATTRIBUTES)
@pytest.mark.parametrize("is_new", [True, False], ids=["attributes of the commit's own", "attributes of the user's"])
def test_only_bytes_of_the_commit_are_checked_out(tmp_path: Path, root: Path, attributes: str, *, is_new: bool) -> None:
    (root / "run.sh").write_bytes(encoded("echo one\n", "" if is_new else attributes))
    if not is_new:
        (root / ".gitattributes").write_text(attributes + "\n")
    commit(root, "start")
    git(root, "rm", "-rq", "--cached", ".")
    git(root, "reset", "-q", "--hard")
    with GitSession(tmp_path, root) as session:
        session.write(".gitattributes", attributes + "\n")
        session.agent.joinpath("run.sh").write_bytes(encoded(GOOD, attributes))
        session.commit("good")
        session.agent.joinpath("run.sh").write_bytes(encoded("echo EVIL\n", attributes))
        session.end()
        done = session.import_commits()

        assert done.not_updated == ()
        assert b"EVIL" not in (root / "run.sh").read_bytes().replace(b"\0", b"")
        assert tree(root) == tree(fresh(root, tmp_path / "fresh"))
        assert status(root) == ""
        session.undo()
        assert status(root) == ""
        assert b"echo one" in (root / "run.sh").read_bytes().replace(b"\0", b"")


def test_content_that_cannot_be_encoded_is_left_and_reported(tmp_path: Path, root: Path) -> None:
    (root / "x.txt").write_text("one\n")
    commit(root, "start")
    with GitSession(tmp_path, root) as session:
        session.write(".gitattributes", "*.txt working-tree-encoding=SHIFT-JIS\n")
        session.commit("two", x__txt="two\n")
        session.end()
        done = session.import_commits()

        assert [(one.key.path, "SHIFT-JIS" in one.reason) for one in done.not_updated] == [(b"x.txt", True)]
        assert (root / "x.txt").read_text() == "one\n"
        git(root, "checkout", "--", "x.txt")
        assert status(root) == ""


def test_an_edit_of_a_converted_file_blocks_or_is_merged(tmp_path: Path, root: Path) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    (root / ".gitattributes").write_text("*.sh ident\n")
    (root / "run.sh").write_text("".join(["# $Id$\n", *lines]))
    commit(root, "start")
    git(root, "rm", "-q", "--cached", "run.sh")
    git(root, "reset", "-q", "--hard")
    shutil.copy(root / "run.sh", tmp_path / "kept")
    with GitSession(tmp_path, root) as session:
        session.commit("two", run__sh="".join(["# $Id$\n", *lines, "agent's\n"]))
        session.end()
        (root / "run.sh").write_text((root / "run.sh").read_text().replace("line 3\n", "mine\n"))
        done = session.import_commits()

        assert [one.path for one in done.merged_files] == [b"run.sh"]
        text = (root / "run.sh").read_text()
        assert "mine\n" in text
        assert text.endswith("agent's\n")
        assert status(root) == " M run.sh\n"
