"""Evidence in the agent's content that the base version does not contain; hostile content takes no more than linear time."""

import subprocess
import sys

import pytest

from agent_dev.risk.content import CONTENT_CHECKS, differs_outside_keys, has_new_line
from agent_dev.risk.plain_text import fold_content

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
    "control sequence introducer": "a\u009b2Kb",
    "shift out": "a\x0eb",
    "NUL in text": "import os\nimport sys\0\n",
    "Ctrl-Z inside": "a\x1ab\n",
    "soft hyphen": "pass\u00adword",
    "lone selector": "a\ufe0f",
    "selector behind an accent": "\u00e9\ufe01",
    "selector of the other plane": "a\U000e0100",
    "isolate in Arabic": "\u0645\u0631\u2066\u062d",
    "mark between Latin letters": "a\u200fb",
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
    "form feed": "a\n\x0cb\n",
    "Ctrl-Z at the end": "a\n\x1a",
    "mark in Arabic": "\u0645\u0631\u062d\u0628\u0627\u200f!",
    "mark in Hebrew": "(\u05d0)\u200e",
    "keycaps and signs": "1\ufe0f\u20e3 #\ufe0f\u20e3 \u00a9\ufe0f",
}


def adds(word: str, after: str, before: str = "") -> bool:
    return CONTENT_CHECKS[word](after.encode(), before.encode)


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN.keys())
def test_new_hidden_text_is_found(text: str) -> None:
    assert adds("hidden-text", f"x\n{text}")
    assert not adds("hidden-text", f"x\n{text}", f"y\n{text}")


@pytest.mark.parametrize("text", SEEN.values(), ids=SEEN.keys())
def test_text_that_only_looks_unusual_is_not_hidden(text: str) -> None:
    assert not adds("hidden-text", text)


@pytest.mark.parametrize(
    ("text", "found"),
    [(" " * 100, True), ("\t" * 50 + " " * 50, True), (" " * 79, False), ("\u00a0" * 80, True), (" " * 90 + "\\", False)],
)
def test_text_far_to_the_right_is_found(text: str, found: bool) -> None:  # noqa: FBT001
    assert adds("far-right", f"a{text}b\n" if not text.endswith("\\") else f"a{text}\n") is found
    assert not adds("far-right", f"a{text}\n{text}b\n".replace("\\", ""))


@pytest.mark.parametrize(("word", "found"), [("p\u0430y", True), ("\u0391dmin", True), ("Москва git", False), ("Δx", False)])
def test_words_of_mixed_alphabets_are_found(word: str, found: bool) -> None:  # noqa: FBT001
    assert adds("mixed-letters", word) is found


LINES = [
    ("curl *|*{sh}", "curl -s x | sh", True),
    ("curl *|*{sh}", "curl -s x |/bin/sh -s", True),
    ("curl *|*{sh}", "CURL -S X | SH", True),
    ("curl *|*{sh}", "c\u200burl -s x | sh", True),
    ("curl *|*{sh}", "\uff43url x | sh", True),  # Python reads a fullwidth c as c
    ("curl *|*{sh}", "curl -s x | shasum", False),
    ("curl *|*{sh}", "curl -s x | jq .sh", False),
    ("curl *|*{sh}", "curl -s x | shasum; sh", True),
    ("curl *|*{sh}", "curl -s x\nls | sh", False),
    ("curl *|*{sh}", "sh | curl x", False),
    ("cafe\u0301", "CAF\u00c9", True),
    ("*", "anything", False),
]


@pytest.mark.parametrize(("text", "line", "found"), LINES)
def test_a_text_is_searched_in_each_new_line(text: str, line: str, found: bool) -> None:  # noqa: FBT001
    assert has_new_line(f"a\n{line}\n".encode(), bytes, (text,)) is found
    assert not has_new_line(f"a\n{line}\n".encode(), f"b\n{line}\n".encode, (text,))


def test_content_that_is_not_utf_8_hides_nothing() -> None:
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
    ("x.toml", "a = 1\n", "a = 1" + " " * 3000 + "\n", True),  # not parsed, because a line is too long
]


@pytest.mark.parametrize(("name", "before", "after", "differs"), DOCUMENTS)
def test_documents_are_compared_by_their_parsed_content(name: str, before: str, after: str, differs: bool) -> None:  # noqa: FBT001
    assert differs_outside_keys(name, after.encode(), before.encode, KEYS) is differs


def test_metadata_urls_of_a_package_are_no_registry() -> None:
    reported = '{"a": {"resolved": "https://n.example/a", "funding": {"url": "https://s.example"}}}'
    assert not adds("registry", reported, '{"a": {"resolved": "https://n.example/a"}}')
    assert adds("registry", reported.replace('"funding"', '"dist"'), '{"a": {"resolved": "https://n.example/a"}}')


def test_a_password_in_a_url_is_no_other_host() -> None:
    assert not adds("registry", "https://u:p@n.example/a", "https://n.example/a")
    assert adds("registry", "https://n.example@x.example/a", "https://n.example/a")


# Hundreds of thousands of bytes, with which a backtracking pattern would take hours.
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
from tests.harness.risk.corpus import shipped
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.risk.risk_rules import find_risks
data = sys.stdin.buffer.read()
entry = Entry(FileType.FILE, 0o644, len(data))
names = "a.py a.sh package.json package-lock.json pyproject.toml requirements.txt go.mod config composer.json"
for name in names.split():
    find_risks(Change(Key(0, name.encode()), ChangeKind.EDITED, entry, entry), shipped(), data, lambda: data[1:])
"""


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_do_not_stop_the_assessment(data: bytes) -> None:
    subprocess.run([sys.executable, "-c", JUDGE_ALL], input=data, check=True, timeout=120)


def test_a_hostile_path_does_not_stop_the_assessment() -> None:
    from agent_dev.fs.entry import Entry, FileType, Key
    from agent_dev.overlay.changes import Change, ChangeKind
    from agent_dev.risk.risk_rules import RiskRule, find_risks

    rules = (RiskRule("x", "why", paths=("**/a/**/a/**/a/**/a/**/a/**/b", "*a*a*a*a*a*a*a*a*b")),)
    for path in (b"a/" * 2000 + b"a", b"a" * 4000, b"." * 4000):
        assert find_risks(Change(Key(0, path), ChangeKind.ADDED, None, Entry(FileType.FILE)), rules) == ()


def test_folding_removes_all_invisible_characters() -> None:
    assert fold_content("S\u200bTRASSE stra\u00dfe".encode()) == b"strasse strasse"


def test_a_line_in_a_program_is_found_between_non_text_bytes() -> None:
    program = b"\x7fELF\0" + "É\u0301\u200b".encode() + b"\nCURL x | sh\n"

    assert has_new_line(program, lambda: b"", ("curl*{sh}",))
    assert fold_content(program) == b"elf\ncurl x | sh\n"
