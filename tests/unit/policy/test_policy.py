"""Decisions for commands: the table of safe, unsafe and uncertain ones, false alarms, and each condition of a rule."""

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.config import schema, strict_yaml
from agent_dev.config.decisions import ALLOW, ASK, CHECKPOINT, DECISIONS, DENY, TRANSACT
from agent_dev.policy import command_rules
from agent_dev.policy.command_rules import Command, CommandRule, Policy, decide
from agent_dev.wildcard import matches_stars
from tests.harness import commands

SHIPPED = Path(__file__).parents[3] / "profiles" / "policy.yaml"
CWD, HOME = "/home/ada/src/shop", "/home/ada"


def shipped(name: str) -> Policy:
    tree, problems = strict_yaml.parse_tree(SHIPPED.read_bytes())
    checked = schema.check_policy(tree, DECISIONS)
    assert (problems, checked.problems) == ((), ())
    sets: dict[str, Any] = checked.fields
    fields = [*sets[name]["rules"], *(sets["guard"]["rules"] if name == "strict" else ())]
    return Policy(name, tuple(CommandRule(**{key: value for key, value in one.items() if key != "line"}) for one in fields))


GUARD, STRICT, OFF = map(shipped, ("guard", "strict", "off"))


def becomes(words: tuple[str, ...], rules: Policy = GUARD, cwd: str = CWD) -> str:
    return decide(rules, Command(words[0], words, cwd, HOME)).decision


def odd(lines: list[tuple[str, ...]], wanted: str, rules: Policy = GUARD) -> list[str]:
    """Return the lines that get another decision."""
    return [f"{becomes(line, rules)}: {' '.join(line)}" for line in lines if becomes(line, rules) != wanted]


@pytest.mark.parametrize(("table", "wanted"), [("safe", ALLOW), ("unsafe", DENY), ("uncertain", CHECKPOINT)])
def test_each_class_of_the_table_gets_its_decision(table: str, wanted: str) -> None:
    lines = commands.lines_of(table)
    assert len(lines) >= 200
    assert odd(lines, wanted) == []


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("git clean -nd", ALLOW),
        ("git clean -ne node_modules", ALLOW),
        ("git clean -fdenode", CHECKPOINT),
        ("git clean -fde node --exclude=n", CHECKPOINT),
        ("git rm -rn .", ALLOW),
        ("git checkout -Bmain", CHECKPOINT),
        ("git restore -smain .", CHECKPOINT),
    ],
)
def test_a_letter_within_a_name_is_no_dry_run_flag(line: str, wanted: str) -> None:
    assert becomes(tuple(line.split())) == wanted


def test_purely_harmful_commands_are_denied_by_every_set_but_off() -> None:
    lines = commands.lines_of("unsafe")
    assert odd(lines, DENY, STRICT) == []
    assert odd(lines, ALLOW, OFF) == []


def test_harmless_commands_are_allowed() -> None:
    lines = commands.harmless()
    alarms = odd(lines, ALLOW)
    stopped = [line for line in alarms if not line.startswith(CHECKPOINT)]
    print(f"{len(alarms)} of {len(lines)} harmless lines are not simply allowed, {len(stopped)} of them stopped")  # noqa: T201
    assert len(lines) >= 2000
    assert len(alarms) / len(lines) < 0.005
    assert stopped == []


# Uncertain according to the table, but run by builds, too: installing packages, deleting build output, resetting checkouts.
CAREFUL = ("install-", "clean-builds", "reset-hard", "restore-files")


def test_commands_of_recorded_builds_are_allowed() -> None:
    lines = commands.recorded_commands(CWD)
    found = [(one, decide(GUARD, Command(one.argv[0], one.argv, one.cwd, HOME))) for one in lines]
    alarms = [(one, reported) for one, reported in found if reported.decision != ALLOW]
    times, all_times = sum(one.times for one, _ in alarms), sum(one.times for one in lines)
    harmless = [(one, reported) for one, reported in alarms if not reported.rule.startswith(CAREFUL)]
    print(f"{times} of {all_times} not simply allowed; of {len(lines)} lines {len(alarms)}, {len(harmless)} of them harmless")  # noqa: T201
    assert len(lines) >= 2000
    assert [(one.argv, reported.rule) for one, reported in alarms if reported.decision != CHECKPOINT] == []
    assert times / all_times < 0.005
    assert len(harmless) / len(lines) < 0.005


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("rm -rf conftest.dSYM conftest.oo", ALLOW),
        ("rm -fr .libs sub/_libs", ALLOW),
        ("rm -rf conftest.dir src", CHECKPOINT),  # every operand has to be such a file
        ("rm -rf conftest.dir/../src", CHECKPOINT),
        ("rm -rf conftest.dir/..", CHECKPOINT),
        ("rm -rf src/", CHECKPOINT),
        ("rm -rf", CHECKPOINT),  # xargs may append operands
        ("rm -rf / .libs", DENY),
    ],
)
def test_only_temporary_files_of_configure_are_removed_without_a_checkpoint(words: str, wanted: str) -> None:
    assert becomes(tuple(words.split())) == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("git push", ASK),
        ("git -C sub push --force", ASK),
        ("npm publish", ASK),
        ("ssh host", ASK),
        ("terraform apply", ASK),
        ("pip install x", TRANSACT),
        ("npm ci", TRANSACT),
        ("sed -i s/a/b/ x", TRANSACT),
        ("rm -rf src", CHECKPOINT),
        ("git status", ALLOW),
    ],
)
def test_strict_asks_before_irreversible_commands_and_rolls_back_failures(line: str, wanted: str) -> None:
    assert becomes(tuple(line.split()), STRICT) == wanted


def rule(**conditions: object) -> Policy:
    return Policy("own", (CommandRule(name="one", decision=DENY, **conditions),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("conditions", "met", "unmet"),
    [
        ({"programs": ("tool",)}, "tool x; /opt/bin/tool; env A=b tool", "tools; x tool"),
        ({"programs": ("tool*",)}, "tool; tool3.11", "mytool"),
        ({"words": ("a b",)}, "x a b; x -v a b c; x a --long b", "x b a; x a; x"),
        ({"options": ("-r",)}, "x -r; x -fr y; x y -r; x -r5; x -r.old", "x r; x --r; x -- -r; x -1r; x -b.r; x --recursive"),
        (
            {"options": ("--recursive",)},
            "x --recursive; x --recur; x --recursive=yes",
            "x -r; x --re; x --recursively; x -- --recursive",
        ),
        ({"options": ("-delete",)}, "x . -delete", "x -d; x --delete"),
        ({"arguments": ("of=/dev/sd*",)}, "x if=y of=/dev/sda", "x of=disk; x of=/dev/st0"),
        (
            {"paths": ("/etc", "~")},
            "x /etc; x /usr/../etc/; x ~; x /home/ada; x ../..; x /etc/*; x /home/ada/.",
            "x /etc/passwd; x etc; x",
        ),
        ({"only": ("/tmp/*",)}, "x /tmp/a; x -r /tmp/a /tmp/b", "x; x /tmp/a b; x /tmp/../a; x /tmp"),
        ({"lines": ("x * -1",)}, "x -9 -1; /bin/x -- -1", "x -1 2; x -1"),
        ({"cwd": ("/home/ada/*",)}, "x", ""),
        ({"cwd": ("~/other*",)}, "", "x"),
        ({"over": 2}, "x 1 2 3; x -a 1 2 3", "x 1 2; x -a -b -c 1"),
        ({"programs": ("x",), "options": ("-a",), "words": ("y",)}, "x -a y", "x y; x -a z; z -a y"),
    ],
)
def test_each_condition_matches_as_documented(conditions: dict[str, object], met: str, unmet: str) -> None:
    rules = rule(**conditions)
    assert [line for line in filter(None, met.split("; ")) if becomes(tuple(line.split()), rules) != DENY] == []
    assert [line for line in filter(None, unmet.split("; ")) if becomes(tuple(line.split()), rules) != ALLOW] == []


def test_the_first_matching_rule_decides() -> None:
    rules = Policy(
        "own",
        (CommandRule("one", ALLOW, ("x",), options=("-n",)), CommandRule("two", DENY, ("x",)), CommandRule("three", ASK, ("x",))),
    )
    assert (becomes(("x", "-n"), rules), becomes(("x",), rules)) == (ALLOW, DENY)


def test_the_stricter_of_a_wrapper_and_its_command_decides() -> None:
    rules = Policy(
        "own", (CommandRule("one", CHECKPOINT, ("env",)), CommandRule("two", DENY, ("x",)), CommandRule("three", ALLOW, ("y",)))
    )
    assert (becomes(("env", "x"), rules), becomes(("env", "y"), rules)) == (DENY, CHECKPOINT)


def test_the_called_name_of_a_program_counts_as_well_as_its_file() -> None:
    assert decide(GUARD, Command("/usr/bin/busybox", ("rm", "-rf", "/"), CWD, HOME)).decision == DENY
    assert decide(GUARD, Command("/bin/rm", ("harmless", "-rf", "/"), CWD, HOME)).decision == DENY


def test_endless_wrappers_terminate() -> None:
    assert becomes(("env",) * 100_000) == ALLOW


_WORDS = st.text(st.sampled_from(string.printable + "\udcff\0é"), max_size=8)


@given(st.lists(_WORDS | st.sampled_from(["rm", "git", "env", "--", "-rf", "/", "~", ""]), max_size=8), _WORDS)
def test_any_arguments_get_a_decision(words: list[str], cwd: str) -> None:
    assert decide(STRICT, Command(words[0] if words else "", tuple(words), cwd, HOME)).decision in DECISIONS


@given(st.text("ab*", max_size=6), st.text("ab", max_size=6))
def test_patterns_match_like_fnmatch(pattern: str, text: str) -> None:
    from fnmatch import fnmatchcase

    assert matches_stars(text, pattern) == fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("own:\n  rules:\n    - {name: x, decision: deny}\n", "has no condition"),
        ("own:\n  rules:\n    - {name: x, programs: [y]}\n", "no decision"),
        ("own:\n  rules:\n    - {decision: deny, programs: [y]}\n", "no name"),
        ("own:\n  rules:\n    - {name: x, decision: denny, programs: [y]}\n", "did you mean deny?"),
        ("own:\n  rules:\n    - {name: x, decision: deny, program: [y]}\n", "did you mean programs?"),
        ("own:\n  rules:\n    - {name: x, decision: deny, over: -1}\n", "whole number"),
        ("own:\n  rules:\n    - deny\n", "must be a mapping"),
        ("own:\n  rule: []\n", "did you mean rules?"),
        ("own: deny\n", "must be a mapping"),
    ],
)
def test_an_error_in_a_file_is_named(text: str, reported: str) -> None:
    tree, problems = strict_yaml.parse_tree(text.encode())
    assert problems == ()
    assert reported in " ".join(problem.text for problem in schema.check_policy(tree, DECISIONS).problems)


def test_a_program_without_rules_is_not_inspected() -> None:
    assert not GUARD.may_apply_to("/usr/bin/gcc")
    assert GUARD.may_apply_to("/usr/bin/rm")
    assert GUARD.may_apply_to("/usr/bin/env")
    assert not OFF.may_apply_to("/bin/rm")


def test_names_invented_by_an_agent_do_not_fill_the_memory() -> None:
    rules = rule(programs=("x*",))
    for number in range(10_000):
        rules.rules_for(str(number))
    assert len(rules._known) <= 4096


def test_decisions_are_ordered_by_strictness() -> None:
    assert sorted(DECISIONS) == sorted(command_rules._STRICTNESS)
