"""The page's elements are the program's own, whatever the texts of the agent are; nothing in it can run, load or hide."""

import html
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_dev.git.formats.commit_format import CommitIdentity
from agent_dev.overlay.changes import Risk
from agent_dev.review_page import html_page
from agent_dev.review_page.content import (
    ChangeSection,
    CommitFile,
    CommitList,
    CommitSection,
    Diff,
    DiffHunk,
    PageRow,
    ReviewPage,
    RiskGroup,
    ThreeWayHunk,
    ThreeWayRow,
    ThreeWayView,
)
from agent_dev.sanitize import visible
from tests.harness.html_audit import Audit

MARKUP = (
    "<script>alert(1)</script>",
    "</style><style>*{display:none}",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "--><!--",
    "]]><![CDATA[",
    "&lt;b&gt;&#x3c;",
    "javascript:alert(1)",
    "</title></bdi></td></details>",
    "\0\r\n\t\x1b[2J\x9b\u202e\u2028\ufeff\udcff\ud800",
)
TEXT = st.one_of(st.sampled_from(MARKUP), st.text(st.characters(), max_size=30))


def page(text: str) -> ReviewPage:
    """Return a page with a text of the agent at every place."""
    data = text.encode("utf-8", "surrogatepass")
    risk = Risk(text, text, text or "x")
    rows = (PageRow(1, data, 1, data + b"\n", is_changed=False), PageRow(2, data, 2, None), PageRow(3, None, 3, data))
    diff = Diff((DiffHunk(text, rows),), 3, text or "x")
    cells = ((1, data), (2, None), (3, data + b"\n"))
    view = ThreeWayView((ThreeWayHunk(text, is_conflict=True, rows=(ThreeWayRow(*cells), ThreeWayRow(*cells[::-1]))),), 3)
    change = ChangeSection(1, "edited", text, text or "x", 1, 2, (text,), (risk,), text or "x", ((text, text),), diff, view)
    person = CommitIdentity(text, text, 1_700_000_000, text)
    file = CommitFile(data, data or b"x", (text,), (risk,), diff)
    commit = CommitSection("1" * 40, text, data, person, replace(person, time=1), ("2", text), (text,), (file,), text or "x")
    return ReviewPage(
        text, ((text, text),), (text,), (text,), (text,), (RiskGroup(risk, ((1, text), (0, text)), 2),), (change,), 3, 1,
        CommitList((commit,), (text,), 4),
    )  # fmt: skip


def render(content: ReviewPage) -> str:
    return "".join(html_page.render_page(content))


def escaped_texts() -> list[Callable[[str], str]]:
    return [html_page.escape_text, lambda text: html_page.escape_text(text.encode("utf-8", "surrogatepass"))]


@given(TEXT)
@example("".join(MARKUP))
def test_every_element_and_attribute_is_the_programs_own(text: str) -> None:
    audit = Audit(render(page(text)))

    assert audit.wrong == []
    lines = max(1, text.encode("utf-8", "surrogatepass").rstrip(b"\n").count(b"\n") + 1)
    assert without_tabs(audit.elements) == without_tabs(Audit(render(page("x" + "\nx" * (lines - 1)))).elements)


def without_tabs(elements: list[str]) -> list[str]:
    return [one for one in elements if one != "i"]


@given(TEXT)
def test_escaped_text_has_no_markup_and_no_control_characters(text: str) -> None:
    for escape in escaped_texts():
        escaped = re.sub("<i>\u2409   </i>", "", escape(text))
        assert not set(escaped) & set("<>\"'")
        assert not [one for one in escaped if ord(one) < 0x20 or 0x7F <= ord(one) < 0xA0 or 0xD800 <= ord(one) < 0xE000]
        assert all(re.match(r"&(?:amp|lt|gt|quot|#x27);", escaped[at:]) for at, one in enumerate(escaped) if one == "&")


@given(st.text(st.characters(exclude_characters="\t"), max_size=60))
def test_a_reader_sees_the_visible_form_of_a_text(text: str) -> None:
    assert html.unescape(html_page.escape_text(text)) == visible(text)


@given(TEXT)
def test_equal_content_yields_equal_bytes(text: str) -> None:
    assert render(page(text)) == render(page(text))
    assert render(page(text)).encode()


def test_the_policy_allows_the_style_sheet_and_nothing_else() -> None:
    found = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', render(page("x")))

    assert found == [f"default-src 'none'; style-src '{html_page.style_hash()}'; base-uri 'none'; form-action 'none'"]


def test_the_policy_is_before_any_text_of_the_agent() -> None:
    text = render(page("AGENT"))

    assert text.index("Content-Security-Policy") < text.index("AGENT")


def test_a_long_line_is_cut_and_its_rest_counted() -> None:
    shown = html_page.escape_text("é" * 5000)

    assert shown.count("é") == 1000
    assert "4,000 more characters" in shown


def test_a_path_of_the_longest_size_is_shown_whole() -> None:
    path = "d/" * 2047 + "x"
    changes = (ChangeSection(1, "added", path),)

    assert path in render(ReviewPage("s", (), (), (), (), (), changes, 1, 1))


def test_omitted_parts_are_counted() -> None:
    text = Audit(render(page("x"))).text

    assert "3 more rows not on this page" in text
    assert "2 more changes not on this page" in text
    assert "3 more commits not on this page" in text
    assert "… 2 more" in text


def test_only_changes_to_review_are_unfolded() -> None:
    changes = (ChangeSection(1, "added", "risky", risks=(Risk("ci", "why"),)), ChangeSection(2, "added", "plain"))
    text = render(ReviewPage("s", (), (), (), (), (), changes, 2, 2))

    assert '<details id="change-1" open>' in text
    assert '<details id="change-2">' in text


@pytest.mark.parametrize(
    ("time", "zone", "shown"),
    [
        (0, "+0000", "1970-01-01 00:00:00 +0000"),
        (1_700_000_000, "-0930", "2023-11-14 12:43:20 -0930"),
        (0, "+9999", "0 seconds since 1970"),
        (0, "²", "0 seconds since 1970"),
        (10**14, "+0000", f"{10**14} seconds since 1970"),
    ],
)
def test_a_commits_date_is_in_its_own_zone(time: int, zone: str, shown: str) -> None:
    person = CommitIdentity("Ada", "a@b", time, zone)
    commit = CommitSection("1" * 40, "s", b"s\n", person, person)
    text = render(ReviewPage("s", (), (), (), (), (), (), 0, 0, CommitList((commit,), (), 1)))

    assert f"<dt>date</dt><dd><bdi>{shown}</bdi></dd>" in text
