"""The packaging files name the same dependencies as pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_nix_flake_has_all_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = sorted(re.split(r"[<>=~!\[; ]", one)[0].lower() for one in project["dependencies"])
    found = re.search(
        r"dependencies = with pkgs\.python3Packages; \[ (.*) \];", (ROOT / "packaging/nix/flake.nix").read_text("utf-8")
    )
    assert found
    assert found[1].split() == wanted


def test_each_page_is_in_the_navigation_of_the_site() -> None:
    listed = (ROOT / "packaging/site/mkdocs.yml").read_text("utf-8")
    assert not [page.name for page in (ROOT / "docs").glob("*.md") if not re.search(rf": {page.name}$", listed, re.MULTILINE)]
