"""A word that is neither a profile nor a subcommand nor a listed program is never run."""

from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.sandbox.policy.refusals import nothing_was_made

PATHS = ("./script.sh", "/usr/bin/touch", "bin/tool", "~/tool")


def settings(agent_dev: AgentDev, **texts: str) -> None:
    """Write config.yaml and profiles of the user, by name."""
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    (folder / "profiles").mkdir(parents=True)
    for name, text in texts.items():
        (folder / ("config.yaml" if name == "config" else f"profiles/{name}.yaml")).write_text(text)


def expect_refused(agent_dev: AgentDev, words: tuple[str, ...], name: str, hint: str, code: int = 125) -> None:
    done = agent_dev(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == f"agent-dev: {name} is not a profile or a subcommand\nagent-dev: hint: {hint}\n"
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("word", ["touch", "reboot", "reset", "rm", "npm", "nosuchword", "default", "policy.yaml", *PATHS])
@pytest.mark.parametrize("before", [(), ("run",), ("--no-merge",), ("run", "--direct")], ids=" ".join)
def test_a_program_is_not_run_by_its_name(agent_dev: AgentDev, before: tuple[str, ...], word: str) -> None:
    (agent_dev.repo / "script.sh").write_text("#!/bin/sh\ntouch made\n")
    (agent_dev.repo / "script.sh").chmod(0o755)
    done = agent_dev(*before, word, "made")
    assert (done.returncode, done.stdout) == (125, "")
    error, hint = done.stderr.splitlines()
    assert error == f"agent-dev: {word} is not a profile or a subcommand"
    assert hint.endswith(f"agent-dev -- '{word}' …" if "~" in word else f"agent-dev -- {word} …")
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize(("word", "quoted"), [("npm", "npm"), ("a b", "'a b'")])
def test_the_hint_is_a_command_to_type(agent_dev: AgentDev, word: str, quoted: str) -> None:
    expect_refused(agent_dev, (word,), word, f"to run a program: agent-dev -- {quoted}")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *(("staus", "status"), ("merg", "merge"), ("chekpoint", "checkpoint"), ("rn", "run"), ("claud", "claude")),
        *((word, "merge") for word in ("review", "apply", "accept")),
        *((word, "clean") for word in ("gc", "prune")),
        *((word, "sessions") for word in ("list", "ls")),
        *(("revert", "undo"), ("version", "--version")),
    ],
)
def test_a_word_of_similar_spelling_or_meaning_is_suggested(agent_dev: AgentDev, word: str, meant: str) -> None:
    expect_refused(agent_dev, (word,), word, f"did you mean agent-dev {meant}? To run a program: agent-dev -- {word}")


def test_a_profile_of_the_user_is_suggested(agent_dev: AgentDev) -> None:
    settings(agent_dev, review="command: echo\n", gardener="command: echo\n")
    hint = "did you mean agent-dev gardener? To run a program: agent-dev -- gardner"
    expect_refused(agent_dev, ("gardner",), "gardner", hint)
    assert agent_dev("review", "mine").stdout == "mine\n"


def test_after_two_dashes_a_word_is_a_program(agent_dev: AgentDev) -> None:
    for words in (("--", "echo", "ran"), ("run", "--", "echo", "ran"), ("tx", "--", "echo", "ran"), ("tx", "echo", "ran")):
        assert agent_dev(*words).stdout == "ran\n"


def test_a_profile_is_run_by_its_name(agent_dev: AgentDev) -> None:
    assert agent_dev("bash", "-c", "echo $0").stdout == "bash\n"
    assert agent_dev("run", "bash", "-c", "echo $0").stdout == "bash\n"


@pytest.mark.parametrize("place", ["config", "default", "other"])
def test_a_listed_program_is_run_by_its_name(agent_dev: AgentDev, place: str) -> None:
    text = {"other": "command: nosuch\nset: {COLOUR: blue}\n"}.get(place, "set: {COLOUR: blue}\n")
    settings(agent_dev, **{place: f"{text}programs: [printenv, echo]\n"})
    assert agent_dev("printenv", "COLOUR").stdout == "blue\n"  # with the settings of the file that lists it
    assert agent_dev("run", "echo", "ran").stdout == "ran\n"
    assert agent_dev("touch", "x").returncode == 125


def test_the_settings_of_an_unknown_profile_are_not_shown(agent_dev: AgentDev) -> None:
    settings(agent_dev, other="programs: [printenv]\n")
    expect_refused(agent_dev, ("config", "cluade"), "cluade", "agent-dev profiles", code=2)
    for known in ("claude", "default", "other", "printenv"):
        assert agent_dev("config", known).returncode == 0


def test_a_missing_listed_program_is_not_found(agent_dev: AgentDev) -> None:
    settings(agent_dev, other="command: sh\ninstall: get sh\nprograms: [nosuchword]\n")
    done = agent_dev("nosuchword")
    assert (done.returncode, "get sh" in done.stderr) == (127, False)


def test_a_program_listed_by_two_profiles_is_refused(agent_dev: AgentDev) -> None:
    settings(agent_dev, one="programs: [echo]\n", two="programs: [echo]\n")
    done = agent_dev("echo", "ran")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "agent-dev: echo is in `programs` of several profiles: one, two (agent-dev -- echo)\n"


def test_a_faulty_profile_does_not_prevent_a_listed_program(agent_dev: AgentDev) -> None:
    settings(agent_dev, config="programs: [echo]\n", one="nonsense: 1\n", two="programs: [printf]\n")
    assert agent_dev("echo", "ran").stdout == "ran\n"
    assert agent_dev("printf", "ran").stdout == "ran"


@pytest.mark.parametrize("faulty", ["config", "default", "two"])
def test_a_faulty_file_that_applies_prevents_the_start(agent_dev: AgentDev, faulty: str) -> None:
    texts = {"one": "nonsense: 1\n", "two": "extends: default\nprograms: [echo]\n"}
    settings(agent_dev, **{**texts, faulty: f"{texts.get(faulty, '')}nonsense: 1\n"})
    done = agent_dev("echo", "ran")
    assert (done.returncode, done.stdout) == (125, "")
    assert [f"/{faulty}.yaml:" in row for row in done.stderr.splitlines()] == [True]


def test_a_profile_from_a_file_is_run_by_its_name_only(agent_dev: AgentDev, tmp_path: Path) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text("command: echo\nprograms: [printf]\n")
    assert agent_dev("--profile", profile, "mine", "ran").stdout == "ran\n"
    assert agent_dev("--profile", profile, "printf", "ran").stdout == "ran"
    done = agent_dev("--profile", profile, "bash", "-c", "echo ran")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.splitlines() == [
        f"agent-dev: bash is not the profile in {profile}: its name is mine",
        f"agent-dev: hint: agent-dev --profile {profile} -- bash …",
    ]


def test_a_program_is_shown_after_two_dashes_only(agent_dev: AgentDev) -> None:
    expect_refused(agent_dev, ("show", "true"), "true", "to show the run of a program: agent-dev show -- true", code=1)
    assert agent_dev("show", "--", "true").returncode == 0


def test_a_transaction_of_a_bare_command_can_be_resumed(agent_dev: AgentDev) -> None:
    assert agent_dev("tx", "--validate", "false", "sh", "-c", "echo ran; touch new").returncode == 1
    done = agent_dev("--no-merge", "resume")
    assert (done.returncode, done.stdout) == (0, "ran\n")
