"""Decide whether and how a run passes on images of the user's clipboard, before a session exists."""

import os

from agent_dev.clipboard import programs
from agent_dev.errors import Refused
from agent_dev.linux.programs import find_program
from agent_dev.paths import RUN
from agent_dev.sandbox.landlock_probe import read_script
from agent_dev.sandbox.plan import File, Symlink
from agent_dev.sandbox.shared_sockets import SharedSocket, share_warning

NAME = "clipboard-images"
SOCKET = f"{RUN}/clipboard"  # in the sandbox
FOLDER = f"{RUN}/clipboard-programs"  # of the programs inside, first on PATH
_SCRIPT = "clipboard_program.py"


def find_reader(environ: dict[str, str], untrusted: tuple[str, ...]) -> str:
    """Return the path of the program that reads the clipboard of the user's desktop. Raises Refused."""
    setting = f"--share {NAME}"
    if environ.get("WAYLAND_DISPLAY"):
        name, package = programs.WAYLAND, "wl-clipboard"
    elif environ.get("DISPLAY"):
        name, package = programs.X11, "xclip"
    else:
        raise Refused(message=f"{setting}: neither WAYLAND_DISPLAY nor DISPLAY is set")
    path = find_program(name, environ, untrusted)
    if path is None:
        raise Refused(message=f"{setting}: {name} is not installed", hint=f"install the package {package}")
    return path


def programs_inside(reader: str, python: str) -> SharedSocket:
    """Return the programs by which agents read the clipboard, and a variable that tells them which one to use.

    `python`: runs them inside. Raises Refused without one.
    """
    if not python:
        raise Refused(message=f"--share {NAME}: requires a Python below /usr")
    script = b"#!%s -ISB\n%s" % (os.fsencode(python), read_script(_SCRIPT))
    is_wayland = reader.rpartition("/")[2] == programs.WAYLAND
    return SharedSocket(
        (File(f"{FOLDER}/{programs.X11}", script, is_program=True), Symlink(f"{FOLDER}/{programs.WAYLAND}", programs.X11)),
        (("XDG_SESSION_TYPE", "wayland" if is_wayland else "x11"),),
        share_warning(NAME),
    )
