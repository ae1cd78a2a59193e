"""`share: clipboard-images`: agents get images of the user's clipboard by `xclip` and `wl-paste`, and nothing else of it."""

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.harness.servers.clipboard import PNG, Desktop, ScriptedClipboard, scripted_clipboard, wayland_desktop, x11_desktop

RunDesktop = Callable[[], AbstractContextManager[Desktop]]

SHARE = ("--no-merge", "--share", "clipboard-images", "--", "sh", "-c")
DIGEST = hashlib.sha256(PNG).hexdigest()
READ = "touch new; xclip -selection clipboard -t image/png -o | sha256sum; wl-paste --type image/png | sha256sum"


@pytest.fixture
def clipboard(tmp_path: Path) -> ScriptedClipboard:
    return scripted_clipboard(tmp_path / "desktop")


def test_an_image_is_read_logged_and_announced(agent_dev: AgentDev, clipboard: ScriptedClipboard) -> None:
    told = clipboard.folder / "told"
    (clipboard.folder / "tell").write_text(f'#!/bin/sh\necho "$1: $2" >{told}.new && mv {told}.new {told}\n')
    (clipboard.folder / "tell").chmod(0o755)
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f'notify_command: ["{clipboard.folder / "tell"}"]\n')
    done = agent_dev(*SHARE, f"{READ}; xclip -selection clipboard -t TARGETS -o; wl-paste -l", env=clipboard.environ)
    assert done.stdout.split() == [DIGEST, "-", DIGEST, "-", "image/png", "image/png"], done.stderr
    assert "agent-dev: --share clipboard-images: the agent can read images of your clipboard, while it runs\n" in done.stderr
    assert "agent-dev: the agent read 2 images from your clipboard\n" in done.stderr
    rows = [row for row in json.loads(agent_dev.do("log", "--json"))["events"] if row["event"] == "clipboard"]
    image, types = f"image/png, {len(PNG)} bytes", "types of images: image/png"
    assert [(row["decision"], row["text"]) for row in rows] == [("allow", one) for one in (image, image, types, types)]
    assert f"clipboard read: {image}\n" in agent_dev.do("log")
    assert told.read_text() == f"agent-dev: the agent read an image from your clipboard: {image}\n"


def test_without_the_share_there_are_no_such_programs(agent_dev: AgentDev, clipboard: ScriptedClipboard) -> None:
    done = agent_dev("--", "sh", "-c", "ls /run/agent-dev; echo $PATH $XDG_SESSION_TYPE", env=clipboard.environ)
    assert "clipboard" not in done.stdout
    assert "x11" not in done.stdout
    assert clipboard.calls() == []


def test_a_desktop_with_wayland_is_read_by_wl_paste(agent_dev: AgentDev, clipboard: ScriptedClipboard) -> None:
    done = agent_dev(*SHARE, f"{READ}; echo $XDG_SESSION_TYPE", env={**clipboard.environ, "WAYLAND_DISPLAY": "wayland-0"})
    assert done.stdout.split() == [DIGEST, "-", DIGEST, "-", "wayland"], done.stderr
    assert clipboard.calls() == ["--no-newline --type image/png"] * 2


def test_without_a_desktop_nothing_starts(agent_dev: AgentDev) -> None:
    done = agent_dev(*SHARE, "touch new")
    assert (done.returncode, done.stdout) == (125, "")
    assert "--share clipboard-images: neither WAYLAND_DISPLAY nor DISPLAY is set" in done.stderr
    assert agent_dev.session_directories() == []


def test_no_process_or_socket_is_left_of_it(agent_dev: AgentDev, clipboard: ScriptedClipboard) -> None:
    assert agent_dev(*SHARE, "touch new", env=clipboard.environ).returncode == 0
    (session,) = agent_dev.session_directories()
    assert not Path(session, "clipboard").exists()


@pytest.mark.parametrize(
    "desktop",
    [
        pytest.param(x11_desktop, marks=pytest.mark.only_x11, id="X11"),
        pytest.param(wayland_desktop, marks=pytest.mark.only_wayland, id="Wayland"),
    ],
)
def test_a_real_desktop_hands_over_an_image_and_no_text(agent_dev: AgentDev, tmp_path: Path, desktop: RunDesktop) -> None:
    (tmp_path / "image.png").write_bytes(PNG)
    (tmp_path / "text").write_text("password")
    with desktop() as running:
        running.copy(tmp_path / "image.png", "image/png")
        assert agent_dev(*SHARE, READ, env=running.environ).stdout.split() == [DIGEST, "-", DIGEST, "-"]
        # xclip then answers a request for any type with the text; wl-copy offers what it is told.
        for kind in ("UTF8_STRING", "image/png"):
            running.copy(tmp_path / "text", kind)
            done = agent_dev(*SHARE, "xclip -selection clipboard -t image/png -o", env=running.environ)
            assert (done.stdout, done.stderr.count("xclip: the clipboard")) == ("", 1), kind
