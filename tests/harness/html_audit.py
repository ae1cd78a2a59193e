"""An audit of a page: its elements and attributes are those that the program writes, and its text has no control characters."""

import re
from html.parser import HTMLParser

from agent_dev.review_page.style import STYLE

_WORDS = (
    "html head meta title style body header h1 h2 dl dt dd bdi p nav a section ul li details summary div b code span",
    "table colgroup col tbody tr td pre i",
)
ELEMENTS = frozenset(" ".join(_WORDS).split(" "))
ATTRIBUTES = {
    "class": re.compile(r"kind|dim|label|risk|block|body|number|hunk|added|deleted|none|same"),
    "id": re.compile(r"risks|changes|commits|change-\d+"),
    "href": re.compile(r"#(?:risks|changes|commits|change-\d+)"),
    "colspan": re.compile("[246]"),
    "open": re.compile(""),
    "lang": re.compile("en"),
    "charset": re.compile("utf-8"),
    "name": re.compile("viewport"),
    "http-equiv": re.compile("Content-Security-Policy"),
    "content": re.compile(r"width=device-width, initial-scale=1|default-src 'none'; style-src 'sha256-[\w+/=]+'; .*"),
}


class Audit(HTMLParser):
    """The elements of a page, its visible text, and what is wrong with it."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.text = ""
        self.wrong: list[str] = [f"control character {one!r}" for one in page if one < " " and one != "\n"]
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag not in ("meta", "col"):
            self._open.append(tag)
        if tag not in ELEMENTS:
            self.wrong.append(f"element {tag}")
        for name, value in attrs:
            if name not in ATTRIBUTES or not ATTRIBUTES[name].fullmatch(value or ""):
                self.wrong.append(f"attribute {name}={value!r}")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"end of {tag}")

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["style"]:
            self.wrong += [] if data == STYLE else ["the style sheet"]
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"comment {data!r}")

    def unknown_decl(self, data: str) -> None:
        self.wrong.append(f"declaration {data!r}")
