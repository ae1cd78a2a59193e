"""Paths of settings, as the sandbox has them."""

from pathlib import Path

import pytest

from agent_dev.config.profile import Profile
from agent_dev.home.importing.inside_paths import InsidePaths


@pytest.fixture
def inside(tmp_path: Path) -> InsidePaths:
    """Return the paths of a sandbox whose HOME is a link to the home, with a tool directory, an agent home and a repository."""
    for name in ("home/bin/tool", "home/own", "home/.claude/x.sh", "home/aihome/kept", "repo/file", "elsewhere"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("home")
    home = str(tmp_path / "home")
    profile = Profile(name="x", tools=("~/bin",))
    made = InsidePaths(profile, home, str(tmp_path / "link"), f"{home}/aihome", str(tmp_path / "repo"))
    made.imported = (".claude",)
    return made


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("{home}/kept", "{home}/kept"),
        ("{home}/aihome/kept", "{home}/kept"),
        ("{tmp}/link/kept", "{home}/kept"),
        ("~/kept", "~/kept"),
        ("${HOME}/kept", "${HOME}/kept"),
        ("$HOME/own", None),
        ("{home}/own", None),
        ("{home}/bin/../own", None),
        ("~/../elsewhere", None),
        ("{home}/bin/tool", "{home}/bin/tool"),
        ("{tmp}/link/bin/tool", "{home}/bin/tool"),
        ("~/.claude/x.sh", "~/.claude/x.sh"),
        ("~/.claude/gone.sh", None),
        ("{tmp}/repo/file", "{tmp}/repo/file"),
        ("{tmp}/elsewhere", None),
        ("/usr/bin/env", "/usr/bin/env"),
        ("/api/v1/no/path/of/this/machine", "/api/v1/no/path/of/this/machine"),
    ],
)
def test_a_path_is_found_where_the_sandbox_has_it(inside: InsidePaths, tmp_path: Path, path: str, expected: str | None) -> None:
    def full(text: str) -> str:
        return text.replace("{home}", f"{tmp_path}/home").replace("{tmp}", str(tmp_path))

    assert inside.locate(full(path)) == (full(expected) if expected else None)
