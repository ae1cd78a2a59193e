"""Shell completion and the man page come from the parsers of `--help`."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from agent_dev.cli import help_text, main, tx
from agent_dev.cli import options as run_options
from agent_dev.cli.completion.command import SHELLS, complete, is_safe, run
from agent_dev.cli.completion.grammar import Expected, find_expected
from tests.harness.reference import agents_table, man_page, table
from tests.harness.reference.parsers import find_parsers

TABLE: dict[str, Any] = json.loads(table.TABLE.read_text(encoding="utf-8"))
PARSERS = find_parsers()


def expected(line: str) -> Expected:
    """Return what can be typed at the end of a command line; `agent-dev` is left out."""
    return find_expected(line.split(" "), TABLE)


def words(line: str) -> set[str]:
    return {word for word, _ in expected(line).words}


@pytest.mark.parametrize("verb", PARSERS)
def test_every_option_of_every_parser_is_offered(verb: str) -> None:
    options = {name for action in PARSERS[verb]._actions for name in action.option_strings}
    assert {"-h", "--help"} <= options
    assert words(f"{verb} -") == words(f"{verb} --") == options


def test_every_option_of_a_run_and_of_tx_is_offered() -> None:
    assert words("-") == {*run_options.TAKES_VALUE, run_options.PLAIN, "-h", "--help", "--version"}
    assert words("tx -") == {*tx._TAKES_VALUE}
    assert words("run -") == {"--detach", "--direct", "-h", "--help"}
    assert words("help -") == {"--all"}


def test_options_take_a_value_exactly_if_their_parser_says_so() -> None:
    for verb, parser in PARSERS.items():
        known = {name: option["value_is"] for option in TABLE["verbs"][verb]["options"] for name in option["names"]}
        for action in parser._actions:
            wanted = {0: "", "?": "optional"}.get(action.nargs or (0 if action.nargs == 0 else -1), "required")
            assert {known[name] for name in action.option_strings} <= {wanted}
    for options, takes_value in ((TABLE["options"], run_options.TAKES_VALUE), (TABLE["verbs"]["tx"]["options"], tx._TAKES_VALUE)):
        known = {name: option["value_is"] == "required" for option in options for name in option["names"]}
        assert {name: known[name] for name in takes_value} == takes_value


def test_every_subcommand_is_offered_with_a_description() -> None:
    verbs = {*(word for names in main.VERB_GROUPS.values() for word in names), *main._PLAIN_VERBS}
    assert words("") == verbs
    assert all(about for _, about in expected("").words)
    assert words("help ") == verbs - {"help"}
    assert "completion bash|zsh|fish" in help_text.ALL


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("--net ", {"host", "none", "allow", "ask", "learn"}),
        ("--net=", {"host", "none", "allow", "ask", "learn"}),
        ("merge --color ", set()),
        ("status --color ", {"auto", "always", "never"}),
        ("run --direct=", {"btrfs", "snapper", "reflink", "copy"}),
        ("sessions ", {"rename"}),
        ("policy ", {"check"}),
        ("backup ", {"once", "every"}),
        ("completion ", set(SHELLS)),
        ("trust ", {"--show", "--revoke", "--yes", "--json", "-q", "--quiet", "-h", "--help"}),
        ("claude -", set()),
        ("-- make -", set()),
        ("tx -- make -", set()),
        ("resume -- make --", set()),
        ("diff -- -", set()),
    ],
)
def test_values_and_arguments_have_their_words(line: str, offered: set[str]) -> None:
    assert words(line) == offered


@pytest.mark.parametrize(
    ("line", "sources"),
    [
        ("", ("agent",)),
        ("--net none ", ("agent",)),
        ("-C ", ("directories",)),
        ("--ro=x", ("directories",)),
        ("-- ", ("commands",)),
        ("run -- ", ("commands",)),
        ("tx --json -- ", ("commands",)),
        ("resume x -- ", ("commands",)),
        ("policy check -- ", ("commands",)),
        ("claude ", ("files",)),
        ("-- make ", ("files",)),
        ("show claude --", ("files",)),
        ("run ", ("agent",)),
        ("run --direct ", ("agent",)),
        ("merge ", ("session",)),
        ("merge --all ", ("session",)),
        ("merge --take ", ("files",)),
        ("merge --take=s", ("files",)),
        ("merge --export ", ("files",)),
        ("merge --commits ", ()),
        ("merge one ", ()),
        ("diff ", ("session", "files")),
        ("diff one two ", ("session", "files")),
        ("stop ", ("running",)),
        ("approve --in ", ("running",)),
        ("undiscard ", ("discarded",)),
        ("sessions rename ", ("session",)),
        ("sessions rename one ", ()),
        ("undo ", ("merge",)),
        ("redo --json ", ("merge",)),
        ("rollback 1 ", ("files",)),
        ("backup once ", ("directories",)),
        ("backup once . --to ", ("directories",)),
        ("config ", ("profile",)),
        ("show ", ("agent",)),
        ("install ", ("package",)),
        ("init --agent ", ("package",)),
        ("profiles ", ("profile",)),
    ],
)
def test_names_and_paths_are_asked_for_where_they_are_wanted(line: str, sources: tuple[str, ...]) -> None:
    assert expected(line).sources == sources


def test_options_before_a_subcommand_are_found() -> None:
    assert expected("-C /src --config=c.yaml merge --take x ").options == (
        ("-C", "/src"),
        ("--config", "c.yaml"),
        ("--take", "x"),
    )


@pytest.mark.parametrize(
    "word",
    [
        "",
        "-rf",
        "--all",
        "a b",
        "a;b",
        "$(a)",
        "`a`",
        "a'b",
        "a\nb",
        "a\x1b[m",
        "a\tb",
        "*",
        "~",
        "a|b",
        "a&b",
        "!1",
        "a\\b",
        "=ls",
        "a\u202eb",
        "a\u200bb",
        "a\udc80",
        "{a,b}",
        "[a]",
        "(a)",
        "<a",
        ">a",
        "#a",
        "^a",
        "%a",
    ],
)
def test_a_word_that_a_shell_would_interpret_is_not_offered(word: str) -> None:
    assert not is_safe(word)


@pytest.mark.parametrize("word", ["fix-login", "261121-030926-869c", "a.b_c", "größe", "261121-030926-869c.1"])
def test_names_of_sessions_and_merges_are_safe(word: str) -> None:
    assert is_safe(word)


def test_every_word_of_the_table_is_safe() -> None:
    values = [option["value"] or {"words": []} for one in (TABLE, *TABLE["verbs"].values()) for option in one["options"]]
    values += [argument for one in TABLE["verbs"].values() for argument in one["arguments"]]
    assert [word for value in values for word in value["words"] if not is_safe(word)] == []
    assert all(text.isprintable() for one in (TABLE, *TABLE["verbs"].values()) for text in _abouts(one))


def _abouts(one: dict[str, Any]) -> list[str]:
    return [one.get("about", ""), *(option["about"] for option in one["options"])]


@pytest.mark.parametrize(
    "typed", [[], [""], ["merge", ""], ["--"], ["--net="], ["\udc80"], ["-C", "/nowhere", "merge", ""], ["\0", ""]]
)
def test_an_impossible_line_prints_no_error(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert complete(typed, {}) == 0
    assert capsys.readouterr().err == ""


def test_a_failure_prints_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("agent_dev.cli.completion.command._FOLDER", "/nowhere")
    assert complete(["merge", ""], {}) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_that_asks_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([shell]) == 0
    script = capsys.readouterr().out
    assert "command agent-dev __complete" in script
    assert "eval" not in script.replace("zsh_eval_context", "")


def test_the_table_and_the_man_page_are_up_to_date() -> None:
    """Write both with `python -m tests.harness.reference`."""
    assert table.TABLE.read_text(encoding="utf-8") == table.make_table()
    assert man_page.PAGE.read_text(encoding="utf-8") == man_page.make_page()
    assert agents_table.PAGE.read_text(encoding="utf-8") == agents_table.make_page()


CHECKS = {"man": ["--warnings", "-l"], "groff": ["-man", "-ww", "-Kutf8", "-Tutf8"], "mandoc": ["-Tlint", "-Wwarning"]}


@pytest.mark.parametrize("program", [program for program in CHECKS if shutil.which(program)])
def test_no_formatter_warns_about_the_man_page(program: str) -> None:
    done = subprocess.run([program, *CHECKS[program], man_page.PAGE], capture_output=True, text=True, check=False)
    warnings = done.stdout if program == "mandoc" else done.stderr
    assert [line for line in warnings.splitlines() if "missing date" not in line] == []


def test_text_that_looks_like_a_request_is_escaped() -> None:
    assert man_page._escape(".agent-dev.yaml") == "\\&.agent\\-dev.yaml"
    assert man_page._escape("'a \\ b") == "\\&'a \\e b"


def test_the_man_page_has_a_section_per_subcommand() -> None:
    sections = [line for line in man_page.make_page().splitlines() if line.startswith(".SS ")]
    assert sections == [f".SS agent\\-dev {verb}" for verb in TABLE["verbs"]]
