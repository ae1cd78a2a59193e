"""Which keys a configuration file may hold and what may stand at each: a tree of nodes becomes fields, or problems."""

from agent_dev.core import limits
from agent_dev.core.profile import NETS, SHARES
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


class _Found:
    """What a check has gathered so far."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []

    def complain(self, node: Node, key: str, what: str) -> None:
        self.problems.append(Problem(node.line, f"{key}: {what}"))


if TYPE_CHECKING:
    Check = Callable[[_Found, str, Node], object]


def profile(document: Node | None) -> Checked:
    """Check a profile file; None is an empty one."""
    return document_of(document, PROFILE, dict.fromkeys(_ONLY_CONFIG, "belongs into config.yaml, not into a profile"))


def config(document: Node | None) -> Checked:
    """Check config.yaml; None is an empty one."""
    return document_of(document, CONFIG, dict.fromkeys(_ONLY_PROFILE, "belongs into a profile, not into config.yaml"))


def rules(document: Node | None, choices: dict[str, tuple[str, ...]]) -> Checked:
    """Check a file of risk rules: a mapping of names to rules. `choices` are the words of kinds, types, content and adds."""
    found = _Found()
    table = {**_RULE, **{name: _list_of(_choice(words)) for name, words in choices.items()}}
    fields: dict[str, object] = {}
    for name, node in _pairs(found, "", document):
        found.lines[name.text] = name.line
        if not isinstance(node, Mapping):
            found.complain(node, name.text, f"must be a mapping, not {_kind(node)}")
            continue
        rule = _fields(found, node, table, {}, f"{name.text}.")
        if "why" not in rule:
            found.complain(node, name.text, "says no why")
        if not set(rule) - {"why", "unless"}:
            found.complain(node, name.text, "has no condition, so it would mean everything")
        fields[name.text] = rule
    return Checked(fields, found.lines, tuple(found.problems))


def policy(document: Node | None, decisions: tuple[str, ...]) -> Checked:
    """Check a file of command rules: a mapping of sets, each with its `rules` in order and maybe what it `extends`."""
    found, table = _Found(), {**_COMMAND_RULE, "decision": _choice(decisions)}

    def rule(found: _Found, key: str, node: Node) -> dict[str, object] | None:
        if not isinstance(node, Mapping):
            found.complain(node, key, f"must be a mapping, not {_kind(node)}")
            return None
        fields = _fields(found, node, table, {}, f"{key}.")
        if missing := [word for word in ("name", "decision") if word not in fields]:
            found.complain(node, key, f"a rule says no {' and no '.join(missing)}")
        elif not set(fields) - {"name", "decision", "message"}:
            found.complain(node, f"{key}.{fields['name']}", "has no condition, so it would mean everything")
        return {**fields, "line": node.line}

    fields: dict[str, object] = {}
    for name, node in _pairs(found, "", document):
        found.lines[name.text] = name.line
        fields[name.text] = _fields(found, node, {"extends": _line, "rules": _list_of(rule)}, {}, f"{name.text}.")
    return Checked(fields, found.lines, tuple(found.problems))


def one(field: str, word: str, texts: "Iterable[str]") -> tuple[str, ...]:
    """Return what is wrong with values of a field that come by `word` (a flag, a variable) and not from a file."""
    found = _Found()
    check = _ITEMS.get(field) or CONFIG[field]
    for text in texts:
        check(found, word, Scalar(0, text))
    return tuple(problem.text for problem in found.problems)


def nearest(word: str, words: "Iterable[str]") -> str:
    """Return ` (did you mean …?)` with the most similar of `words`, or nothing."""
    import difflib  # deferred: brings re, and is needed only to complain

    similar = difflib.get_close_matches(word, list(words), 1)
    return f" (did you mean {similar[0]}?)" if similar else ""


def document_of(document: Node | None, table: "dict[str, Check]", elsewhere: dict[str, str]) -> Checked:
    """Check a file against a table of keys; `elsewhere` says of others where they belong."""
    found = _Found()
    fields = _fields(found, document, table, elsewhere)
    return Checked(fields, found.lines, tuple(found.problems))


def _fields(
    found: _Found, node: Node | None, table: "dict[str, Check]", elsewhere: dict[str, str], inside: str = ""
) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, value in _pairs(found, inside, node):
        name = key.text
        if name not in table:
            what = elsewhere.get(name) or "unknown key" + nearest(name, table)
            found.complain(key, inside + name, what)
            continue
        found.lines[inside + name] = key.line
        checked = table[name](found, inside + name, value)
        if checked is not None:
            fields[name] = checked
    return fields


def _pairs(found: _Found, inside: str, node: Node | None) -> "tuple[tuple[Scalar, Node], ...]":
    """Return a mapping's pairs, repeated keys reported and left out."""
    if node is None:
        return ()
    if not isinstance(node, Mapping):
        found.complain(node, inside.rstrip(".") or "the file", f"must be a mapping, not {_kind(node)}")
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


def _kind(node: Node) -> str:
    match node:
        case Sequence():
            return "a list"
        case Mapping():
            return "a mapping"
        case Scalar(text="", means=means) if means:
            return "nothing"
        case Scalar():
            return "text"


def _text(found: _Found, key: str, node: Node) -> str | None:
    """Return any text that can be handed to a program: no NUL, nothing that has no UTF-8."""
    if not isinstance(node, Scalar):
        found.complain(node, key, f"must be text, not {_kind(node)}")
    elif node.means and not node.text:
        found.complain(node, key, "has no value")
    elif node.means:
        found.complain(node, key, f'{node.text} without quotes is {node.means}: write "{node.text}"')
    elif any(char == "\0" or "\ud800" <= char <= "\udfff" for char in node.text):
        found.complain(node, key, "holds a character that no program can be given")
    else:
        return node.text
    return None


def _line(found: _Found, key: str, node: Node) -> str | None:
    """Return text that is not empty and without control characters."""
    text = _text(found, key, node)
    if text is None:
        return None
    if not text:
        found.complain(node, key, "is empty")
    elif any(char < " " or char == "\x7f" for char in text.rstrip("\n")):
        found.complain(node, key, "holds a control character")
    else:
        return text.rstrip("\n")
    return None


def _path(found: _Found, key: str, node: Node) -> str | None:
    """Return a path that begins with / or ~, without empty parts."""
    text = _line(found, key, node)
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


def _home_path(found: _Found, key: str, node: Node) -> str | None:
    path = _path(found, key, node)
    if path is not None and not path.startswith("~/"):
        found.complain(node, key, f"{path} is not below the home: begin it with ~/")
        return None
    return path


def _home(found: _Found, key: str, node: Node) -> str | None:
    """Return a path that may hold {profile} and {project}, but not as its first name."""
    path = _path(found, key, node)
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


def _folder_of_path(found: _Found, key: str, node: Node) -> str | None:
    path = _path(found, key, node)
    if path is not None and ":" in path:
        found.complain(node, key, f"{path} holds a :, which PATH cannot")
        return None
    return path


def _variable(found: _Found, key: str, node: Node) -> str | None:
    name = _line(found, key, node)
    if name is None or (name.isascii() and name.isidentifier()):
        return name
    found.complain(node, key, f"{name} is not a variable's name: letters, digits and _, no digit first")
    return None


def _flag(found: _Found, key: str, node: Node) -> bool | None:
    if isinstance(node, Scalar) and node.means and node.text in ("true", "false"):
        return node.text == "true"
    written = f", not {node.text}" if isinstance(node, Scalar) and node.text else ""
    found.complain(node, key, f"must be true or false, without quotes{written}")
    return None


def _number(low: int, high: int) -> "Check":
    def check(found: _Found, key: str, node: Node) -> int | None:
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


def _choice(words: tuple[str, ...]) -> "Check":
    def check(found: _Found, key: str, node: Node) -> str | None:
        text = _text(found, key, node)
        if text is None or text in words:
            return text
        found.complain(node, key, f"{text} is not one of {', '.join(words)}{nearest(text, words)}")
        return None

    return check


def _list_of(check: "Check") -> "Check":
    def check_list(found: _Found, key: str, node: Node) -> tuple[object, ...] | None:
        if isinstance(node, Scalar) and node.means and not node.text:
            return ()
        if not isinstance(node, Sequence):
            found.complain(node, key, f"must be a list, not {_kind(node)}")
            return None
        items = []
        for node_of_item in node.items:
            item = check(found, key, node_of_item)
            if item is not None:
                found.lines[f"{key}:{item}"] = node_of_item.line
                items.append(item)
        return tuple(items)

    return check_list


def _command(found: _Found, key: str, node: Node) -> tuple[object, ...] | None:
    """Return words; a text is one word, no shell splits it."""
    if isinstance(node, Scalar):
        word = _line(found, key, node)
        return None if word is None else (word,)
    if isinstance(node, Sequence) and not node.items:
        found.complain(node, key, "is empty")
        return None
    before = len(found.problems)
    words = _list_of(_text)(found, key, node)
    if len(found.problems) > before or not isinstance(words, tuple):
        return None
    if not words[0]:
        found.complain(node, key, "begins with an empty word")
        return None
    return words


def _variables(found: _Found, key: str, node: Node) -> tuple[tuple[str, str], ...] | None:
    if isinstance(node, Scalar) and node.means and not node.text:
        return ()
    pairs = []
    for name, value in _pairs(found, f"{key}.", node):
        text = _text(found, f"{key}.{name.text}", value)
        if _variable(found, key, name) is not None and text is not None:
            found.lines[f"{key}:{name.text}"] = name.line
            pairs.append((name.text, text))
    return tuple(pairs)


def _keys(found: _Found, key: str, node: Node) -> tuple[tuple[str, str], ...] | None:
    """Return pairs of what a key of the screen does and the keys for it, separated by commas."""
    if isinstance(node, Scalar) and node.means and not node.text:
        return ()
    pairs = []
    for name, value in _pairs(found, f"{key}.", node):
        text = _line(found, f"{key}.{name.text}", value)
        if text is not None:
            pairs.append((name.text, text))
    return tuple(pairs)


def _limits(found: _Found, key: str, node: Node) -> tuple[tuple[str, int], ...] | None:
    pairs = []
    for name, value in _pairs(found, f"{key}.", node):
        where = f"{key}.{name.text}"
        if name.text not in limits.NAMES:
            found.complain(name, where, "unknown limit" + nearest(name.text, limits.NAMES))
        elif not isinstance(value, Scalar):
            found.complain(value, where, f"must be a number, not {_kind(value)}")
        else:
            try:
                pairs.append((name.text, limits.parse(name.text, value.text)))
                found.lines[f"{key}:{name.text}"] = name.line
            except ValueError as error:
                found.complain(value, where, str(error))
    return tuple(pairs)


_ONLY_PROFILE = ("about", "command", "extends", "install")
_CHECKPOINTS = ("checkpoint_minutes", "keep_checkpoints", "keep_checkpoints_days", "keep_checkpoints_mib")
_ONLY_CONFIG = (
    *("state", "many_deletions", "keep_merges_days", "keep_merges_mib", "ask_seconds", "tx_allow", "commit_trailers"),
    *("theme", "keys"),
    *_CHECKPOINTS,
)
_BOTH: "dict[str, Check]" = {
    "env": _list_of(_variable),
    "set": _variables,
    "home": _home,
    "net": _choice(NETS),
    "nested": _flag,
    "limits": _limits,
    "tools": _list_of(_home_path),
    "caches": _list_of(_home_path),
    "path": _list_of(_folder_of_path),
    "ro": _list_of(_path),
    "rw": _list_of(_path),
    "overlay": _list_of(_path),
    "mask": _list_of(_line),
    "share": _list_of(_choice(SHARES)),
    "merge": _flag,
    "policy": _line,
}
PROFILE: "dict[str, Check]" = {"about": _line, "command": _command, "extends": _line, "install": _line, **_BOTH}
CONFIG: "dict[str, Check]" = {
    **_BOTH,
    "state": _path,
    "many_deletions": _number(0, 100),
    "keep_merges_days": _number(0, 36500),
    "keep_merges_mib": _number(0, 1 << 30),
    "ask_seconds": _number(1, 86_400),
    **dict.fromkeys(_CHECKPOINTS, _number(0, 1 << 30)),
    "tx_allow": _list_of(_line),
    "commit_trailers": _flag,
    "theme": _line,
    "keys": _keys,
}
_ITEMS: "dict[str, Check]" = {"env": _variable, "set": _variable, "share": _choice(SHARES)}
_COMMAND_RULE: "dict[str, Check]" = {
    "name": _line,
    **dict.fromkeys(("programs", "words", "options", "arguments", "paths", "only", "lines", "cwd"), _list_of(_line)),
    "over": _number(0, 1000),
    "message": _line,
}
_RULE: "dict[str, Check]" = {
    "why": _line,
    "paths": _list_of(_line),
    "unless": _list_of(_line),
    "lines": _list_of(_line),
    "but_for": _list_of(_line),
    **dict.fromkeys(("executable", "leaves_root", "special_bits", "strange_name", "unseen", "in_repository"), _flag),
}
