"""The words that can be typed next on an incomplete command line, by the table of subcommands and options (table.json)."""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Table = dict[str, Any]  # as tests/harness/reference/table.py writes it
_FILES = {"words": [], "sources": ["files"]}
_COMMANDS = {"words": [], "sources": ["commands"]}
_NOTHING: "Table" = {"words": [], "sources": []}


class Expected(Value):
    """The words that can be typed next, with descriptions, and sources of more words, such as `session`.

    `text` is what was typed of it, without `prefix`, which is `--name=` in front of a value. `options` are the options of a run
    so far, pairs of name and value.
    """

    text: str
    prefix: str
    words: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]
    options: tuple[tuple[str, str], ...]


def find_expected(typed: "list[str]", table: "Table") -> Expected:
    """Return what can be typed in place of the last of the arguments, which may be empty."""
    line = _TypedLine(table)
    for argument in typed[:-1]:
        line.read(argument)
    return line.expect(typed[-1] if typed else "")


class _TypedLine:
    """The part of a command line before the cursor, read argument by argument."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        words = [[name, verb["about"]] for name, verb in table["verbs"].items() if " " not in name]
        self._verb: Table = {
            "options": table["options"],
            "arguments": [{"words": words, "sources": ["agent"]}],
            "is_repeated": False,
            "ends_options": True,
            "has_command": True,
        }
        self._name = ""  # of the subcommand
        self._count = 0  # of its arguments
        self._pending: Table | None = None  # the option whose value comes next
        self._is_separated = False  # by `--`
        self._is_foreign = False  # what follows belongs to an agent or a command
        self._options: list[tuple[str, str]] = []

    def read(self, argument: str) -> None:
        """Read one complete argument."""
        if self._is_foreign:
            return
        pending, self._pending = self._pending, None
        if pending and not (pending["value_is"] == "optional" and argument.startswith("-")):
            self._options.append((pending["names"][0], argument))
        elif argument == "--" and not self._is_separated:
            self._is_separated = True
            self._count = 0 if self._verb["has_command"] else self._count
        elif _is_option(argument) and not self._is_separated:
            self._read_option(argument)
        else:
            self._read_word(argument)

    def _read_option(self, argument: str) -> None:
        name, has_value, value = argument.partition("=")
        option = self._find_option(name)
        if option is None or option["value"] is None:
            return
        if has_value:
            self._options.append((name, value))
        elif option["value_is"] != "attached":  # as in --direct=PROVIDER
            self._pending = option

    def _read_word(self, argument: str) -> None:
        name = f"{self._name} {argument}".lstrip()
        if not self._is_separated and not self._count and name in self._table["verbs"]:
            self._verb, self._name = self._table["verbs"][name], name
            return
        self._count += 1
        self._is_foreign = self._verb["ends_options"] or (self._is_separated and self._verb["has_command"])

    def _find_option(self, name: str) -> "Table | None":
        return next((option for option in self._verb["options"] if name in option["names"]), None)

    def expect(self, text: str) -> Expected:
        """Return what can be typed in place of `text`."""
        if self._is_foreign:
            return self._make(_FILES, text)
        is_option = text.startswith("-")
        if self._pending and not (self._pending["value_is"] == "optional" and is_option):
            return self._make(self._pending["value"], text)
        if self._is_separated and self._verb["has_command"]:
            return self._make(_COMMANDS, text)
        if self._is_separated or not is_option:
            return self._expect_argument(text)
        name, has_value, value = text.partition("=")
        option = self._find_option(name)
        if has_value and text.startswith("--"):
            known = option["value"] if option else None
            return self._make(known or _NOTHING, value, f"{name}=")
        return self._make({"words": self._option_words(), "sources": []}, text)

    def _expect_argument(self, text: str) -> Expected:
        arguments = self._verb["arguments"]
        if self._count < len(arguments):
            return self._make(arguments[self._count], text)
        if arguments and self._verb["is_repeated"]:
            return self._make(arguments[-1], text)
        return self._make({"words": [] if text or self._is_separated else self._option_words(), "sources": []}, text)

    def _option_words(self) -> "list[list[str]]":
        return [[name, option["about"]] for option in self._verb["options"] for name in option["names"]]

    def _make(self, value: "Table", text: str, prefix: str = "") -> Expected:
        words = tuple((word, "") if isinstance(word, str) else (word[0], word[1]) for word in value["words"])
        return Expected(text, prefix, words, tuple(value["sources"]), tuple(self._options))


def _is_option(argument: str) -> bool:
    return argument.startswith("-") and argument not in ("-", "--")
