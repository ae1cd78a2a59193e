"""Blobs of the user's repositories, read by a git that sees nothing of them but the objects.

Its git dir is an empty one of ours: no configuration, hook, filter, replacement, promised object or reference is there to
be heeded, and nothing is written.
"""

import hashlib
import os
import select
import subprocess
import time
import weakref
from typing import TYPE_CHECKING

from agent_dev import trace as debug
from agent_dev.git import repository as repo

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 20.0  # for one blob: a FIFO in the place of a pack would make git wait for ever
_LONGEST_ANSWER = 200  # bytes of the line before a blob
_SHA256 = 64  # digits of an id


def make_git_dir(folder: str, *, is_sha256: bool) -> str:
    """Make an empty git dir in a folder of ours, if there is none, and return it."""
    place = f"{folder}/git-{256 if is_sha256 else 1}"
    for name in ("objects", "refs"):
        os.makedirs(f"{place}/{name}", 0o700, exist_ok=True)
    version = "1\n[extensions]\n\tobjectFormat = sha256" if is_sha256 else "0"
    for name, text in (
        ("HEAD", "ref: refs/heads/none"),
        ("config", f"[core]\n\tbare = true\n\trepositoryformatversion = {version}"),
    ):
        with open(f"{place}/{name}", "w", encoding="ascii") as file:
            file.write(f"{text}\n")
    return place


class Blobs:
    """One object store, open for reading. Its git ends with this object."""

    def __init__(self, program: str, folder: str, objects: str) -> None:
        self._program, self._folder, self._objects = program, folder, objects
        self._git: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], object] | None = None

    def read(self, oid: str, largest: int) -> bytes | None:
        """Return a blob whose bytes have this id; None for one that is gone, damaged or of more than `largest` bytes."""
        try:
            data = self._ask(oid, largest)
        except (OSError, ValueError):
            data = None
        if data is None:
            self.close()  # whatever it would still say belongs to no other question
            return None
        kind = hashlib.sha256 if len(oid) == _SHA256 else hashlib.sha1
        return data if kind(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == oid else None

    def close(self) -> None:
        """End git."""
        if self._end is not None:
            self._end()
        self._git, self._end = None, None

    def _ask(self, oid: str, largest: int) -> bytes | None:
        git = self._git or self._start(is_sha256=len(oid) == _SHA256)
        if git.stdin is None or git.stdout is None:
            return None
        git.stdin.write(oid.encode("ascii") + b"\n")
        fd, until = git.stdout.fileno(), time.monotonic() + _SECONDS
        data = b""
        while b"\n" not in data:
            if len(data) > _LONGEST_ANSWER:
                return None
            data += _piece(fd, until)
        head, _, data = data.partition(b"\n")
        words = head.split(b" ")
        if len(words) != 3 or words[1] != b"blob" or int(words[2]) > largest:
            return None
        return _rest(fd, data, int(words[2]) + 1, until)[:-1]

    def _start(self, *, is_sha256: bool) -> "subprocess.Popen[bytes]":
        place = make_git_dir(self._folder, is_sha256=is_sha256)
        argv = ("git", "--git-dir", place, *repo.SAFE, "cat-file", "--batch")
        debug.show(argv)
        nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_OBJECT_DIRECTORY": self._objects}
        git = subprocess.Popen(
            argv,
            executable=self._program,
            env=repo.environment({}) | nothing,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
        )
        self._git, self._end = git, weakref.finalize(self, _end, git)
        return git


def _end(git: "subprocess.Popen[bytes]") -> None:
    git.kill()
    for pipe in (git.stdin, git.stdout):
        if pipe is not None:
            pipe.close()
    git.wait()


def _rest(fd: int, data: bytes, size: int, until: float) -> bytes:
    pieces, length = [data], len(data)
    while length < size:
        pieces.append(_piece(fd, until))
        length += len(pieces[-1])
    return b"".join(pieces)


def _piece(fd: int, until: float) -> bytes:
    """Read what there is. Raises TimeoutError, and EOFError's cousin ValueError at the end."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise TimeoutError
    piece = os.read(fd, 1 << 20)
    if not piece:
        raise ValueError("git ended")
    return piece
