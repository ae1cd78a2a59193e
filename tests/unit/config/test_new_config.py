"""The text of config.yaml that `agent-dev init` writes: the strict loader accepts it, and an existing file keeps its rest."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.cli.setup.config_file import ConfigFile, answers_of, new_text
from agent_dev.config import strict_yaml
from agent_dev.config.limits import NAMES
from agent_dev.config.new_config import DEFAULTS, KEYS, NewSettings, changed_text, config_text
from agent_dev.config.profile import NETS, SHARES
from agent_dev.errors import InvalidConfiguration

WORDS = st.text("abcNOYonf0123456789 #:'\"{}[]&*!|>%@,?-_.~é", min_size=1, max_size=12).filter(lambda text: text.strip() == text)
PATHS = WORDS.map(lambda word: f"~/x{word}")
PLAIN = st.text("abcdeFGH", min_size=1, max_size=5)
ANSWERS = st.builds(
    NewSettings,
    home=st.sampled_from(("~/aihome", "~/aihomes/{project}", "/srv/a b: #c")),
    net=st.sampled_from(NETS),
    limits=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(2**26, 2**29)), unique_by=lambda one: one[0]).map(tuple),
    policy=st.one_of(st.just("off"), st.just("guard"), WORDS),
    env=st.lists(PLAIN, unique=True, max_size=3).map(tuple),
    share=st.lists(st.sampled_from(SHARES), unique=True).map(tuple),
    ro=st.lists(PATHS, unique=True, max_size=3).map(tuple),
)
OLD = """\
# mine: keep this
theme: agent-dev-light # bright room

env: # keys
# the first is for tests
  - A
  - B
# about the network
net: host
limits:
    memory: 1G

keys:
  apply: m
"""


def parsed(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    found = strict_yaml.parse_data("config.yaml", "config", text.encode())
    return found.fields, found.problems


def config(text: str) -> ConfigFile:
    fields, problems = parsed(text)
    assert problems == ()
    return ConfigFile("config.yaml", text, fields, answers_of(fields))


@given(ANSWERS)
def test_the_strict_loader_reads_back_the_answers(answers: NewSettings) -> None:
    fields, problems = parsed(config_text(answers))
    assert problems == ()
    assert answers_of(fields) == answers
    assert set(fields) == {key for key in KEYS if getattr(answers, key) != getattr(DEFAULTS, key)}


def test_every_key_is_described_and_every_example_is_valid() -> None:
    text = config_text(DEFAULTS)
    assert parsed(text) == ({}, ())
    lines = text.splitlines()
    examples = [line.removeprefix("# ") for line in lines if line.startswith((*(f"# {key}:" for key in KEYS), "#   "))]
    assert parsed("\n".join(examples))[1] == ()
    assert len([line for line in lines if not line]) == len(KEYS)


@pytest.mark.parametrize("value", ["off", "no", "1e3", "a: b", "#x", "it's", "- x", "{a}", "é", "~"])
def test_values_that_yaml_reads_as_something_else_are_quoted(value: str) -> None:
    assert parsed(config_text(NewSettings(policy=value))) == ({"policy": value}, ())


@pytest.mark.parametrize(
    "answers",
    [NewSettings(home="relative"), NewSettings(home="~/a\nnet: none"), NewSettings(policy="a\tb"), NewSettings(policy="")],
)
def test_invalid_answers_are_refused(answers: NewSettings) -> None:
    with pytest.raises(InvalidConfiguration):
        new_text(answers)


@given(ANSWERS, ANSWERS)
def test_a_written_file_can_be_changed_to_any_answers(before: NewSettings, after: NewSettings) -> None:
    changed = config(config_text(before)).changed(after)
    assert changed is not None
    assert answers_of(parsed(changed)[0]) == after
    assert [line for line in changed.splitlines() if line.startswith("# The ")] == [
        line for line in config_text(before).splitlines() if line.startswith("# The ")
    ]


def test_changing_answers_back_restores_the_file() -> None:
    other = NewSettings(net="none", limits=(("time", 3600),), share=("dbus",))
    changed = config(config_text(DEFAULTS)).changed(other)
    assert changed == config_text(other)
    assert config(changed).changed(DEFAULTS) == config_text(DEFAULTS)


def test_other_keys_and_all_comments_stay() -> None:
    file = config(OLD)
    after = NewSettings(net="none", env=("A",), limits=(("memory", 1 << 31),), policy="strict")
    changed = file.changed(after)
    assert changed is not None
    fields, problems = parsed(changed)
    assert problems == ()
    assert (fields["theme"], fields["keys"], answers_of(fields)) == ("agent-dev-light", (("apply", "m"),), after)
    for comment in ("# mine: keep this", "# bright room", "# keys", "# the first is for tests", "# about the network"):
        assert comment in changed


def test_an_unchanged_key_stays_as_it_is_written() -> None:
    file = config(OLD)
    assert changed_text(OLD, file.answers, file.answers) == OLD
    changed = file.changed(file.answers.replace(net="none"))
    assert changed == OLD.replace("net: host\n", "net: none\n")


def test_a_change_that_would_lose_another_key_is_not_made() -> None:
    file = config(OLD)
    changed = ConfigFile(file.path, OLD, {**file.fields, "state": "/srv/state"}, file.answers).changed(NewSettings())
    assert changed is None
    assert file.changed(NewSettings()) is not None


@pytest.mark.parametrize("text", ["{net: none, theme: x}\n", "? net\n: none\n", "--- {net: none}\n"])
def test_a_file_in_another_style_is_not_changed(text: str) -> None:
    assert config(text).changed(NewSettings(net="host")) is None
