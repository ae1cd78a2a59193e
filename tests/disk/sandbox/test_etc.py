"""The cached image of /etc: created once, kept while sessions start with it, removed after a long time without use."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from agent_dev.sandbox import etc
from agent_dev.sandbox.plan import Bind, File, Mount
from tests.harness.scale import repeat

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


def test_an_image_that_a_session_has_just_started_with_is_kept(tmp_path: Path) -> None:
    made = image(tmp_path)
    age(made)
    found = made.stat().st_mtime_ns
    assert image(tmp_path) == made
    assert not etc.remove_unused(str(made), found)
    inode = made.stat().st_ino
    assert image(tmp_path) == made
    assert made.stat().st_ino == inode


def test_an_unused_image_is_removed_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    made, other = image(tmp_path), image(tmp_path, b"other")
    age(made)
    Path(f"{made}.4711").mkdir()  # of a killed process
    assert etc.remove_unused(str(made), made.stat().st_mtime_ns)
    assert {path.name for path in made.parent.iterdir()} == {etc.LOCK, other.name, f"{other.name}.key"}


def test_a_start_while_its_image_is_removed_has_an_image(tmp_path: Path) -> None:
    """Whatever the order, the mounted image exists and is complete afterwards."""
    for number in range(repeat(100)):
        folder = tmp_path / str(number)
        age(image(folder))
        assert (_start_and_remove(folder) / "passwd").read_bytes() == b"root"


def _start_and_remove(folder: Path) -> Path:
    """Start a session while its unused image is removed; return the image that it mounts."""
    (made,) = (path for path in (folder / "agent-dev").iterdir() if path.is_dir())
    together, used = Barrier(2), made.stat().st_mtime_ns

    def remove() -> bool:
        together.wait(60)
        return etc.remove_unused(str(made), used)

    def start() -> Path:
        together.wait(60)
        return image(folder)

    with ThreadPoolExecutor(2) as pool:
        removed, started = pool.submit(remove), pool.submit(start)
        removed.result(60)
        return started.result(60)


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
