"""Notes to the agent: one for each place, and the text that the agent gets."""

from agent_dev.diff.review_note import ReviewNote, describe_place, find_note, format_notes, with_note

A = ReviewNote(0, b"a.py", "first", line=3, quote="x = 1")
B = ReviewNote(0, b"b.py", "second")


def test_a_note_replaces_that_of_its_place_and_an_empty_one_removes_it() -> None:
    notes = with_note(with_note((), B), A)
    assert notes == (A, B)
    changed = ReviewNote(0, b"a.py", "changed", line=3, quote="x = 1")
    assert with_note(notes, changed) == (changed, B)
    assert with_note(notes, ReviewNote(0, b"a.py", "", line=3)) == (B,)


def test_old_and_new_lines_are_different_places() -> None:
    old = ReviewNote(0, b"a.py", "why deleted?", line=3, is_old=True)
    notes = with_note((A,), old)
    assert notes == (old, A)
    assert find_note(notes, old.place) is old
    assert [describe_place(note) for note in (A, old, B)] == ["line 3", "deleted line 3", "whole file"]


def test_the_text_names_each_file_once_and_quotes_lines() -> None:
    other = ReviewNote(1, b"lib.py", "in the other root", line=1, quote="  import os  ")
    text = format_notes((B, other, A, ReviewNote(0, b"a.py", "again", line=9)), ("/repo", "/lib"))
    assert text.count("## a.py") == 1
    assert "## a.py\n\n- line 3, `x = 1`: first\n\n- line 9: again\n\n## b.py\n\n- whole file: second\n\n## /lib/lib.py" in text
    assert "`import os`" in text


def test_a_name_with_a_newline_stays_in_its_heading() -> None:
    text = format_notes((ReviewNote(0, b"a\n## b", "x"),), ("/repo",))
    assert [line for line in text.splitlines() if line.startswith("##")] == ["## a?## b"]
