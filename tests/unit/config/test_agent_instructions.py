"""The instructions that an agent gets about its sandbox."""

import pytest

from agent_dev.config.agent_instructions import FILE, FOLDER, agent_instructions, describe_sandbox
from agent_dev.config.profile import Profile

OPTIONS = ("instructions", ["--system", "{instructions}"])
VARIABLES = ("instructions_set", (("SETTINGS", "{instructions_folder}/a.json"), ("READ", "{instructions_file}")))
FILES = ("instructions_files", (("a.json", '{"read": "{instructions_file}"}'),))


def test_a_profile_without_a_key_for_instructions_gets_none() -> None:
    assert agent_instructions(Profile("x", agent=(("npm", "x"),)), "/repo").as_dict() == {
        "options": (),
        "variables": (),
        "files": (),
        "seeds": (),
    }


def test_options_hold_the_text_and_variables_the_paths() -> None:
    profile = Profile("x", agent=(OPTIONS, VARIABLES, FILES))
    found, text = agent_instructions(profile, "/repo"), describe_sandbox(profile, "/repo")
    assert found.options == ("--system", text)
    assert found.variables == (("SETTINGS", f"{FOLDER}/a.json"), ("READ", FILE))
    assert dict(found.files) == {FILE: text.encode(), f"{FOLDER}/a.json": f'{{"read": "{FILE}"}}'.encode()}


def test_a_variable_that_is_set_keeps_its_value() -> None:
    profile = Profile("x", set=(("READ", "own.md"),), agent=(VARIABLES,))
    assert dict(agent_instructions(profile, "/repo").variables) == {"SETTINGS": f"{FOLDER}/a.json"}


def test_instructions_can_be_switched_off() -> None:
    assert not agent_instructions(Profile("x", instructions=False, agent=(OPTIONS, VARIABLES, FILES)), "/repo").files


def test_a_seed_of_the_home_names_no_repository() -> None:
    profile = Profile("x", agent=(("seed", ((".x/AGENTS.md", "{instructions}"), (".x/config", "a: 1"))),))
    seeds = dict(agent_instructions(profile, "/repo").seeds)
    assert seeds[".x/config"] == b"a: 1"
    assert seeds[".x/AGENTS.md"].decode() == describe_sandbox(profile, "The repository")


def test_without_instructions_only_other_seeds_are_left() -> None:
    profile = Profile("x", instructions=False, agent=(("seed", ((".x/AGENTS.md", "{instructions}"), (".x/config", "a: 1"))),))
    assert dict(agent_instructions(profile, "/repo").seeds) == {".x/config": b"a: 1"}


@pytest.mark.parametrize(
    ("profile", "expected", "absent"),
    [
        (Profile("x", tx_inside=True), "`tx COMMAND`", "`net:"),
        (Profile("x", net="none"), "`net: none`", "`tx COMMAND`"),
        (Profile("x", policy="guard"), "A policy denies", "`tx COMMAND`"),
        (Profile("x", policy="off"), "/repo is a copy-on-write view", "A policy denies"),
    ],
)
def test_the_instructions_describe_this_sandbox(profile: Profile, expected: str, absent: str) -> None:
    text = describe_sandbox(profile, "/repo")
    assert expected in text
    assert absent not in text
