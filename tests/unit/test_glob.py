"""One name against one segment of a pattern says what a regular expression says."""

import re
from itertools import product

import pytest

from agent_dev import path_patterns as glob

_WORDS = {"*": ".*", "?": "."}
_NAMES = ["".join(letters) for length in range(5) for letters in product("ab", repeat=length)]


@pytest.mark.parametrize("first", "ab*?")
def test_a_name_matches_a_segment_as_it_would_a_regular_expression(first: str) -> None:
    for rest in ("".join(letters) for length in range(5) for letters in product("ab*?", repeat=length)):
        expression = re.compile("".join(_WORDS.get(char, char) for char in first + rest))
        found = {name for name in _NAMES if first + rest == glob.ANY or glob.matches([name], (glob.ANY, first + rest))}
        assert found == {name for name in _NAMES if expression.fullmatch(name)}, first + rest
