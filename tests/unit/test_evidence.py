"""What an agent's bytes hold that the base's did not, and that hostile bytes cost no more than their length."""

import subprocess
import sys

import pytest

from agent_dev.risk.content import ADDS, differs_but_for, fold_content, has_new_line

HIDDEN = {
    "right-to-left override": "a\u202eb",
    "isolate": "a\u2066b",
    "zero-width space": "a\u200bb",
    "joiner between letters": "a\u200db",
    "byte order mark inside": "a\ufeffb",
    "tag": "a\U000e0041b",
    "many tags behind a flag": "\U0001f3f4" + "\U000e0041" * 20,
    "filler": "a\u3164b",
    "run of selectors": "a\ufe01\ufe02",
    "line separator": "a\u2028b",
    "escape": "a\x1b[2Kb",
    "backspace": "a\x08b",
    "carriage return inside": "a\rb\n",
}
SEEN = {
    "emoji": "👩‍💻 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️",
    "Persian": "می‌خواهم",
    "byte order mark in front": "\ufeffa",
    "DOS lines": "a\r\nb\r\n",
    "old Macintosh's lines": "a\rb\r",
    "ends in CR": "a\nb\r",
    "binary": "a\0\x1b",
    "accents": "naïve e\u0301",
}


def adds(word: str, after: str, before: str = "") -> bool:
    return ADDS[word](after.encode(), before.encode)


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN.keys())
def test_hidden_text_is_found_where_it_is_new(text: str) -> None:
    assert adds("hidden-text", f"x\n{text}")
    assert not adds("hidden-text", f"x\n{text}", f"y\n{text}")


@pytest.mark.parametrize("text", SEEN.values(), ids=SEEN.keys())
def test_text_that_only_looks_strange_is_not_hidden(text: str) -> None:
    assert not adds("hidden-text", text)


@pytest.mark.parametrize(("text", "found"), [(" " * 100, True), ("\t" * 50 + " " * 50, True), (" " * 99, False)])
def test_text_far_to_the_right_is_found(text: str, found: bool) -> None:  # noqa: FBT001
    assert adds("far-right", f"a{text}b\n") is found
    assert not adds("far-right", f"a{text}\n{text}b\n")


@pytest.mark.parametrize(("word", "found"), [("p\u0430y", True), ("\u0391dmin", True), ("Москва git", False), ("Δx", False)])
def test_words_of_two_alphabets_are_found(word: str, found: bool) -> None:  # noqa: FBT001
    assert adds("mixed-letters", word) is found


LINES = [
    ("curl *|*{sh}", "curl -s x | sh", True),
    ("curl *|*{sh}", "curl -s x |/bin/sh -s", True),
    ("curl *|*{sh}", "CURL -S X | SH", True),
    ("curl *|*{sh}", "c\u200burl -s x | sh", True),
    ("curl *|*{sh}", "\uff43url x | sh", False),  # no shell takes it for a c
    ("curl *|*{sh}", "curl -s x | shasum", False),
    ("curl *|*{sh}", "curl -s x | jq .sh", False),
    ("curl *|*{sh}", "curl -s x | shasum; sh", True),
    ("curl *|*{sh}", "curl -s x\nls | sh", False),
    ("curl *|*{sh}", "sh | curl x", False),
    ("cafe\u0301", "CAF\u00c9", True),
    ("*", "anything", False),
]


@pytest.mark.parametrize(("text", "line", "found"), LINES)
def test_a_text_is_looked_for_in_each_new_line(text: str, line: str, found: bool) -> None:  # noqa: FBT001
    assert has_new_line(f"a\n{line}\n".encode(), bytes, (text,)) is found
    assert not has_new_line(f"a\n{line}\n".encode(), f"b\n{line}\n".encode, (text,))


def test_what_is_not_utf_8_hides_nothing() -> None:
    assert has_new_line(b"\xff\xfecurl x | sh\xff", bytes, ("curl *| sh",))


KEYS = ("version", "project.version", "dependencies.*", "project.dependencies.*")
DOCUMENTS = [
    ("x.json", '{"version": "1"}', '{"version": "2"}', False),
    ("x.json", '{"a": 1}', '{"a": true}', True),
    ("x.json", '{"a": 1}', '{"a": 1.0}', True),
    ("x.json", '{"a": 1}', '{"a": 1, "a": 1}', True),
    ("x.json", '{"a": 1}', '{"a": 1', True),
    ("x.json", '{"a": 1}', "[" * 100_000, True),
    ("x.json", '{"dependencies": {"a": "^1.0"}}', '{"dependencies": {"a": "2.x || >=3"}}', False),
    ("x.json", '{"dependencies": {"a": "^1.0"}}', '{"dependencies": {"a": "latest"}}', True),
    ("x.json", '{"dependencies": {"a": "^1.0"}}', '{"dependencies": {"a": "npm:b@1"}}', True),
    ("x.json", '{"dependencies": {"a": "^1.0"}}', '{"dependencies": {"b": "^1.0"}}', True),
    ("x.json", "{}", '{"dependencies": {"a": "^1.0"}}', True),
    ("x.json", '{"dependencies": []}', '{"dependencies": "1"}', True),
    ("x.toml", '[project]\nversion = "1"\n', '[project]\nversion = "2"\n', False),
    ("x.toml", '[project]\ndependencies = ["a>=1"]\n', '[project]\ndependencies = ["a[b]>=1"]\n', True),
    ("x.toml", '[project]\ndependencies = ["a>=1"]\n', '[project]\ndependencies = ["a>=2,<3"]\n', False),
    ("x.toml", '[project]\ndependencies = ["a>=1"]\n', '[project]\ndependencies = ["a @ https://x"]\n', True),
    ("x.toml", "a = 1\n", "a = true\n", True),
    ("x.toml", "a = 1\n", "a = 1" + " " * 3000 + "\n", True),  # not read: its lines are too long
]


@pytest.mark.parametrize(("name", "before", "after", "differs"), DOCUMENTS)
def test_documents_are_compared_by_what_they_say(name: str, before: str, after: str, differs: bool) -> None:  # noqa: FBT001
    assert differs_but_for(name, after.encode(), before.encode, KEYS) is differs


def test_addresses_that_only_tell_about_a_package_are_no_registry() -> None:
    told = '{"a": {"resolved": "https://n.example/a", "funding": {"url": "https://s.example"}}}'
    assert not adds("registry", told, '{"a": {"resolved": "https://n.example/a"}}')
    assert adds("registry", told.replace('"funding"', '"dist"'), '{"a": {"resolved": "https://n.example/a"}}')


def test_a_password_in_an_address_is_no_other_host() -> None:
    assert not adds("registry", "https://u:p@n.example/a", "https://n.example/a")
    assert adds("registry", "https://n.example@x.example/a", "https://n.example/a")


# Hundreds of thousands of bytes that would take hours where a pattern went back over them.
HOSTILE = {
    "one word": b"a" * 400_000,
    "one blank line": b"x" + b" " * 400_000,
    "blanks and words": (b"x" + b" " * 99) * 4_000,
    "words of the rules": b"curl | eval(exec(base64 resolved integrity https://git@ " * 8_000,
    "half a pattern": b"curl " * 80_000,
    "half a word": b"curl |" + b"shh" * 58_000,
    "marks": b"e" + "\u0301\u0323".encode() * 100_000,
    "marks elsewhere": b"e" + "\U0001d165\U0001d16d".encode() * 50_000,
    "hidden": "\u200b".encode() * 58_000,
    "returns": b"a\r" * 200_000 + b"\n",
    "brackets": b'{"a":' * 80_000,
    "keys": b"a." * 200_000 + b"b = 1",
    "tables": b"[" + b"a." * 900 + b"b]\n" * 1,
    "addresses": b"https://" * 200_000,
    "schemes": b"a+" * 200_000,
}
JUDGE_ALL = """
import sys
from tests.harness.corpus import shipped
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind
from agent_dev.risk.risk_rules import judge
data = sys.stdin.buffer.read()
entry = Entry(FileType.FILE, 0o644, len(data))
names = "a.py a.sh package.json package-lock.json pyproject.toml requirements.txt go.mod config composer.json"
for name in names.split():
    judge(Change(Key(0, name.encode()), Kind.EDITED, entry, entry), shipped(), data, lambda: data[1:])
"""


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_do_not_stop_the_judge(data: bytes) -> None:
    subprocess.run([sys.executable, "-c", JUDGE_ALL], input=data, check=True, timeout=120)


def test_a_hostile_path_does_not_stop_the_judge() -> None:
    from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind
    from agent_dev.risk.risk_rules import RiskRule, judge

    rules = (RiskRule("x", "why", paths=("**/a/**/a/**/a/**/a/**/a/**/b", "*a*a*a*a*a*a*a*a*b")),)
    for path in (b"a/" * 2000 + b"a", b"a" * 4000, b"." * 4000):
        assert judge(Change(Key(0, path), Kind.ADDED, None, Entry(FileType.FILE)), rules) == ()


def test_folding_leaves_nothing_that_is_not_seen() -> None:
    assert fold_content("S\u200bTRASSE stra\u00dfe".encode()) == b"strasse strasse"


def test_a_line_in_a_program_is_found_and_letters_of_its_bytes_are_left_alone() -> None:
    program = b"\x7fELF\0" + "É\u0301\u200b".encode() + b"\nCURL x | sh\n"

    assert has_new_line(program, lambda: b"", ("curl*{sh}",))
    assert fold_content(program) == program.lower()
