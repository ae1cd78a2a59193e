"""The image of /etc in the cache: made once, kept while sessions begin with it, removed when none has for long."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from agent_dev.sandbox import etc
from agent_dev.sandbox.plan import Bind, Mount

LONG_AGO = time.time() - 40 * 86400


def image(tmp_path: Path, says: bytes = b"root") -> Path:
    """Begin a session whose /etc has a file of ours; return the image that is bound."""
    return source(etc.mounts({"XDG_CACHE_HOME": str(tmp_path)}, (("passwd", says),)))


def source(mounts: tuple[Mount, ...]) -> Path:
    (found,) = [mount.source for mount in mounts if isinstance(mount, Bind) and mount.target == "/etc"]
    return Path(found)


def age(made: Path) -> None:
    for path in (made, Path(f"{made}.key")):
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_an_image_is_made_once(tmp_path: Path) -> None:
    made = image(tmp_path)
    inode = made.stat().st_ino
    assert (made / "passwd").read_bytes() == b"root"
    assert (made / "hosts").read_bytes() == Path("/etc/hosts").read_bytes()
    assert image(tmp_path) == made
    assert made.stat().st_ino == inode


def test_another_content_makes_another_image_and_leaves_the_first(tmp_path: Path) -> None:
    first, second = image(tmp_path), image(tmp_path, b"other")
    assert ((first / "passwd").read_bytes(), (second / "passwd").read_bytes()) == (b"root", b"other")


def test_an_old_image_with_which_a_session_just_began_is_kept(tmp_path: Path) -> None:
    made = image(tmp_path)
    age(made)
    image(tmp_path)
    image(tmp_path, b"other")
    assert (made / "passwd").read_bytes() == b"root"
    assert Path(f"{made}.key").exists()


def test_an_image_that_nobody_began_with_for_long_is_removed(tmp_path: Path) -> None:
    made = image(tmp_path)
    age(made)
    image(tmp_path, b"other")
    assert not made.exists()
    assert not Path(f"{made}.key").exists()


@pytest.mark.parametrize("end", ["", ".key"], ids=["image", "key"])
def test_an_image_that_is_not_whole_is_made_anew(tmp_path: Path, end: str) -> None:
    made = image(tmp_path)
    Path(f"{made}{end}").rename(tmp_path / "away")
    assert (image(tmp_path) / "passwd").read_bytes() == b"root"


def test_without_a_cache_each_file_is_handed_over_by_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    mounts = etc.mounts({"XDG_CACHE_HOME": str(tmp_path / "file")}, (("passwd", b"root"),))
    targets = [mount.target for mount in mounts]
    assert "/etc" not in targets
    assert {"/etc/passwd", "/etc/hosts", "/etc/gitconfig"} <= set(targets)


def test_sessions_that_begin_at_once_share_one_image(tmp_path: Path) -> None:
    together = Barrier(6)

    def begin(place: Path) -> int:
        together.wait(60)
        return image(place).stat().st_ino

    for number in range(10):
        with ThreadPoolExecutor(6) as pool:
            assert len(set(pool.map(begin, [tmp_path / str(number)] * 6))) == 1
