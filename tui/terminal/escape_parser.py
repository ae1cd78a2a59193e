"""Textual's parser of keys, with an Escape key that does not swallow the next key."""

import re
from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.message import Message

_ESCAPE = "\x1b"
_STARTS = ("[", "O", _ESCAPE)  # what follows ESC in the sequences of function keys, the mouse and pasted text
_PASTE = re.compile(r"(\x1b\[20[01]~)")


class EscapeParser(XTermParser):
    """A parser that takes ESC and a character for two keys.

    Terminals send the same for Alt with that character. Textual decides for Alt if the second key follows within 0.1 s, as it
    does for a fast typist, after a pause of the program, or over a slow connection. Before a key whose name is longer than a
    letter, such as the space bar, it drops the Escape key.
    """

    def __init__(self, debug: bool = False) -> None:  # noqa: FBT001, FBT002  (as in Textual)
        super().__init__(debug)
        self._is_after_escape = self._is_pasting = False

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events of some input; "" ends it."""
        if not data:
            yield from super().feed(data)
        for part in filter(None, _PASTE.split(data)):
            if _PASTE.fullmatch(part):
                self._is_pasting = part[-2] == "0"
                yield from super().feed(part)
                self._is_after_escape = False
            elif not self._is_pasting:
                yield from self._feed_keys(part)
            elif text := part.replace(_ESCAPE, ""):  # Textual takes ESC in pasted text, and what follows it, for keys
                yield from super().feed(text)

    def _feed_keys(self, text: str) -> Iterable[Message]:
        for number, piece in enumerate(text.split(_ESCAPE)):
            if number:
                yield from super().feed(_ESCAPE)
                self._is_after_escape = True
            if not piece:
                continue
            is_waiting = self._timeout_time is not None  # no longer, if 0.1 s have passed
            if self._is_after_escape and is_waiting and not piece.startswith(_STARTS):
                self._timeout_time = 0.0
                yield from self.tick()  # the sequence ends here: it is the Escape key
            yield from super().feed(piece)
            self._is_after_escape = False
