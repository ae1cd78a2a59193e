"""The draft of a profile that `agent-dev learn` writes: valid YAML that grants nothing until a comment is removed."""

import yaml

from agent_dev.config import strict_yaml
from agent_dev.config.learned_profile import Learned, draft_text, fold_paths

HOME = "/home/me"
LEARNED = Learned(
    paths=("/home/me/.config/gh/a", "/home/me/.config/gh/b", "/home/me/.config/gh/c", "/srv/it's\x1b[2J here"),
    secrets=("/home/me/.ssh/config",),
    programs=(("tool", "/opt/tools/tool"),),
    commands=("rm -rf / \x1b[31m",),
    hosts=("example.test", "localhost:5432"),
)


def test_a_draft_sets_nothing_but_the_profile_that_it_extends() -> None:
    parsed = strict_yaml.parse_data("x.yaml", "profile", draft_text("claude", LEARNED, HOME).encode())
    assert not parsed.problems
    assert parsed.fields == {"extends": "claude"}


def test_without_comments_its_lines_are_settings() -> None:
    text = draft_text("claude", LEARNED, HOME)
    start = text.index("# ro:")
    block = text[start : text.index("\n\n", start)]
    assert yaml.safe_load(block.replace("# ", "", 1).replace("\n#", "\n")) == {
        "ro": ["~/.config/gh?", "/srv/it's\N{SYMBOL FOR ESCAPE}[2J here?"]
    }


def test_control_characters_of_an_agent_do_not_reach_the_draft() -> None:
    assert "\x1b" not in draft_text("claude", LEARNED, HOME)


def test_a_directory_replaces_many_of_its_entries_but_never_the_home() -> None:
    few = [f"{HOME}/one/{name}" for name in "ab"]
    many = [f"{HOME}/many/{name}" for name in "abc"]
    own = [f"{HOME}/{name}" for name in "xyz"]
    assert fold_paths([*many, *few, *own, f"{HOME}/x/below"], HOME) == (
        (f"{HOME}/many", ("a", "b", "c")),
        *((path, ()) for path in (*few, *own)),
    )
