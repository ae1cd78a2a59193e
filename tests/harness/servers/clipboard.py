"""The clipboard of a user's desktop: a scripted one, and one of a real X server."""

import os
import shlex
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = """#!/bin/sh
echo "$@" >>{calls}
if [ "$4" = TARGETS ] || [ "$1" = --list-types ]; then exec cat {types}; fi
exec cat {contents}
"""


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(bytes(4)))
    + _chunk(b"IEND", b"")
)


@dataclass(frozen=True)
class ScriptedClipboard:
    """A clipboard that answers every request with the same contents, as a program that owns X11's selection may."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a desktop with X11 whose `xclip` reads it."""
        return {"DISPLAY": ":0", "PATH": f"{self.folder}:{os.environ['PATH']}"}

    def copy(self, contents: bytes, types: str) -> None:
        """Put contents into it, which it offers as these types."""
        (self.folder / "contents").write_bytes(contents)
        (self.folder / "types").write_text("".join(f"{one}\n" for one in types.split()))

    def calls(self) -> list[str]:
        """Return the arguments of each call of the program."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


def scripted_clipboard(folder: Path) -> ScriptedClipboard:
    """Make one, with an image, in a new directory."""
    folder.mkdir()
    places = {name: shlex.quote(str(folder / name)) for name in ("calls", "types", "contents")}
    for name in ("xclip", "wl-paste"):
        (folder / name).write_text(_SCRIPT.format(**places))
        (folder / name).chmod(0o755)
    made = ScriptedClipboard(folder)
    made.copy(PNG, "TIMESTAMP TARGETS image/png")
    return made


@contextmanager
def x_server() -> Iterator[str]:
    """Run an X server; yield the name of its display."""
    ready, theirs = os.pipe()
    command = ("Xvfb", "-displayfd", str(theirs), "-screen", "0", "64x64x8", "-nolisten", "tcp")
    with subprocess.Popen(command, pass_fds=[theirs], stderr=subprocess.DEVNULL) as server:
        os.close(theirs)
        try:
            with os.fdopen(ready) as pipe:
                yield f":{pipe.readline().strip()}"
        finally:
            server.terminate()


def copy_to_x(display: str, path: Path, kind: str) -> None:
    """Put a file into the clipboard of an X server."""
    command = ("xclip", "-selection", "clipboard", "-t", kind, "-i", path)
    subprocess.run(command, env={**os.environ, "DISPLAY": display}, check=True, timeout=20)
