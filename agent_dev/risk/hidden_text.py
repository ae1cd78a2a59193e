"""Deceptive text: invisible characters, look-alike letters, and text far to the right of the screen."""

import re
import unicodedata

from agent_dev.diff.binary import is_binary
from agent_dev.risk.new_lines import ReadBase, has_new_match
from agent_dev.risk.plain_text import added_lines, may_match

# Bidirectional controls, zero-width characters, fillers, tags, variation selectors without a symbol, C1 controls.
# A joiner counts only between ASCII characters: emoji and some scripts need it. Tags count, except the six that follow a flag.
_HIDDEN = re.compile(
    rb"\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\x9e[\xb4\xb5]|\xe1\xa0\x8e|\xe2\x80[\x8b\x8e\x8f\xa8-\xae]"
    rb"|\xe2\x81[\xa0-\xa4\xa6-\xaf]|\xe3\x85\xa4"
    rb"|(?<=[\x00-\x7f])\xe2\x80[\x8c\x8d](?=[\x00-\x7f])|(?<!\A)\xef\xbb\xbf|\xef\xbe\xa0|\xef\xbf[\xb9-\xbb]"
    rb"|(?<!\xf0\x9f\x8f\xb4)(?<!\xf3\xa0\x81.)\xf3\xa0[\x80\x81].|(?:\xf3\xa0[\x80\x81].){7}"
    rb"|(?:\xef\xb8[\x80-\x8f]|\xf3\xa0[\x84-\x87].){2}"
    rb"|(?:\A|(?<=[\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f])|(?<=[\xc3-\xdf][\x80-\xbf]))(?:\xef\xb8[\x80-\x8f]|\xf3\xa0[\x84-\x87].)",
    re.DOTALL,
)
_MARKS = re.compile(rb"\xe2\x80[\x8e\x8f]|\xd8\x9c")  # required next to punctuation in right-to-left text
_RIGHT_TO_LEFT = re.compile(rb"[\xd6-\xdb][\x80-\xbf]|\xe0[\xa0-\xa3].|\xef[\xac-\xbb].")  # Hebrew, Arabic and related scripts
# C0 without tab, newline, form feed; a lone CR; Ctrl-Z except at the end, where it ends a DOS file.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f]|\x1a(?!\s*\Z)|\r(?![\r\n]|\Z)")
_CONTROLS = bytes((*range(9), 0x0B, *range(0x0E, 0x20)))
_RAW_C1 = re.compile("[\udc80-\udc9f]")  # invalid UTF-8 that an 8-bit terminal reads as control characters
_RAW = re.compile("[\udc80-\udcff]")  # letters in a text of another encoding
_SPACE = rb"\xc2\xa0|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xaf]|\xe2\x81\x9f|\xe2\xa0\x80|\xe3\x80\x80"
_SPACES = re.compile(_SPACE)
_ODD_SPACE = re.compile(rb"[!-~](?:%b)+[!-~]" % _SPACE)
_BLANK = b" " * 80
_FAR_RIGHT = re.compile(rb"[^\s][ \t]{80,}(?!\\\r?(?:\n|\Z))[^\s]|^[ \t]{150,}[^\s]", re.MULTILINE)

# Look-alikes of Latin letters (Unicode confusables.txt, for scripts that keyboards offer).
_CONFUSABLE = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u04cf\u04af"  # Cyrillic
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0423\u04ae\u050c\u051a\u051c\u04c0"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03f2\u03f3"  # Greek
    "\u0585\u057d\u0578\u0570"  # Armenian
    "\u2170\u2174\u2179\u217c\u217d\u217e\u217f"  # Roman numerals
)
_LOOKALIKE = rb"(?:%b|\xef\xbc[\xa1-\xba]|\xef\xbd[\x81-\x9a]|\xf0\x9d[\x90-\x9f].)" % b"|".join(
    letter.encode() for letter in _CONFUSABLE
)
_MIXED = re.compile(rb"[a-z0-9_]%b|%b[a-z0-9_]" % (_LOOKALIKE, _LOOKALIKE), re.IGNORECASE | re.DOTALL)
_TOUCH = re.compile(rb"[A-Za-z0-9_][\xc2-\xf4]|[\x80-\xbf][A-Za-z0-9_]")  # necessary for a match of _MIXED
_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[A-Za-z]")


def has_deceptive_name(data: bytes) -> bool:
    """Return whether a name contains invisible, reordering or look-alike characters."""
    if data.isascii():
        return _CONTROL.search(data) is not None or _has_blank_end(data)
    text = data.decode("utf-8", "surrogateescape")
    return bool(
        _HIDDEN.search(data) or _CONTROL.search(data) or _SPACES.search(data) or _RAW_C1.search(text) or _has_mixed_word(text)
    )


def _has_blank_end(path: bytes) -> bool:
    return any(part != part.strip(b" ") for part in path.split(b"/")) if b" " in path else False


def is_plain_ascii(data: bytes) -> bool:
    """Return whether data is ASCII text in which none of the checks below finds anything: a quick test that most files pass."""
    if not data.isascii() or _may_redraw(data) or data.count(b"\r") != data.count(b"\r\n"):
        return False
    return _BLANK not in (data.replace(b"\t", b" ") if b"\t" in data else data)


def adds_hidden_text(after: bytes, before: ReadBase) -> bool:
    """Return whether new lines contain invisible or control characters, or whether a text became binary."""
    if is_binary(after):
        old = before()
        return bool(old) and b"\0" not in old and not is_binary(old)
    new_text = added_lines(after, before)
    if may_match(_HIDDEN, new_text) and has_new_match(after, before, _HIDDEN, _hides):
        return True
    return (_may_redraw(new_text) and has_new_match(after, before, _CONTROL)) or (
        _has(new_text, _RAW_C1) and not _has(before(), _RAW)
    )


def _hides(line: bytes) -> bool:
    """Return whether a line hides something, apart from marks that right-to-left text needs."""
    return not _RIGHT_TO_LEFT.search(line) or _HIDDEN.search(_MARKS.sub(b"", line)) is not None


def _may_redraw(text: bytes) -> bool:
    """Return whether a text may contain control characters; files whose lines end in CR only are excepted."""
    returns = text.count(b"\r")
    return len(text.translate(None, _CONTROLS)) < len(text) or (b"\n" in text and returns != text.count(b"\r\n"))


def _has(text: bytes, pattern: "re.Pattern[str]") -> bool:
    return not text.isascii() and pattern.search(text.decode("utf-8", "surrogateescape")) is not None


def adds_far_right_text(after: bytes, before: ReadBase) -> bool:
    """Return whether a new line continues after a long run of blanks of any kind."""
    if is_binary(after):
        return False
    text, old = _with_plain_blanks(added_lines(after, before)), lambda: _with_plain_blanks(before())
    return _BLANK in text.replace(b"\t", b" ") and has_new_match(text, old, _FAR_RIGHT)


def adds_far_right_text_outside_tables(after: bytes, before: ReadBase) -> bool:
    """Return whether `adds_far_right_text` holds outside the rows of tables."""
    if is_binary(after):
        return False
    text, old = _with_plain_blanks(added_lines(after, before)), lambda: _with_plain_blanks(before())
    return _BLANK in text.replace(b"\t", b" ") and has_new_match(
        text, old, _FAR_RIGHT, lambda line: line.lstrip()[:1] not in b"|+"
    )


def _with_plain_blanks(text: bytes) -> bytes:
    return _SPACES.sub(b" ", text) if may_match(_SPACES, text) else text


def adds_unicode_space(after: bytes, before: ReadBase) -> bool:
    """Return whether a new line has a Unicode space between two ASCII characters."""
    return not is_binary(after) and may_match(_SPACES, added_lines(after, before)) and has_new_match(after, before, _ODD_SPACE)


def adds_mixed_letters(after: bytes, before: ReadBase) -> bool:
    """Return whether a new word mixes Latin letters with look-alikes, and has no other letters."""
    new_text = added_lines(after, before)
    if is_binary(after) or new_text.isascii() or not _TOUCH.search(new_text) or not may_match(_MIXED, new_text):
        return False
    return has_new_match(after, before, _MIXED, lambda line: _has_mixed_word(line.decode("utf-8", "surrogateescape")))


def _has_mixed_word(text: str) -> bool:
    """Return whether a word passes for a Latin one (UTS 39: mixed scripts with a Latin skeleton)."""
    for word in _WORD.findall(text):
        others = [letter for letter in word if letter > "\x7f"]
        if others and _LATIN.search(word) and all(map(_passes_for_latin, others)):
            return True
    return False


def _passes_for_latin(letter: str) -> bool:
    plain = unicodedata.normalize("NFKC", letter)
    return letter in _CONFUSABLE or (plain != letter and len(plain) == 1 and plain.isascii() and ord(letter) > 0x2100)
