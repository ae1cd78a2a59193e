"""CONTAINMENT B: a hostile agent uses the socket of `share: clipboard-images`."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.servers.clipboard import PNG, ScriptedClipboard, scripted_clipboard

HOSTILE = r"""
import hashlib, json, socket, sys
def ask(data):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("/run/agent-dev/clipboard"); line.settimeout(30)
        line.sendall(data); line.shutdown(socket.SHUT_WR)
        reply = b""
        try:
            while piece := line.recv(65536): reply += piece
        except ConnectionResetError: pass  # it did not read all of the request
    return reply
requests = [b"text/plain", b"UTF8_STRING", b"STRING", b"TARGETS", b"image/svg+xml", b"image/../text/plain"]
requests += [b"image/png -i /etc/passwd", b"image/png\0", b"-i", b"", b"\xff", b"x" * 1000]
found = {"others": [ask(one + b"\n").decode() for one in requests]}
found["image"] = hashlib.sha256(ask(b"image/png\nimage/jpeg\n").partition(b"\n")[2]).hexdigest()
json.dump(found, sys.stdout)
"""
SHARE = ("--no-merge", "--share", "clipboard-images")


@pytest.fixture
def clipboard(tmp_path: Path) -> ScriptedClipboard:
    return scripted_clipboard(tmp_path / "desktop")


@row(
    "read text from the clipboard through the socket for its images, write the clipboard, run the program with other options",
    "a request is one of six fixed lines; data is passed on only if it begins as an image of that type",
)
def test_b27_the_clipboards_socket_passes_on_only_images(world: Machine, clipboard: ScriptedClipboard) -> None:
    found: dict[str, Any] = world.program.run_python_inside(HOSTILE, *SHARE, env=clipboard.environ)
    assert found["image"] == hashlib.sha256(PNG).hexdigest()
    assert [one for one in found["others"] if not one.startswith("no only images are read")] == []
    assert clipboard.calls() == ["-selection clipboard -t image/png -o"]
    clipboard.copy(b"password", "UTF8_STRING image/png")
    done = world.program(*SHARE, "--", "xclip", "-selection", "clipboard", "-t", "image/png", "-o", env=clipboard.environ)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(world.folder) not in json.dumps(found) + done.stderr
