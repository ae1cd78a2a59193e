"""Questions and answers in plain lines: where they go, and how one is asked until it is answered."""

from typing import Protocol

from agent_dev.sanitize import visible


class Talk(Protocol):
    """Where lines go, and answers come from."""

    def say(self, line: str) -> None:
        """Print a line."""
        ...

    def ask(self, question: str) -> str | None:
        """Return an answer; None when nobody answers any more."""
        ...


class Enough(Exception):
    """The user wants no more questions. `is_gone`: there is nobody to ask."""

    def __init__(self, *, is_gone: bool = False) -> None:
        super().__init__()
        self.is_gone = is_gone


class Questions:
    """What asks: hostile text is made visible, and an answer is one of some letters."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def say(self, text: str) -> None:
        """Print a line."""
        self._talk.say(visible(text, "\t"))

    def answer(self, question: str, letters: str, help_: str) -> str:
        """Ask until one of the letters is typed; `q` ends all questions, `?` says what they mean. Raises Enough."""
        while True:
            letter = self.line(f"{question} [{','.join(letters)},q,?] ").lower()[:1]
            if letter == "q":
                raise Enough
            if letter and letter in letters:
                return letter
            self.say(f"{help_}; q: no more questions")

    def line(self, question: str) -> str:
        """Ask for a line. Raises Enough when nobody answers."""
        said = self._talk.ask(question)
        if said is None:
            raise Enough(is_gone=True)
        return said.strip()
