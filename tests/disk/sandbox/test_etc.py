"""The cached image of /etc: created once, kept while sessions start with it, removed after a long time without use."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from agent_dev.sandbox import etc
from agent_dev.sandbox.plan import Bind, File, Mount

LONG_AGO = time.time() - 40 * 86400


def image(tmp_path: Path, says: bytes = b"root") -> Path:
    """Start a session whose /etc contains a file with this content; return the image that is mounted."""
    return source(etc.etc_mounts({"XDG_CACHE_HOME": str(tmp_path)}, (("passwd", says),)))


def source(mounts: tuple[Mount, ...]) -> Path:
    (found,) = [mount.source for mount in mounts if isinstance(mount, Bind) and mount.target == "/etc"]
    return Path(found)


def age(made: Path) -> None:
    for path in (made, Path(f"{made}.key")):
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_an_image_is_created_once(tmp_path: Path) -> None:
    made = image(tmp_path)
    inode = made.stat().st_ino
    assert (made / "passwd").read_bytes() == b"root"
    assert (made / "hosts").read_bytes() == Path("/etc/hosts").read_bytes() + b"127.0.1.1\tsandbox\n"
    assert image(tmp_path) == made
    assert made.stat().st_ino == inode


def test_another_content_creates_another_image_and_keeps_the_first(tmp_path: Path) -> None:
    first, second = image(tmp_path), image(tmp_path, b"other")
    assert ((first / "passwd").read_bytes(), (second / "passwd").read_bytes()) == (b"root", b"other")


def test_an_old_image_of_a_recently_started_session_is_kept(tmp_path: Path) -> None:
    made = image(tmp_path)
    age(made)
    image(tmp_path)
    image(tmp_path, b"other")
    assert (made / "passwd").read_bytes() == b"root"
    assert Path(f"{made}.key").exists()


def test_an_image_unused_for_long_is_removed(tmp_path: Path) -> None:
    made = image(tmp_path)
    age(made)
    image(tmp_path, b"other")
    assert not made.exists()
    assert not Path(f"{made}.key").exists()


@pytest.mark.parametrize("end", ["", ".key"], ids=["image", "key"])
def test_an_incomplete_image_is_rebuilt(tmp_path: Path, end: str) -> None:
    made = image(tmp_path)
    Path(f"{made}{end}").rename(tmp_path / "away")
    assert (image(tmp_path) / "passwd").read_bytes() == b"root"


def test_without_a_cache_each_file_is_passed_separately(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    mounts = etc.etc_mounts({"XDG_CACHE_HOME": str(tmp_path / "file")}, (("passwd", b"root"),))
    targets = [mount.target for mount in mounts]
    assert "/etc" not in targets
    assert {"/etc/passwd", "/etc/hosts", "/etc/gitconfig"} <= set(targets)


def test_concurrent_session_starts_share_one_image(tmp_path: Path) -> None:
    together = Barrier(6)

    def begin(place: Path) -> int:
        together.wait(60)
        return image(place).stat().st_ino

    for number in range(10):
        with ThreadPoolExecutor(6) as pool:
            assert len(set(pool.map(begin, [tmp_path / str(number)] * 6))) == 1


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (b"127.0.0.1 localhost\n", b"127.0.0.1 localhost\n127.0.1.1\tsandbox\n"),
        (b"10.0.0.1 mine", b"10.0.0.1 mine\n127.0.1.1\tsandbox\n"),
        (b"10.0.0.1 other Sandbox # mine\n", b"10.0.0.1 other Sandbox # mine\n"),
        (b"10.0.0.1 other # sandbox\n", b"10.0.0.1 other # sandbox\n127.0.1.1\tsandbox\n"),
        (None, b"127.0.0.1\tlocalhost\n127.0.1.1\tsandbox\n"),
    ],
)
def test_the_sandboxs_name_is_added_to_the_users_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: bytes | None, expected: bytes
) -> None:
    read = etc._read
    monkeypatch.setattr(etc, "_read", lambda path: hosts if path == "/etc/hosts" else read(path))
    assert (image(tmp_path) / "hosts").read_bytes() == expected
    blocked = tmp_path / "file"
    blocked.touch()
    files = [mount for mount in etc.etc_mounts({"XDG_CACHE_HOME": str(blocked)}, ()) if isinstance(mount, File)]
    assert [file.data for file in files if file.target == "/etc/hosts"] == [expected]
