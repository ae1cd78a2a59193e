"""Opening, reading and comparing files relative to the descriptor of a tree."""

import os
from pathlib import Path

import pytest

from agent_dev.fs.dir_tree import Tree, have_same_content, read_all


def test_an_unreadable_file_of_ours_is_read_and_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "closed").write_bytes(b"content")
    (tmp_path / "closed").chmod(0)
    tree = Tree(str(tmp_path), is_ours=True)
    assert tree.read(b"closed", 100) == b"content"
    assert (tmp_path / "closed").stat().st_mode & 0o777 == 0
    tree.close()


@pytest.mark.parametrize("path", [b"link", b"folder/../file", b"loop/file"])
def test_no_symlink_and_no_path_out_of_the_root_is_followed(tmp_path: Path, path: bytes) -> None:
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (tmp_path / "outside").write_text("secret")
    (root / "file").write_text("file")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root / "folder")
    tree = Tree(str(root))
    if path == b"folder/../file":
        os.close(tree.open(path, os.O_RDONLY))  # allowed: the path stays below the root
    else:
        with pytest.raises(OSError, match=r"."):
            tree.open(path, os.O_RDONLY)
    with pytest.raises(OSError, match=r"."):
        tree.open(b"../outside", os.O_RDONLY)
    tree.close()


def test_equal_bytes_compare_equal_and_others_do_not(tmp_path: Path) -> None:
    for name, data in (("a", b"x" * 3_000_000), ("b", b"x" * 3_000_000), ("c", b"x" * 2_999_999 + b"y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(data)
    a, b, c = (Tree(str(tmp_path / name)) for name in "abc")
    assert have_same_content(a, b, b"f")
    assert not have_same_content(a, c, b"f")
    for tree in (a, b, c):
        tree.close()


@pytest.mark.parametrize("expected", [0, 3, 9, 10, 11, 4000])
def test_the_whole_file_is_read_whatever_size_was_expected(tmp_path: Path, expected: int) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        assert read_all(fd, expected) == b"0123456789"
    finally:
        os.close(fd)
