"""Notes to the agent about lines of a diff, and the text in which they are sent back."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from agent_dev.quick_dataclass import dataclass

_MAX_QUOTE = 200  # characters
_INTRODUCTION = (
    "Your changes were reviewed. Please address the notes below. Each names a file, a line of your version unless it says"
    " otherwise, and quotes that line."
)


@dataclass(frozen=True, slots=True)
class ReviewNote:
    """A note about a line of a change, or about the whole file.

    `root` and `path` are those of the change. `line` counts from 1, in the agent's version or, with `is_old`, in the base
    version; 0 is the whole file. `quote` is the line itself.
    """

    root: int
    path: bytes
    text: str
    line: int = 0
    is_old: bool = False
    quote: str = ""

    @property
    def place(self) -> tuple[int, bytes, int, bool]:
        """The line or file that the note is about; there is at most one note for each place."""
        return self.root, self.path, self.line, self.is_old


def with_note(notes: Sequence[ReviewNote], note: ReviewNote) -> tuple[ReviewNote, ...]:
    """Return the notes with this one, ordered by place; it replaces the note at its place, or removes it if it has no text."""
    others = [one for one in notes if one.place != note.place]
    return tuple(sorted([*others, note] if note.text else others, key=_order))


def find_note(notes: Iterable[ReviewNote], place: tuple[int, bytes, int, bool]) -> ReviewNote | None:
    """Return the note about a place."""
    return next((note for note in notes if note.place == place), None)


def _order(note: ReviewNote) -> tuple[int, bytes, int, bool]:
    return note.root, note.path, note.line, not note.is_old


def describe_place(note: ReviewNote) -> str:
    """Return the place within the file in words."""
    if not note.line:
        return "whole file"
    return f"deleted line {note.line}" if note.is_old else f"line {note.line}"


def format_notes(notes: Sequence[ReviewNote], roots: Sequence[str]) -> str:
    """Return the notes as Markdown for the agent; paths are relative to the first root, absolute in the others."""
    parts = ["# Review notes", _INTRODUCTION]
    for (root, path), some in groupby(sorted(notes, key=_order), key=lambda note: (note.root, note.path)):
        name = path.decode("utf-8", "replace").replace("\n", "?").replace("\r", "?")
        parts.append(f"## {f'{roots[root]}/{name}' if root else name}")
        for note in some:
            quote = note.quote.strip()[:_MAX_QUOTE]
            parts.append(f"- {describe_place(note)}{f', `{quote}`' if quote else ''}: {note.text}")
    return "\n\n".join(parts) + "\n"
