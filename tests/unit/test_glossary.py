"""Texts and names use the terms of the glossary, and no words of the former dialect."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = sorted((*ROOT.glob("agent_dev/**/*.py"), *ROOT.glob("tui/**/*.py")))
TESTS = sorted((*ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py")))
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
GLOSSARY = ROOT / "docs/glossary.md"
# Words that are not used; docs/glossary.md has the replacements.
TEXT = re.compile(
    r"""\b(?:
    (?:come|comes|came|coming|bring|brings|brought|bringing|take|takes|took)\ home
    | clash(?:es|ed)? | in\ each\ other's\ way | stood\ there\ before | what\ stands\ there
    | handed | (?:second\ )?(?<!-)wall(?!-clock) | door(?:keeper)?s? | wish(?:es)? | twins? | farms?
    | (?:no|free|enough|leaves?|make)\ room
    | told | tells\ of | let(?:s|ting)?\ go | meanwhile | would\ be\ gone | ended\ with\ (?:[0-9]|exit)
    | now\ or\ again | speaks\ JSON | chosen | settled? | settling
    | shut(?!\ down) | mine | keeper
    | behind\ a\ snapshot | thrown\ away | carr(?:y|ies)\ in | again\ and\ again
    | beside | below\ each\ other | (?:renamed|moved|merged|selected|deselected)\ whole | compacted
    | runs?\ by\ (?:itself|themselves) | edits?\ of\ the\ agent's\ alone
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
NAME = re.compile(
    r"(?:^|_)(?:clash(?:es)?|twins?|farm|wish|door|doorkeeper|wall|told|chosen|settled?|shut|handed|brought|keeper|meanwhile|mine"
    r"|beside|sieve|tangle|twofold|strangers|reals|births)(?:_|$)"
)
OPENING = re.compile(r"(?:What|How|Which|Being|Who|Whether)\b")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment and each string of a module."""
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], token.string


@dataclass
class Module:
    """What the laws are about: names with their lines, first lines of docstrings, classes at the top level."""

    names: list[tuple[int, str]] = field(default_factory=list)
    docstrings: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)


@cache
def parsed(path: Path) -> Module:
    """Return a module; its syntax tree is not kept, since a thousand of them would slow every garbage collection."""
    tree, found = ast.parse(path.read_text(encoding="utf-8")), Module()
    # A message of a widget is an inner class, and belongs to its name.
    found.classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.docstrings.append((ast.get_docstring(node) or "").partition("\n")[0])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.names.append((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            found.names.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.names.append((node.lineno, node.id))
    return found


def snake(name: str) -> str:
    """Return a name in lower case, its words separated by underscores."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def found(path: Path, pieces: Iterator[tuple[int, str]], pattern: re.Pattern[str]) -> list[str]:
    """Return each match as `path:line: word`."""
    where = path.relative_to(ROOT)
    return [f"{where}:{line}: {match.group()}" for line, text in pieces for match in pattern.finditer(text)]


@pytest.mark.parametrize("path", PROGRAM, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_of_the_program_use_the_glossary(path: Path) -> None:
    assert found(path, texts(path), TEXT) == []


def test_names_of_the_program_use_the_glossary() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in PROGRAM
        for line, name in parsed(path).names
        if NAME.search(snake(name))
    ]
    assert wrong == []


def test_docstrings_begin_with_no_question_word() -> None:
    wrong = [f"{path.relative_to(ROOT)}: {line}" for path in PROGRAM for line in parsed(path).docstrings if OPENING.match(line)]
    assert wrong == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_use_the_glossary(path: Path) -> None:
    pieces = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    assert found(path, iter(pieces), TEXT) == []


def test_a_class_name_means_one_thing() -> None:
    classes: dict[str, list[str]] = {}
    for path in PROGRAM:
        for name in parsed(path).classes:
            classes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}


def test_tests_state_a_law_in_seventy_characters() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in TESTS
        for line, name in parsed(path).names
        if name.startswith("test_") and (len(name.removeprefix("test_")) > 70 or NAME.search(name))
    ]
    assert wrong == []
