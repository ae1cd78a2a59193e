"""Files that an agent's home gets unless it has them."""

from pathlib import Path

from agent_dev.config.agent_instructions import FIRST_LINE
from agent_dev.home.seeds import write_seeds

INSTRUCTIONS = f"{FIRST_LINE}\nnew\n".encode()


def test_a_missing_file_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    write_seeds(str(tmp_path / "home"), ((".x/deep/config", b"a: 1"),))
    written = tmp_path / "home/.x/deep/config"
    assert written.read_bytes() == b"a: 1"
    assert written.stat().st_mode & 0o777 == 0o600


def test_a_file_of_the_user_is_kept(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("my own\n")
    (tmp_path / "config").write_text("a: 2")
    write_seeds(str(tmp_path), (("AGENTS.md", INSTRUCTIONS), ("config", b"a: 1")))
    assert (tmp_path / "AGENTS.md").read_text() == "my own\n"
    assert (tmp_path / "config").read_text() == "a: 2"


def test_older_instructions_are_renewed(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(f"{FIRST_LINE}\nold\n")
    write_seeds(str(tmp_path), (("AGENTS.md", INSTRUCTIONS),))
    assert (tmp_path / "AGENTS.md").read_bytes() == INSTRUCTIONS


def test_a_link_of_the_agent_is_not_followed(tmp_path: Path) -> None:
    outside, home = tmp_path / "outside", tmp_path / "home"
    outside.mkdir()
    home.mkdir()
    (outside / "AGENTS.md").write_text(f"{FIRST_LINE}\nold\n")
    (home / ".x").symlink_to(outside)
    (home / "AGENTS.md").symlink_to(outside / "AGENTS.md")
    write_seeds(str(home), ((".x/AGENTS.md", INSTRUCTIONS), (".x/new", b"a: 1"), ("AGENTS.md", INSTRUCTIONS)))
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"AGENTS.md": f"{FIRST_LINE}\nold\n"}
