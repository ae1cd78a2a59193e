"""What may stand at a key: a tree of nodes, and one check for each kind of value, which complains or returns it."""

from agent_dev.config import limits
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Scalar(Value):
    """One word or text. `means`: what YAML takes an unquoted one for instead of text ("false", "the number 18")."""

    line: int
    text: str
    means: str = ""


class Sequence(Value):
    """A list of nodes."""

    line: int
    items: "tuple[Node, ...]"


class Mapping(Value):
    """Keys and their nodes in the order of the file, repeated ones too."""

    line: int
    pairs: "tuple[tuple[Scalar, Node], ...]"


Node = Scalar | Sequence | Mapping


class Problem(Value):
    """What is wrong in a line of a file: `key: what is wrong`."""

    line: int
    text: str


class Checked(Value):
    """A file's fields, the line of each `field` and of each `field:item`, and everything that is wrong with it."""

    fields: dict[str, object]
    lines: dict[str, int]
    problems: tuple[Problem, ...]


class Found:
    """What a check has gathered so far."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []

    def complain(self, node: Node, key: str, what: str) -> None:
        """Note what is wrong with a node."""
        self.problems.append(Problem(node.line, f"{key}: {what}"))


if TYPE_CHECKING:
    Check = Callable[[Found, str, Node], object]


def nearest(word: str, words: "Iterable[str]") -> str:
    """Return ` (did you mean …?)` with the most similar of `words`, or nothing."""
    similar = most_like(word, words)
    return f" (did you mean {similar}?)" if similar else ""


def most_like(word: str, words: "Iterable[str]") -> str:
    """Return the most similar of `words`; nothing when none is like it."""
    import difflib  # deferred: brings re, and is needed only to complain

    return next(iter(difflib.get_close_matches(word, list(words), 1)), "")


def pairs_of(found: Found, inside: str, node: Node | None) -> "tuple[tuple[Scalar, Node], ...]":
    """Return a mapping's pairs, repeated keys reported and left out."""
    if node is None:
        return ()
    if not isinstance(node, Mapping):
        found.complain(node, inside.rstrip(".") or "the file", f"must be a mapping, not {kind_of(node)}")
        return ()
    first: dict[str, int] = {}
    pairs = []
    for key, value in node.pairs:
        if key.text in first:
            found.complain(key, inside + key.text, f"given twice, first on line {first[key.text]}")
        else:
            first[key.text] = key.line
            pairs.append((key, value))
    return tuple(pairs)


def kind_of(node: Node) -> str:
    """Return what a node is, in words."""
    match node:
        case Sequence():
            return "a list"
        case Mapping():
            return "a mapping"
        case Scalar(text="", means=means) if means:
            return "nothing"
        case Scalar():
            return "text"


def a_text(found: Found, key: str, node: Node) -> str | None:
    """Return any text that can be handed to a program: no NUL, nothing that has no UTF-8."""
    if not isinstance(node, Scalar):
        found.complain(node, key, f"must be text, not {kind_of(node)}")
    elif node.means and not node.text:
        found.complain(node, key, "has no value")
    elif node.means:
        found.complain(node, key, f'{node.text} without quotes is {node.means}: write "{node.text}"')
    elif any(char == "\0" or "\ud800" <= char <= "\udfff" for char in node.text):
        found.complain(node, key, "holds a character that no program can be given")
    else:
        return node.text
    return None


def a_line(found: Found, key: str, node: Node) -> str | None:
    """Return text that is not empty and without control characters."""
    text = a_text(found, key, node)
    if text is None:
        return None
    if not text:
        found.complain(node, key, "is empty")
    elif any(char < " " or char == "\x7f" for char in text.rstrip("\n")):
        found.complain(node, key, "holds a control character")
    else:
        return text.rstrip("\n")
    return None


def a_path(found: Found, key: str, node: Node) -> str | None:
    """Return a path that begins with / or ~, without empty parts."""
    text = a_line(found, key, node)
    if text is None:
        return None
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text.startswith("/") and parts[:1] != ["~"]:
        found.complain(node, key, f"{text} is not absolute: begin it with / or ~/")
    elif ".." in parts:
        found.complain(node, key, f"{text} holds a ..: write where it leads")
    else:
        return ("/" if text.startswith("/") else "") + "/".join(parts)
    return None


def a_home_path(found: Found, key: str, node: Node) -> str | None:
    """Return a path below the user's home."""
    path = a_path(found, key, node)
    if path is not None and not path.startswith("~/"):
        found.complain(node, key, f"{path} is not below the home: begin it with ~/")
        return None
    return path


def a_home(found: Found, key: str, node: Node) -> str | None:
    """Return a path that may hold {profile} and {project}, but not as its first name."""
    path = a_path(found, key, node)
    if path is None:
        return None
    rest = path.replace("{profile}", "").replace("{project}", "")
    if "{" in rest or "}" in rest:
        found.complain(node, key, f"{path} holds a brace: {{profile}} and {{project}} are what there is")
    elif "{" in "/".join(path.split("/")[:2]):
        found.complain(node, key, f"{path} begins with a name that is not known: put the homes into a directory of their own")
    else:
        return path
    return None


def a_folder_of_path(found: Found, key: str, node: Node) -> str | None:
    """Return a path that PATH can hold."""
    path = a_path(found, key, node)
    if path is not None and ":" in path:
        found.complain(node, key, f"{path} holds a :, which PATH cannot")
        return None
    return path


def a_variable(found: Found, key: str, node: Node) -> str | None:
    """Return a variable's name."""
    name = a_line(found, key, node)
    if name is None or (name.isascii() and name.isidentifier()):
        return name
    found.complain(node, key, f"{name} is not a variable's name: letters, digits and _, no digit first")
    return None


def a_flag(found: Found, key: str, node: Node) -> bool | None:
    """Return true or false."""
    if isinstance(node, Scalar) and node.means and node.text in ("true", "false"):
        return node.text == "true"
    written = f", not {node.text}" if isinstance(node, Scalar) and node.text else ""
    found.complain(node, key, f"must be true or false, without quotes{written}")
    return None


def a_number(low: int, high: int) -> "Check":
    """Return a check for a whole number in a range."""

    def check(found: Found, key: str, node: Node) -> int | None:
        if (
            isinstance(node, Scalar)
            and node.means
            and node.text.isascii()
            and node.text.isdigit()
            and low <= int(node.text) <= high
        ):
            return int(node.text)
        written = f", not {node.text}" if isinstance(node, Scalar) and node.text else ""
        found.complain(node, key, f"must be a whole number from {low} to {high}{written}")
        return None

    return check


def one_of(words: tuple[str, ...]) -> "Check":
    """Return a check for one of some words."""

    def check(found: Found, key: str, node: Node) -> str | None:
        text = a_text(found, key, node)
        if text is None or text in words:
            return text
        found.complain(node, key, f"{text} is not one of {', '.join(words)}{nearest(text, words)}")
        return None

    return check


def list_of(check: "Check") -> "Check":
    """Return a check for a list whose items pass another."""

    def check_list(found: Found, key: str, node: Node) -> tuple[object, ...] | None:
        if isinstance(node, Scalar) and node.means and not node.text:
            return ()
        if not isinstance(node, Sequence):
            found.complain(node, key, f"must be a list, not {kind_of(node)}")
            return None
        items = []
        for node_of_item in node.items:
            item = check(found, key, node_of_item)
            if item is not None:
                found.lines[f"{key}:{item}"] = node_of_item.line
                items.append(item)
        return tuple(items)

    return check_list


def a_command(found: Found, key: str, node: Node) -> tuple[object, ...] | None:
    """Return words; a text is one word, no shell splits it."""
    if isinstance(node, Scalar):
        word = a_line(found, key, node)
        return None if word is None else (word,)
    if isinstance(node, Sequence) and not node.items:
        found.complain(node, key, "is empty")
        return None
    before = len(found.problems)
    words = list_of(a_text)(found, key, node)
    if len(found.problems) > before or not isinstance(words, tuple):
        return None
    if not words[0]:
        found.complain(node, key, "begins with an empty word")
        return None
    return words


def some_variables(found: Found, key: str, node: Node) -> tuple[tuple[str, str], ...] | None:
    """Return variables with their values."""
    if isinstance(node, Scalar) and node.means and not node.text:
        return ()
    pairs = []
    for name, value in pairs_of(found, f"{key}.", node):
        text = a_text(found, f"{key}.{name.text}", value)
        if a_variable(found, key, name) is not None and text is not None:
            found.lines[f"{key}:{name.text}"] = name.line
            pairs.append((name.text, text))
    return tuple(pairs)


def some_keys(found: Found, key: str, node: Node) -> tuple[tuple[str, str], ...] | None:
    """Return pairs of what a key of the screen does and the keys for it, separated by commas."""
    if isinstance(node, Scalar) and node.means and not node.text:
        return ()
    pairs = []
    for name, value in pairs_of(found, f"{key}.", node):
        text = a_line(found, f"{key}.{name.text}", value)
        if text is not None:
            pairs.append((name.text, text))
    return tuple(pairs)


def some_limits(found: Found, key: str, node: Node) -> tuple[tuple[str, int], ...] | None:
    """Return limits with their values."""
    pairs = []
    for name, value in pairs_of(found, f"{key}.", node):
        where = f"{key}.{name.text}"
        if name.text not in limits.NAMES:
            found.complain(name, where, "unknown limit" + nearest(name.text, limits.NAMES))
        elif not isinstance(value, Scalar):
            found.complain(value, where, f"must be a number, not {kind_of(value)}")
        else:
            try:
                pairs.append((name.text, limits.parse(name.text, value.text)))
                found.lines[f"{key}:{name.text}"] = name.line
            except ValueError as error:
                found.complain(value, where, str(error))
    return tuple(pairs)
