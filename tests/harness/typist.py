"""A user of the plain dialogue who gives prepared answers in order."""

FORGOTTEN = "(forgotten)"


class Typist:
    """A recorder of the written lines; after the last answer, its input ends."""

    def __init__(self, *answers: str) -> None:
        self.answers = [*answers]
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        """Record a line."""
        self.lines.append(line)

    def discard_typeahead(self) -> None:
        """Record that earlier input is dropped."""
        self.lines.append(FORGOTTEN)

    def read_answer(self, question: str) -> str | None:
        """Record a question; return the next answer."""
        self.lines.append(question)
        return self.answers.pop(0) if self.answers else None
