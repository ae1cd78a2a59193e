"""Whether a run can pass on images of the clipboard: the program for the desktop, and a Python inside."""

from pathlib import Path

import pytest

from agent_dev.clipboard.prepare import find_reader, programs_inside
from agent_dev.errors import Refused
from tests.harness.servers.clipboard import scripted_clipboard

X11, WAYLAND = {"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "wayland-0"}


@pytest.mark.parametrize(
    ("variables", "program"),
    [(X11, "xclip"), (WAYLAND, "wl-paste"), ({**X11, **WAYLAND}, "wl-paste")],
    ids=("x11", "wayland", "both"),
)
def test_the_desktop_decides_which_program_reads_it(tmp_path: Path, variables: dict[str, str], program: str) -> None:
    folder = scripted_clipboard(tmp_path / "desktop").folder
    assert find_reader({**variables, "PATH": str(folder)}, ()) == f"{folder}/{program}"


@pytest.mark.parametrize(
    ("variables", "reason"),
    [({}, "neither WAYLAND_DISPLAY nor DISPLAY"), (X11, "xclip is not installed"), (WAYLAND, "wl-paste is not installed")],
    ids=("no desktop", "x11", "wayland"),
)
def test_a_desktop_that_cannot_be_read_is_refused(tmp_path: Path, variables: dict[str, str], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        find_reader({**variables, "PATH": str(tmp_path)}, ())


def test_a_program_that_an_agent_could_write_reads_nothing(tmp_path: Path) -> None:
    folder = scripted_clipboard(tmp_path / "desktop").folder
    with pytest.raises(Refused, match="xclip is not installed"):
        find_reader({**X11, "PATH": str(folder)}, (str(tmp_path),))


def test_without_a_python_inside_it_is_refused() -> None:
    with pytest.raises(Refused, match="requires a Python"):
        programs_inside("/usr/bin/xclip", "")
