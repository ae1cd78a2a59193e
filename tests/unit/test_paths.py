"""Paths as text."""

import json
import tomllib

import pytest

from agent_dev.paths import escape_in_string


@pytest.mark.parametrize("path", ["/home/ada/src", '/a"b', "/a\\b", "/a\nb\tc\x7f", "/a'b é 漢", '/x"={y="z"}'])
def test_an_escaped_path_is_the_same_path_in_a_string(path: str) -> None:
    text = f'"{escape_in_string(path)}"'
    assert json.loads(text) == path
    assert tomllib.loads(f"x = {{{text} = 1}}") == {"x": {path: 1}}
