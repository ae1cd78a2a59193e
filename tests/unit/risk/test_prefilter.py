"""Quick tests leave out only rules that would not apply."""

import itertools
import os
import re
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.risk.content import CHECKS_OF_CHARACTERS, CONTENT_CHECKS, MAX_INSPECTED_SIZE, has_new_line
from agent_dev.risk.hidden_text import is_plain_ascii
from agent_dev.risk.load import load_risk_rules
from agent_dev.risk.risk_rules import RiskRule, find_risks

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECES = (
    b"a",
    b" ",
    b"\t",
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\x0b",
    b"\x1a",
    b"\x1b",
    b"\x7f",
    b" " * 79,
    b"\t" * 160,
    b"\xc2\xa0",
)
_RULES = load_risk_rules(dict(os.environ))
_MODES = (0o644, 0o755, 0o646, 0o4644, 0o1755)
_CONDITIONS = {
    "executable": RiskRule("executable", "why", executable=True),
    "special_bits": RiskRule("special_bits", "why", special_bits=True, types=tuple(FileType)),
    "world_writable": RiskRule("world_writable", "why", world_writable=True, types=tuple(FileType)),
    "unseen": RiskRule("unseen", "why", unseen=True),
    "gutted": RiskRule("gutted", "why", gutted=True),
    "leaves_root": RiskRule("leaves_root", "why", leaves_root=True),
}


@given(st.lists(st.sampled_from(_PIECES), max_size=6).map(b"".join))
def test_no_check_of_characters_finds_anything_in_plain_ascii(data: bytes) -> None:
    found = [name for name in sorted(CHECKS_OF_CHARACTERS) if CONTENT_CHECKS[name](data, bytes)]
    assert not found or not is_plain_ascii(data)


def test_prose_and_tabs_and_dos_lines_are_plain_ascii() -> None:
    assert all(map(is_plain_ascii, (b"", b"words\n", b"\tindented\n\t\tmore\n", b"one\r\ntwo\r\n", b"\f")))


def test_every_text_of_every_rule_is_found() -> None:
    texts = [text for rule in _RULES for text in rule.lines]
    missed = [text for text in texts if not has_new_line(_line_with(text), bytes, (text,))]
    assert texts
    assert missed == []


def _line_with(text: str) -> bytes:
    plain = re.sub(r"\{([^{}*]+)\}", r"\1", text).replace("*", " x ")
    return f"before\n {plain} \nafter\n".encode()


def test_each_condition_finds_what_it_is_about_and_nothing_else() -> None:
    found: dict[str, set[tuple[Entry | None, Entry]]] = {name: set() for name in _CONDITIONS}
    for before, after in itertools.product((None, *_entries()), _entries()):
        kind = ChangeKind.EDITED if before else ChangeKind.ADDED
        for risk in find_risks(Change(Key(0, b"one"), kind, before, after), tuple(_CONDITIONS.values())):
            found[risk.rule].add((before, after))
    assert found == {name: set(_expected(name)) for name in _CONDITIONS}


def _entries() -> list[Entry]:
    files = [Entry(FileType.FILE, mode, size) for mode in _MODES for size in (0, 1000, MAX_INSPECTED_SIZE + 1)]
    return [*files, *(Entry(FileType.SYMLINK, 0o777, target=target) for target in (b"near", b"/etc"))]


def _expected(name: str) -> list[tuple[Entry | None, Entry]]:
    holds: dict[str, Callable[[Entry | None, Entry], bool]] = {
        "executable": lambda _, new: new.type is FileType.FILE and bool(new.mode & 0o111),
        "special_bits": lambda old, new: bool(new.mode & ~(old.mode if old else 0) & 0o7000),
        "world_writable": lambda old, new: bool(new.mode & ~(old.mode if old else 0) & 0o002),
        "unseen": lambda _, new: new.size > MAX_INSPECTED_SIZE,
        "gutted": lambda old, new: old is not None and old.type is FileType.FILE and new.size * 10 < old.size,
        "leaves_root": lambda _, new: new.target == b"/etc",
    }
    pairs = itertools.product((None, *_entries()), _entries())
    return [(old, new) for old, new in pairs if holds[name](old, new)]
