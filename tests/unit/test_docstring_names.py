"""Docstrings and comments name only classes and functions that exist: a rename must reach them, too."""

import ast
import io
import keyword
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = sorted((*ROOT.glob("agent_dev/**/*.py"), *ROOT.glob("tui/**/*.py")))
# Names of other programs and libraries.
FOREIGN = {"JSONDecodeError", "JavaScript", "NaN", "ObjectReferencePaths", "PyYAML", "TiB"}
RAISED = re.compile(r"\b[Rr]aises? (?:as )?((?:[A-Z]\w+(?:, | or | and )?)+)")
CLASS = re.compile(r"\b[A-Z][a-z]+(?:[A-Z]\w*)+\b")
QUOTED = re.compile(r"`(?:\w+\.)?([a-z]+(?:_[a-z]+)+|[A-Z]\w+)(?:\([^`]*\))?`")


@cache
def texts(path: Path) -> tuple[list[str], set[str]]:
    """Return the docstrings and comments of a module, and the names and words of its code."""
    source = path.read_text(encoding="utf-8")
    prose, code, docstrings = [], {*path.relative_to(ROOT).parts, path.stem}, set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            prose.append(ast.get_docstring(node) or "")
            docstrings.add((node.body[0].lineno, node.body[0].col_offset))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            prose.append(token.string)
        elif token.start not in docstrings:
            code.update(re.findall(r"\w+", token.string))
    return prose, code


@cache
def known_names() -> set[str]:
    """Return the names and words of the program's code."""
    return FOREIGN.union(*(texts(path)[1] for path in PROGRAM))


@pytest.mark.parametrize("path", PROGRAM, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_in_docstrings_and_comments_exist(path: Path) -> None:
    named = {
        name
        for text in texts(path)[0]
        for name in (*re.findall(r"\w+", " ".join(RAISED.findall(text))), *CLASS.findall(text), *QUOTED.findall(text))
    }
    assert sorted(name for name in named - known_names() if not keyword.iskeyword(name) and name not in ("or", "and")) == []
