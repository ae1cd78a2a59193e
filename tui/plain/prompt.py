"""The plain dialogue: an interface for input and output, and questions that repeat until they are answered."""

from typing import Protocol

from agent_dev.sanitize import visible


class LineIO(Protocol):
    """The input and output of the dialogue."""

    def write_line(self, line: str) -> None:
        """Write a line."""
        ...

    def read_answer(self, question: str) -> str | None:
        """Write a question and return the answer; None at the end of input."""
        ...

    def discard_typeahead(self) -> None:
        """Discard input that was typed but not read yet."""
        ...


class QuestionsQuit(Exception):
    """Raised when the user quits the questions. `is_end_of_input`: the input ended."""

    def __init__(self, *, is_end_of_input: bool = False) -> None:
        super().__init__()
        self.is_end_of_input = is_end_of_input


class Questioner:
    """A dialogue of questions answered by a letter; control characters in its output are made visible."""

    def __init__(self, line_io: LineIO) -> None:
        self._talk = line_io
        line_io.discard_typeahead()  # typed for the agent

    def print_line(self, text: str) -> None:
        """Write a line."""
        self._talk.write_line(visible(text, "\t"))

    def ask_without_typeahead(self, question: str, letters: str, help_: str) -> str:
        """Ask like `ask_letter`, but ignore input typed before the question: the answer takes effect at once."""
        self._talk.discard_typeahead()
        return self.ask_letter(question, letters, help_)

    def ask_letter(self, question: str, letters: str, help_: str) -> str:
        """Ask until one of the letters is typed, and return it. `q` raises QuestionsQuit; anything else prints the help."""
        while True:
            letter = self.ask_line(f"{question} [{','.join(letters)},q,?] ").lower()[:1]
            if letter == "q":
                raise QuestionsQuit
            if letter and letter in letters:
                return letter
            self.print_line(f"{help_}; q: quit")

    def ask_line(self, question: str) -> str:
        """Ask for a line. Raises QuestionsQuit at the end of input."""
        line = self._talk.read_answer(question)
        if line is None:
            raise QuestionsQuit(is_end_of_input=True)
        return line.strip()
