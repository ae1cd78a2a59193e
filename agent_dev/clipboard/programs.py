"""The programs that read the user's clipboard: `wl-paste` of wl-clipboard on Wayland, `xclip` on X11."""

import os
import select
import subprocess
import time

WAYLAND, X11 = "wl-paste", "xclip"
_SECONDS = 10  # for a program that owns the clipboard to deliver it
_CHUNK = 1 << 16


class TooLarge(Exception):
    """The clipboard holds more than may be read."""


def list_command(program: str) -> tuple[str, ...]:
    """Return the command that prints the types of the clipboard's contents."""
    return (program, "--list-types") if _is_wayland(program) else (program, "-selection", "clipboard", "-t", "TARGETS", "-o")


def read_command(program: str, kind: str) -> tuple[str, ...]:
    """Return the command that prints the clipboard's contents as a type."""
    if _is_wayland(program):
        return (program, "--no-newline", "--type", kind)
    return (program, "-selection", "clipboard", "-t", kind, "-o")


def _is_wayland(program: str) -> bool:
    return program.rpartition("/")[2] == WAYLAND


def read_output(command: tuple[str, ...], environ: dict[str, str], limit: int) -> bytes:
    """Return the output of a program, b"" if it fails. Raises TooLarge above `limit` bytes, TimeoutError, OSError."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, cwd="/"
    )
    with process:
        try:
            output = process.stdout
            data = b"" if output is None else _read(output.fileno(), limit)
            return data if process.wait(_SECONDS) == 0 else b""
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            process.kill()


def _read(fd: int, limit: int) -> bytes:
    data, deadline = bytearray(), time.monotonic() + _SECONDS
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise TimeoutError
        piece = os.read(fd, _CHUNK)
        if not piece:
            return bytes(data)
        data += piece
        if len(data) > limit:
            raise TooLarge
