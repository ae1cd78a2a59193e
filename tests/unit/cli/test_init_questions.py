"""The questions of `agent-dev init` and the settings that their answers stand for."""

import pytest

from agent_dev.cli.setup import questions
from agent_dev.cli.setup.questions import Facts, initial_picks, make_questions, next_step, picked_answers
from agent_dev.config.new_config import DEFAULTS, NewSettings
from agent_dev.config.profile import NETS
from tui.setup.form import Question

FACTS = Facts(
    (("claude", "@a/claude"), ("codex", "@o/codex")), ("codex",), {"A_KEY": "claude"}, ("ssh-agent",), "/c.yaml", has_config=False
)
UNUSUAL = NewSettings(
    home="/srv/home",
    net="none",
    limits=(("time", 90), ("tmp", 1 << 30), ("memory", 3 << 30)),
    policy="own",
    env=("B",),
    share=("dbus",),
    ro=("~/x",),
)


def asked(answers: NewSettings, facts: Facts = FACTS) -> dict[str, Question]:
    return {one.name: one for one in make_questions(facts, answers, lambda _: ())}


@pytest.mark.parametrize("answers", [DEFAULTS, UNUSUAL])
def test_answering_nothing_changes_nothing(answers: NewSettings) -> None:
    picks = initial_picks(FACTS, answers, ())
    assert picked_answers(picks, answers) == answers
    for name, question in asked(answers).items():
        assert set(picks[name]) <= {one.value for one in question.choices}


def test_every_network_is_offered() -> None:
    assert [one.value for one in asked(DEFAULTS)["net"].choices] == [*NETS]


def test_installed_agents_are_selected_unless_others_are_named() -> None:
    assert initial_picks(FACTS, DEFAULTS, ())["agents"] == ("codex",)
    assert initial_picks(FACTS, DEFAULTS, ("claude",))["agents"] == ("claude",)


def test_keys_and_sockets_are_offered_and_not_selected() -> None:
    choices = asked(DEFAULTS)["carry"].choices
    assert (choices[0].value, choices[0].about) == ("env:A_KEY", "a secret: the key of claude")
    assert [one.value for one in choices] == ["env:A_KEY", "share:ssh-agent"]
    assert initial_picks(FACTS, DEFAULTS, ())["carry"] == ()
    picks = {**initial_picks(FACTS, DEFAULTS, ()), "carry": ("env:A_KEY", "share:ssh-agent"), "memory": ("8G",), "time": ("",)}
    assert picked_answers(picks, DEFAULTS) == NewSettings(env=("A_KEY",), share=("ssh-agent",), limits=(("memory", 8 << 30),))


def test_limits_can_be_removed_and_others_stay() -> None:
    picks = {**initial_picks(FACTS, UNUSUAL, ()), "memory": ("",), "time": ("1h",)}
    assert dict(picked_answers(picks, UNUSUAL).limits) == {"time": 3600, "tmp": 1 << 30}


def test_an_existing_file_is_changed_or_left_but_never_written_over() -> None:
    facts = Facts((), (), {}, (), "/c.yaml", has_config=True)
    assert [one.value for one in asked(DEFAULTS, facts)["write"].choices] == [
        questions.UPDATE,
        questions.NEXT_TO_IT,
        questions.NOTHING,
    ]
    assert initial_picks(facts, DEFAULTS, ())["write"] == (questions.UPDATE,)
    assert [one.value for one in asked(DEFAULTS)["write"].choices] == [questions.WRITE, questions.NOTHING]


@pytest.mark.parametrize(
    ("agents", "installed", "where", "command"),
    [
        (("claude", "codex"), ("codex",), "inside", "agent-dev install claude"),
        (("claude",), ("claude",), "inside", "agent-dev claude"),
        (("claude",), ("claude",), "outside", "cd REPOSITORY && agent-dev claude"),
        ((), ("bash",), "outside", "agent-dev demo"),
    ],
)
def test_the_next_command_follows(agents: tuple[str, ...], installed: tuple[str, ...], where: str, command: str) -> None:
    assert next_step(agents, installed, is_repository=where == "inside") == command
