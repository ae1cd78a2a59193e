"""Path patterns match names like the equivalent regular expressions; names that other file systems treat as equal are folded."""

import re
from itertools import product

import pytest

from agent_dev.path_patterns import ANY_DEPTH, PatternIndex, fold_path, matches, segments

_WORDS = {"*": ".*", "?": "."}
_NAMES = ["".join(letters) for length in range(5) for letters in product("ab", repeat=length)]


@pytest.mark.parametrize("first", "ab*?")
def test_a_name_matches_a_segment_like_a_regular_expression(first: str) -> None:
    for rest in ("".join(letters) for length in range(5) for letters in product("ab*?", repeat=length)):
        expression = re.compile("".join(_WORDS.get(char, char) for char in first + rest))
        found = {name for name in _NAMES if first + rest == ANY_DEPTH or matches([name], (ANY_DEPTH, first + rest))}
        assert found == {name for name in _NAMES if expression.fullmatch(name)}, first + rest


@pytest.mark.parametrize(
    "name",
    [
        ".GIT",
        ".git.",
        ".git ",
        ".git. .",
        ".git::$INDEX_ALLOCATION",
        ".git:$DATA",
        ".git:stream",
        ".g\u200cit",
        "\uff0e\uff47\uff49\uff54",
    ],
)
def test_names_that_other_file_systems_treat_as_equal_are_folded(name: str) -> None:
    assert [fold_path(f"a/{name}/config".encode()), fold_path(f"{name}\\config".encode())] == [
        "a/.git/config",
        ".git/config",
    ]


@pytest.mark.parametrize("name", ["..", "../..", "a::b.txt", "a:b", ".gitx", "x. y", "...", "a/.b"])
def test_other_names_are_not_folded(name: str) -> None:
    assert fold_path(name.encode()) == name


@pytest.mark.parametrize("pattern", ["*a*b", "a?b", "?", "*", "**", "b/", "/a/*b", "a/**/b", "a*/", "*.b", "a.*", "**/a?/b"])
def test_the_index_finds_the_paths_that_the_pattern_matches(pattern: str) -> None:
    paths = ["/".join(names) for count in (1, 2, 3) for names in product(("a", "b", "ab", "a.b", "aab"), repeat=count)]
    index = PatternIndex(((pattern, 7),))
    assert [path for path in paths if index.matching_path(path.encode())] == [
        path for path in paths if matches(path.split("/"), segments(pattern))
    ]
