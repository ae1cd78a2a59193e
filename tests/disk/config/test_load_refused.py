"""Invalid profiles and configuration are refused with file, line and advice, all errors together."""

import os

import pytest

from agent_dev.config.profile import Layer
from tests.disk.config.load_world import User

REFUSED = [
    ("comand: x", "1: comand: unknown key (did you mean command?)"),
    ("net: hots", "1: net: hots is not one of host, none, allow, ask, learn (did you mean host?)"),
    ("net: no", '1: net: no without quotes is false: write "no"'),
    ("about: on", '1: about: on without quotes is true: write "on"'),
    ("about: y", '1: about: y without quotes is true: write "y"'),
    ("about: 1:30", '1: about: 1:30 without quotes is the number 90: write "1:30"'),
    ("about: 022", '1: about: 022 without quotes is the number 18: write "022"'),
    ("about: 1e3", '1: about: 1e3 without quotes is a number: write "1e3"'),
    ("about: 1.5", '1: about: 1.5 without quotes is a number: write "1.5"'),
    ("about: 2024-01-02", '1: about: 2024-01-02 without quotes is a date: write "2024-01-02"'),
    ("about: null", '1: about: null without quotes is nothing: write "null"'),
    ("rw: [~]", '1: rw: ~ without quotes is nothing: write "~"'),
    (
        "command: [n, 20]",
        '1: command: n without quotes is false: write "n"',
        '1: command: 20 without quotes is a number: write "20"',
    ),
    ("set:\n  IS_SANDBOX: 1", '2: set.IS_SANDBOX: 1 without quotes is a number: write "1"'),
    ("set:\n  no: x", '2: set: no without quotes is false: write "no"'),
    ("set: {A-B: x}", "1: set: A-B is not a variable name: letters, digits and _, not beginning with a digit"),
    ("merge: yes", "1: merge: must be true or false, without quotes, not yes"),
    ("home: ~/a\nnet: host\nhome: ~/b", "3: home: given twice, first on line 1"),
    ("home:", "1: home: has no value"),
    ("ro: /data", "1: ro: must be a list, not text"),
    ("ro: [data]", "1: ro: data is not absolute: begin it with / or ~/"),
    ("state: /x", "1: state: belongs in config.yaml, not in a profile"),
    ("- a\n- b", "1: the file: must be a mapping, not a list"),
    ("text", "1: the file: must be a mapping, not text"),
    ("home: &a ~/x", "1: &a: anchors are not allowed: write the value out"),
    (
        "home: &a ~/x\nstate: *a",
        "1: &a: anchors are not allowed: write the value out",
        "2: *a: aliases are not allowed: write the value out",
    ),
    ("<<: {net: host}", "1: <<: merge keys are not allowed: write the keys out"),
    ("about: !!str 1", "1: !!str: tags are not allowed"),
    ("about: !run x", "1: !run: tags are not allowed"),
    ("? [a]\n: b", "1: a key must be a word, not a list or a mapping"),
    ("net: host\n---\nnet: none", "2: not YAML: more than one document"),
    ("ro:\n\t- /x", "2: not YAML: found character '\\t' that cannot start any token (indent with spaces)"),
    ("net: host\nabout: 'x", "2: not YAML: found unexpected end of stream"),
    ("net: host\nabout: \x07", "2: not YAML: the character U+0007 is not allowed"),
    ("[" * 5000, "1: nested too deeply"),
    (b"net: host\nabout: caf\xe9\n", "2: not UTF-8: byte 0xe9"),
    ("extends: claud", "1: extends: there is no profile claud (did you mean claude?)"),
    ("extends: ../mine", "1: extends: ../mine is not a valid profile name (letters, digits, ., _ and -)"),
    ("extends: risks", "1: extends: risks is not a valid profile name (letters, digits, ., _ and -)"),
    ("extends: mine", "1: extends: there is no shipped profile mine"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: str(case[0])[:24])
def test_errors_are_refused_with_file_line_and_advice(case: tuple[str | bytes, ...], user: User) -> None:
    text, *problems = case
    user.write("profiles/mine.yaml", text)

    assert user.problems() == [f"…/profiles/mine.yaml:{problem!s}" for problem in problems]


def test_all_problems_of_all_files_are_reported_together(user: User) -> None:
    user.write("config.yaml", "nett: host\ncommand: x\n")
    user.write("profiles/mine.yaml", "extends: base\nmerge: no\nro: x\n")
    user.write("profiles/base.yaml", "extends: gone\nenv: [A-B]\n")
    user.environ["AGENT_DEV_NET"] = "hots"
    flags = Layer({"net": "nine", "env": ("C D",), "set": (("1", "x"),)}, {})

    assert user.problems(flags=flags) == [
        "…/config.yaml:1: nett: unknown key (did you mean net?)",
        "…/config.yaml:2: command: belongs in a profile, not in config.yaml",
        "…/profiles/mine.yaml:2: merge: must be true or false, without quotes, not no",
        "…/profiles/mine.yaml:3: ro: must be a list, not text",
        "…/profiles/base.yaml:2: env: A-B is not a variable name: letters, digits and _, not beginning with a digit",
        "…/profiles/base.yaml:1: extends: there is no profile gone",
        "AGENT_DEV_NET: hots is not one of host, none, allow, ask, learn (did you mean host?)",
        "--net: nine is not one of host, none, allow, ask, learn (did you mean none?)",
        "--env: C D is not a variable name: letters, digits and _, not beginning with a digit",
        "--env: 1 is not a variable name: letters, digits and _, not beginning with a digit",
    ]


def test_profiles_that_extend_each_other_are_refused(user: User) -> None:
    user.write("profiles/mine.yaml", "extends: other\n")
    user.write("profiles/other.yaml", "net: host\nextends: mine\n")

    assert user.problems() == ["…/profiles/other.yaml:2: extends: circular: mine → other → mine"]


def test_a_given_file_that_does_not_exist_is_refused(user: User) -> None:
    user.environ["AGENT_DEV_CONFIG"] = "/gone/a.yaml"
    assert user.problems() == ["AGENT_DEV_CONFIG: /gone/a.yaml does not exist"]
    assert user.problems(config="/gone/b.yaml") == ["--config: /gone/b.yaml does not exist"]

    del user.environ["AGENT_DEV_CONFIG"]
    assert user.problems(profile_file="/gone/c.yaml") == ["--profile: /gone/c.yaml does not exist"]


def test_an_oversized_or_non_regular_file_is_refused(user: User) -> None:
    user.write("config.yaml", "# " + "x" * (256 << 10))
    (user.config / "profiles/mine.yaml").mkdir(parents=True)

    assert user.problems() == [
        "…/config.yaml: is larger than 256 KiB",
        "…/profiles/mine.yaml: cannot be read: Is a directory",
    ]


def test_a_link_that_leads_to_nothing_is_refused(user: User) -> None:
    """The settings of a directory that is not mounted may restrict the agent."""
    user.write("dotfiles/config.yaml", "net: none\n")
    (user.config / "config.yaml").symlink_to("dotfiles/config.yaml")
    assert user.settings().profile.net == "none"
    (user.config / "dotfiles").rename(user.config / "elsewhere")
    assert user.problems() == ["…/config.yaml: cannot be read: a link leads to nothing"]
    user.config.rename(user.config.with_name("moved"))
    user.config.symlink_to("nowhere")
    assert "…/config.yaml: cannot be read: a link leads to nothing" in user.problems()


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "\ufeff# byte order mark\n", "ro:\nset:\n"])
def test_an_empty_file_is_valid(text: str, user: User) -> None:
    user.write("config.yaml", text)
    user.write("profiles/mine.yaml", text)

    assert user.settings().profile.name == "mine"


def test_hostile_text_in_a_message_is_escaped(user: User) -> None:
    user.write("profiles/mine.yaml", '"a\\e[2J\\nb": x\n')

    assert user.problems() == ["…/profiles/mine.yaml:1: a␛[2J␊b: unknown key"]


@pytest.mark.parametrize("name", ["config.yaml", "profiles/mine.yaml"])
def test_a_fifo_is_refused(user: User, name: str) -> None:
    (user.config / "profiles").mkdir(parents=True)
    os.mkfifo(user.config / name)
    assert user.problems() == [f"…/{name}: cannot be read: it is a FIFO"]
