"""Reader for blobs of the user's repositories; its git sees nothing but the objects.

Git runs in an empty git dir of ours: no configuration, hook, filter, ref or promisor applies, and nothing is written.
"""

import hashlib
import os
import select
import subprocess
import time
import weakref
from typing import TYPE_CHECKING

from agent_dev import debug
from agent_dev.git import repository

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT = 20.0  # for one blob: a FIFO instead of a pack would block git forever
_MAX_HEADER_SIZE = 200  # bytes of the header line before a blob
_SHA256_DIGITS = 64  # hex digits of an id


def create_empty_git_dir(folder: str, *, is_sha256: bool) -> str:
    """Create an empty git dir in `folder` unless it exists, and return its path."""
    git_dir = f"{folder}/git-{256 if is_sha256 else 1}"
    for name in ("objects", "refs"):
        os.makedirs(f"{git_dir}/{name}", 0o700, exist_ok=True)
    version = "1\n[extensions]\n\tobjectFormat = sha256" if is_sha256 else "0"
    for name, text in (
        ("HEAD", "ref: refs/heads/none"),
        ("config", f"[core]\n\tbare = true\n\trepositoryformatversion = {version}"),
    ):
        with open(f"{git_dir}/{name}", "w", encoding="ascii") as file:
            file.write(f"{text}\n")
    return git_dir


class BlobReader:
    """Reader for one object store. Its git process ends when this object is deleted."""

    def __init__(self, program: str, folder: str, objects: str) -> None:
        self._program, self._folder, self._objects = program, folder, objects
        self._git: subprocess.Popen[bytes] | None = None
        self._stop_git: Callable[[], object] | None = None

    def read(self, oid: str, largest: int) -> bytes | None:
        """Return a blob that hashes to this id; None when it is missing, damaged or larger than `largest` bytes."""
        try:
            data = self._query(oid, largest)
        except (OSError, ValueError):
            data = None
        if data is None:
            self.close()  # its remaining output must not be read as the next answer
            return None
        kind = hashlib.sha256 if len(oid) == _SHA256_DIGITS else hashlib.sha1
        return data if kind(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == oid else None

    def close(self) -> None:
        """Stop git."""
        if self._stop_git is not None:
            self._stop_git()
        self._git, self._stop_git = None, None

    def _query(self, oid: str, largest: int) -> bytes | None:
        git = self._git or self._start(is_sha256=len(oid) == _SHA256_DIGITS)
        if git.stdin is None or git.stdout is None:
            return None
        git.stdin.write(oid.encode("ascii") + b"\n")
        fd, deadline = git.stdout.fileno(), time.monotonic() + _TIMEOUT
        data = b""
        while b"\n" not in data:
            if len(data) > _MAX_HEADER_SIZE:
                return None
            data += _read_chunk(fd, deadline)
        header, _, data = data.partition(b"\n")
        fields = header.split(b" ")
        if len(fields) != 3 or fields[1] != b"blob" or int(fields[2]) > largest:
            return None
        return _read_rest(fd, data, int(fields[2]) + 1, deadline)[:-1]

    def _start(self, *, is_sha256: bool) -> "subprocess.Popen[bytes]":
        git_dir = create_empty_git_dir(self._folder, is_sha256=is_sha256)
        argv = ("git", "--git-dir", git_dir, *repository.SAFE_OPTIONS, "cat-file", "--batch")
        debug.print_command(argv)
        empty_config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_OBJECT_DIRECTORY": self._objects}
        git = subprocess.Popen(
            argv,
            executable=self._program,
            env=repository.git_environment({}) | empty_config,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
        )
        self._git, self._stop_git = git, weakref.finalize(self, _stop_git, git)
        return git


def _stop_git(git: "subprocess.Popen[bytes]") -> None:
    git.kill()
    for pipe in (git.stdin, git.stdout):
        if pipe is not None:
            pipe.close()
    git.wait()


def _read_rest(fd: int, data: bytes, size: int, deadline: float) -> bytes:
    chunks, length = [data], len(data)
    while length < size:
        chunks.append(_read_chunk(fd, deadline))
        length += len(chunks[-1])
    return b"".join(chunks)


def _read_chunk(fd: int, deadline: float) -> bytes:
    """Read the available bytes. Raises TimeoutError, or ValueError at the end of the output."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError
    chunk = os.read(fd, 1 << 20)
    if not chunk:
        raise ValueError("git closed its output")
    return chunk
