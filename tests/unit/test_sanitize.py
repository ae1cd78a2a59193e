"""Hostile text is escaped: no result controls a terminal or hides anything from a reader."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_dev.sanitize import visible

# Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties.txt): rendered as nothing.
IGNORABLE = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp")),
        st.sampled_from([chr(code) for first, last in IGNORABLE for code in (first, last)]),
    )
)


def offenders(text: str) -> list[str]:
    """Return the code points of a text that control a terminal, reorder or hide text."""
    return [f"U+{ord(one):04X}" for one in text if is_control(one) or is_hidden(one)]


def is_control(one: str) -> bool:
    return unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(one) in BIDIRECTIONAL


def is_hidden(one: str) -> bool:
    return any(first <= ord(one) <= last for first, last in IGNORABLE)


@given(HOSTILE)
@example("\x1b]0;title\x07\x1b[2J")
@example("a\u202eb\u2066c\u200dd\ufeff")
@example("\x9b31m")
def test_escaped_text_controls_reorders_and_hides_nothing(text: str) -> None:
    assert offenders(visible(text)) == []


@given(st.binary())
@example(b"\xff\xfe\x9b\x1b[0m")
def test_any_bytes_are_escaped(data: bytes) -> None:
    assert offenders(visible(data)) == []


@given(st.binary())
def test_escaped_text_is_valid_utf_8(data: bytes) -> None:
    visible(data).encode()


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_each_control_character_is_made_visible(code: int) -> None:
    assert visible(f"a{chr(code)}b") not in ("ab", f"a{chr(code)}b")


@pytest.mark.parametrize(("first", "last"), IGNORABLE)
def test_each_invisible_character_is_made_visible(first: int, last: int) -> None:
    unseen = [
        f"U+{code:04X}"
        for code in range(first, last + 1)
        if offenders(visible(f"a{chr(code)}b")) or visible(f"a{chr(code)}b") == "ab"
    ]

    assert unseen == []


@given(st.binary(min_size=1))
def test_every_byte_is_visible(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")

    assert len(visible(data)) >= len(text)


@given(st.binary(), st.binary())
def test_different_invalid_utf_8_is_escaped_differently(one: bytes, other: bytes) -> None:
    if one != other and max(one + other + b"\0") < 0x80 and not set(one + other) & set(b"\x7f" + bytes(range(32))):
        assert visible(one) != visible(other)


@pytest.mark.parametrize("text", ["plain", "ä ö ü ß", "日本語", "é", "e\u0301", "🙂", "a b", "\\x1b", "→ ␉"])
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a␊b"),
        ("\x1b[31m", "␛[31m"),
        ("\x00", "␀"),
        ("\x7f", "␡"),
        ("\x85", "<85>"),
        ("\u202e", "<U+202E>"),
        (b"\xff", "\\xff"),
        (b"a\x80b", "a\\x80b"),
        ("\ud800", "\ufffd"),
    ],
)
def test_escapes_match_the_expected_table(text: str | bytes, shown: str) -> None:
    assert visible(text) == shown


def test_a_tab_is_expanded_as_requested() -> None:
    assert visible("a\tb") == "a␉b"
    assert visible("a\tb", tab="    ") == "a    b"
