"""The clipboard of a user's desktop: a scripted one, and those of a real X server and a real Wayland compositor."""

import os
import shlex
import struct
import subprocess
import tempfile
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


@dataclass(frozen=True)
class Desktop:
    """A running X server or Wayland compositor, as the variables of its programs, and the program that copies."""

    environ: dict[str, str]
    copying: tuple[str, ...]

    def copy(self, path: Path, kind: str) -> None:
        """Put a file into the clipboard as a type."""
        with path.open("rb") as file:
            subprocess.run([*self.copying, kind], stdin=file, env={**os.environ, **self.environ}, check=True, timeout=20)


@contextmanager
def x11_desktop() -> Iterator[Desktop]:
    """Run an X server without a screen."""
    ready, theirs = os.pipe()
    command = ("Xvfb", "-displayfd", str(theirs), "-screen", "0", "64x64x8", "-nolisten", "tcp")
    with running(command, ready, theirs, {}) as number:
        yield Desktop({"DISPLAY": f":{number}"}, ("xclip", "-selection", "clipboard", "-t"))


@contextmanager
def wayland_desktop() -> Iterator[Desktop]:
    """Run a Wayland compositor without a screen: sway, since weston lets only the focused window read the clipboard."""
    ready, theirs = os.pipe()
    with tempfile.TemporaryDirectory() as folder:  # not below the test's: the path of a socket is short
        config = Path(folder, "config")
        config.write_text(f"xwayland disable\nexec echo $WAYLAND_DISPLAY >/proc/self/fd/{theirs}\n")
        environ = {"XDG_RUNTIME_DIR": folder}
        headless = {"WLR_BACKENDS": "headless", "WLR_LIBINPUT_NO_DEVICES": "1", "WLR_RENDERER": "pixman"}
        with running(("sway", "--config", str(config)), ready, theirs, environ | headless) as name:
            yield Desktop({**environ, "WAYLAND_DISPLAY": name}, ("wl-copy", "--type"))


@contextmanager
def running(command: tuple[str, ...], ready: int, theirs: int, environ: dict[str, str]) -> Iterator[str]:
    """Run a server; yield the line that it writes into a pipe once it is ready."""
    with subprocess.Popen(command, pass_fds=[theirs], stderr=subprocess.DEVNULL, env={**os.environ, **environ}) as server:
        os.close(theirs)
        try:
            with os.fdopen(ready) as pipe:
                line = pipe.readline().strip()
            assert line, f"{command[0]} did not start"
            yield line
        finally:
            server.terminate()
