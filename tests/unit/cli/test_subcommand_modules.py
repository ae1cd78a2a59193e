"""Each subcommand has a module of its own name, in the package of its group in `help --all`."""

from keyword import iskeyword
from pathlib import Path

import pytest

from agent_dev.cli import help_text, main
from agent_dev.cli.commands import dispatch

COMMANDS = Path(main.__file__).parent / "commands"
ELSEWHERE = {"tx", "work", "completion"}  # they parse without argparse, or without a repository
HEADINGS = {"run": "run", "review": "review", "sessions": "sessions", "settings and maintenance": "settings"}


def listed_groups() -> dict[str, str]:
    """Return the group of each subcommand that `help --all` lists."""
    groups: dict[str, str] = {}
    group = ""
    for line in help_text.ALL.splitlines():
        group = HEADINGS.get(line, group if line.startswith(" ") else "")
        if group and line.startswith("  ") and line[2].isalpha():
            groups.setdefault(line.split()[0].rstrip(","), group)
    return groups


@pytest.mark.parametrize(("group", "verb"), [(group, verb) for group, verbs in main.VERB_GROUPS.items() for verb in verbs])
def test_a_subcommand_has_a_module_of_its_name(group: str, verb: str) -> None:
    module = f"{verb}_bundle" if iskeyword(verb) else verb

    assert (COMMANDS / group / f"{module}.py").is_file()
    assert callable(dispatch.find_verb(group, verb))


def test_a_subcommand_is_in_the_package_of_its_group_in_the_help() -> None:
    packages = {verb: group for group, verbs in main.VERB_GROUPS.items() for verb in verbs}

    assert packages == {verb: group for verb, group in listed_groups().items() if verb not in {*ELSEWHERE, "run"}}
