"""Validators of configuration values: a tree of nodes, and one check per kind that returns the value or reports a problem."""

from agent_dev.config import limits
from agent_dev.config.detach_key import parse_detach_key
from agent_dev.config.profile import ALERTS, OFF
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Scalar(Value):
    """A scalar. `yaml_meaning`: what YAML reads the unquoted text as, if not as text ("false", "the number 18")."""

    line: int
    text: str
    yaml_meaning: str = ""


class Sequence(Value):
    """A list of nodes."""

    line: int
    items: "tuple[Node, ...]"


class Mapping(Value):
    """Keys and their nodes in file order, with repeated keys."""

    line: int
    pairs: "tuple[tuple[Scalar, Node], ...]"


Node = Scalar | Sequence | Mapping


class Problem(Value):
    """A problem in a line of a file: `key: message`."""

    line: int
    text: str


class CheckedFile(Value):
    """A file's fields, the line of each `field` and `field:item`, and all problems."""

    fields: dict[str, object]
    lines: dict[str, int]
    problems: tuple[Problem, ...]


class CheckResults:
    """The lines and problems that checks have collected so far."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []

    def add_problem(self, node: Node, key: str, message: str) -> None:
        """Report a problem of a node."""
        self.problems.append(Problem(node.line, f"{key}: {message}"))


if TYPE_CHECKING:
    Check = Callable[[CheckResults, str, Node], object]


def did_you_mean(name: str, names: "Iterable[str]") -> str:
    """Return ` (did you mean …?)` with the most similar of `names`, or nothing."""
    similar = closest_match(name, names)
    return f" (did you mean {similar}?)" if similar else ""


def closest_match(name: str, names: "Iterable[str]") -> str:
    """Return the most similar of `names`; "" if none is similar."""
    import difflib  # deferred: imports re

    return next(iter(difflib.get_close_matches(name, list(names), 1)), "")


def mapping_pairs(found: CheckResults, inside: str, node: Node | None) -> "tuple[tuple[Scalar, Node], ...]":
    """Return a mapping's pairs; repeated keys are reported and left out."""
    if node is None:
        return ()
    if not isinstance(node, Mapping):
        found.add_problem(node, inside.rstrip(".") or "the file", f"must be a mapping, not {describe_node(node)}")
        return ()
    first: dict[str, int] = {}
    pairs = []
    for key, value in node.pairs:
        if key.text in first:
            found.add_problem(key, inside + key.text, f"given twice, first on line {first[key.text]}")
        else:
            first[key.text] = key.line
            pairs.append((key, value))
    return tuple(pairs)


def describe_node(node: Node) -> str:
    """Return a noun for a node's kind."""
    match node:
        case Sequence():
            return "a list"
        case Mapping():
            return "a mapping"
        case Scalar(text="", yaml_meaning=means) if means:
            return "nothing"
        case Scalar():
            return "text"


def check_text(found: CheckResults, key: str, node: Node) -> str | None:
    """Return text that can be passed to a program: without NUL and lone surrogates."""
    if not isinstance(node, Scalar):
        found.add_problem(node, key, f"must be text, not {describe_node(node)}")
    elif node.yaml_meaning and not node.text:
        found.add_problem(node, key, "has no value")
    elif node.yaml_meaning:
        found.add_problem(node, key, f'{node.text} without quotes is {node.yaml_meaning}: write "{node.text}"')
    elif any(char == "\0" or "\ud800" <= char <= "\udfff" for char in node.text):
        found.add_problem(node, key, "contains NUL or a character that is not valid in UTF-8")
    else:
        return node.text
    return None


def check_line(found: CheckResults, key: str, node: Node) -> str | None:
    """Return text that is not empty and has no control characters."""
    text = check_text(found, key, node)
    if text is None:
        return None
    if not text:
        found.add_problem(node, key, "is empty")
    elif any(char < " " or char == "\x7f" for char in text.rstrip("\n")):
        found.add_problem(node, key, "contains a control character")
    else:
        return text.rstrip("\n")
    return None


def check_path(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a path that begins with / or ~, without empty components."""
    text = check_line(found, key, node)
    if text is None:
        return None
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text.startswith("/") and parts[:1] != ["~"]:
        found.add_problem(node, key, f"{text} is not absolute: begin it with / or ~/")
    elif ".." in parts:
        found.add_problem(node, key, f"{text} contains ..: write the path that it resolves to")
    else:
        return ("/" if text.startswith("/") else "") + "/".join(parts)
    return None


def check_path_below_home(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a path below the user's home."""
    path = check_path(found, key, node)
    if path is not None and not path.startswith("~/"):
        found.add_problem(node, key, f"{path} is not below the home: begin it with ~/")
        return None
    return path


def check_path_in_home(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a path relative to a home, without `..`."""
    text = check_line(found, key, node)
    if text is None:
        return None
    parts = text.split("/")
    if not parts[0] or parts[0] == "~" or ".." in parts:
        found.add_problem(node, key, f"{text} is not relative to the home, or contains ..")
        return None
    return "/".join(part for part in parts if part not in ("", "."))


def check_conversations(found: CheckResults, key: str, node: Node) -> str | None:
    """Return `PATH#KEY`: a path relative to a home, with {conversation} and before it at most one directory `*`, and a key."""
    text = check_path_in_home(found, key, node)
    if text is None:
        return None
    path, _, name = text.partition("#")
    _, placeholder, after = path.partition("{conversation}")
    patterns = [part for part in path.split("/") if "*" in part]
    if placeholder and name and patterns in ([], ["*"]) and "*" not in after:
        return text
    found.add_problem(node, key, f"{text} must be PATH#KEY, with {{conversation}} in PATH, and at most one directory * before it")
    return None


def check_agent_home(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a path that may contain {profile} and {project}, except in its first component."""
    path = check_path(found, key, node)
    if path is None:
        return None
    rest = path.replace("{profile}", "").replace("{project}", "")
    if "{" in rest or "}" in rest:
        found.add_problem(node, key, f"{path} contains a brace: only {{profile}} and {{project}} are replaced")
    elif "{" in "/".join(path.split("/")[:2]):
        found.add_problem(node, key, f"{path} begins with a variable: put the homes in a directory with a fixed name")
    else:
        return path
    return None


def check_path_entry(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a path that can be an entry of PATH."""
    path = check_path(found, key, node)
    if path is not None and ":" in path:
        found.add_problem(node, key, f"{path} contains a colon, which PATH does not allow")
        return None
    return path


def check_program_name(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a program's name, without a directory."""
    name = check_line(found, key, node)
    if name is None or not ("/" in name or name.startswith("-")):
        return name
    reason = "contains a slash: write only the name" if "/" in name else "begins with a hyphen"
    found.add_problem(node, key, f"{name} {reason}")
    return None


def check_variable_name(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a variable's name."""
    name = check_line(found, key, node)
    if name is None or (name.isascii() and name.isidentifier()):
        return name
    found.add_problem(node, key, f"{name} is not a variable name: letters, digits and _, not beginning with a digit")
    return None


def check_flag(found: CheckResults, key: str, node: Node) -> bool | None:
    """Return true or false."""
    if isinstance(node, Scalar) and node.yaml_meaning and node.text in ("true", "false"):
        return node.text == "true"
    written = f", not {node.text}" if isinstance(node, Scalar) and node.text else ""
    found.add_problem(node, key, f"must be true or false, without quotes{written}")
    return None


def check_detach_key(found: CheckResults, key: str, node: Node) -> str | None:
    """Return the names of two keys, such as `ctrl-a d`."""
    text = check_line(found, key, node)
    if text is None:
        return None
    try:
        parse_detach_key(text)
    except ValueError as error:
        found.add_problem(node, key, str(error))
        return None
    return text


def number_between(low: int, high: int) -> "Check":
    """Return a check for an integer in a range."""

    def check(found: CheckResults, key: str, node: Node) -> int | None:
        if (
            isinstance(node, Scalar)
            and node.yaml_meaning
            and node.text.isascii()
            and node.text.isdigit()
            and low <= int(node.text) <= high
        ):
            return int(node.text)
        written = f", not {node.text}" if isinstance(node, Scalar) and node.text else ""
        found.add_problem(node, key, f"must be a whole number from {low} to {high}{written}")
        return None

    return check


def one_of(choices: tuple[str, ...]) -> "Check":
    """Return a check for one of some texts."""

    def check(found: CheckResults, key: str, node: Node) -> str | None:
        text = check_text(found, key, node)
        if text is None or text in choices:
            return text
        found.add_problem(node, key, f"{text} is not one of {', '.join(choices)}{did_you_mean(text, choices)}")
        return None

    return check


def list_of(check: "Check") -> "Check":
    """Return a check for a list whose items pass `check`."""

    def check_list(found: CheckResults, key: str, node: Node) -> tuple[object, ...] | None:
        if isinstance(node, Scalar) and node.yaml_meaning and not node.text:
            return ()
        if not isinstance(node, Sequence):
            found.add_problem(node, key, f"must be a list, not {describe_node(node)}")
            return None
        items = []
        for item_node in node.items:
            item = check(found, key, item_node)
            if item is not None:
                found.lines[f"{key}:{item}"] = item_node.line
                items.append(item)
        return tuple(items)

    return check_list


def check_network_rule(*, is_deny: bool = False) -> "Check":
    """Return a check for a rule of `allow` or `deny`: text, or a mapping with `name`, `ports` and `private`."""

    def check(found: CheckResults, key: str, node: Node) -> str | None:
        text = _rule_of_mapping(found, key, node) if isinstance(node, Mapping) else check_line(found, key, node)
        if text is None:
            return None
        from agent_dev.config import network_rules  # deferred: only with rules

        try:
            network_rules.parse_rule(text, is_deny=is_deny)
        except ValueError as error:
            found.add_problem(node, key, str(error))
            return None
        return text

    return check


def check_ssh_host(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a host of `ssh.hosts`."""
    text = check_line(found, key, node)
    if text is None:
        return None
    from agent_dev.config import ssh_rules  # deferred: only with `ssh`

    try:
        ssh_rules.parse_host(text)
    except ValueError as error:
        found.add_problem(node, key, str(error))
        return None
    return text


def check_ssh_key(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a key of `ssh.keys`: a fingerprint, or the path of a public key."""
    text = check_line(found, key, node)
    if text is None or text.startswith(("SHA256:", "/", "~/")):
        return text
    found.add_problem(node, key, f"{text} is neither a fingerprint (SHA256:…, as `ssh-add -l` prints it) nor an absolute path")
    return None


def check_proxy(found: CheckResults, key: str, node: Node) -> str | None:
    """Return the URL of a proxy, or `none`; no problem shows its password."""
    text = check_line(found, key, node)
    if text is None:
        return None
    from agent_dev.config import upstream_proxy  # deferred: only with a proxy

    try:
        upstream_proxy.parse_proxy(text)
    except ValueError as error:
        found.add_problem(node, key, str(error))
        return None
    return text


def check_published_port(found: CheckResults, key: str, node: Node) -> str | None:
    """Return an entry of `publish`."""
    is_port = isinstance(node, Scalar) and node.text.isascii() and node.text.isdecimal()
    text = node.text if isinstance(node, Scalar) and is_port else check_line(found, key, node)
    if text is None:
        return None
    from agent_dev.config import published_ports  # deferred: only with published ports

    try:
        published_ports.parse_published(text)
    except ValueError as error:
        found.add_problem(node, key, str(error))
        return None
    return text


def _rule_of_mapping(found: CheckResults, key: str, node: Mapping) -> str | None:
    """Return the text of a rule that is written as a mapping."""
    checks: dict[str, Check] = {"name": check_line, "ports": list_of(number_between(1, 65535)), "private": check_flag}
    before = len(found.problems)
    values: dict[str, object] = {}
    for name, value in mapping_pairs(found, f"{key}.", node):
        if name.text in checks:
            values[name.text] = checks[name.text](found, f"{key}.{name.text}", value)
        else:
            found.add_problem(name, f"{key}.{name.text}", "unknown key" + did_you_mean(name.text, checks))
    if "name" not in values:
        found.add_problem(node, key, "has no `name`")
    if len(found.problems) > before:
        return None
    ports = values.get("ports")
    numbers = ",".join(map(str, ports)) if isinstance(ports, tuple) else ""
    return f"{values['name']}{':' if numbers else ''}{numbers}{' private' if values.get('private') else ''}"


def check_alerts(found: CheckResults, key: str, node: Node) -> tuple[object, ...] | None:
    """Return a list of alerts; a scalar is one alert, or `off` for none."""
    if isinstance(node, Sequence):
        alerts = list_of(one_of(ALERTS))(found, key, node)
        return alerts if isinstance(alerts, tuple) else None
    if isinstance(node, Scalar) and node.text == OFF:  # also without quotes, where YAML reads it as false
        return ()
    alert = one_of((*ALERTS, OFF))(found, key, node)
    return None if alert is None else (alert,)


def check_policy_name(found: CheckResults, key: str, node: Node) -> str | None:
    """Return the name of a policy set, or `off`, also without quotes, where YAML reads it as false."""
    return OFF if isinstance(node, Scalar) and node.text == OFF else check_line(found, key, node)


def check_command(found: CheckResults, key: str, node: Node) -> tuple[object, ...] | None:
    """Return the arguments of a command; a scalar is one argument and is not split."""
    if isinstance(node, Scalar):
        program = check_line(found, key, node)
        return None if program is None else (program,)
    if isinstance(node, Sequence) and not node.items:
        found.add_problem(node, key, "is empty")
        return None
    before = len(found.problems)
    argv = list_of(check_text)(found, key, node)
    if len(found.problems) > before or not isinstance(argv, tuple):
        return None
    if not argv[0]:
        found.add_problem(node, key, "begins with an empty argument")
        return None
    return argv


def check_variables(found: CheckResults, key: str, node: Node) -> tuple[tuple[str, str], ...] | None:
    """Return variables and their values."""
    if isinstance(node, Scalar) and node.yaml_meaning and not node.text:
        return ()
    pairs = []
    for name, value in mapping_pairs(found, f"{key}.", node):
        text = check_text(found, f"{key}.{name.text}", value)
        if check_variable_name(found, key, name) is not None and text is not None:
            found.lines[f"{key}:{name.text}"] = name.line
            pairs.append((name.text, text))
    return tuple(pairs)


def check_file_texts(found: CheckResults, key: str, node: Node) -> tuple[tuple[str, str], ...]:
    """Return names of files and their texts."""
    pairs = []
    for name, value in mapping_pairs(found, f"{key}.", node):
        text = check_text(found, f"{key}.{name.text}", value)
        if "/" in name.text or name.text.startswith("."):
            found.add_problem(name, f"{key}.{name.text}", "must be a file name without `/` that does not begin with a dot")
        elif text is not None:
            pairs.append((name.text, text))
    return tuple(pairs)


def check_home_files(found: CheckResults, key: str, node: Node) -> tuple[tuple[str, str], ...]:
    """Return paths of files relative to a home, and their texts."""
    pairs = []
    for name, value in mapping_pairs(found, f"{key}.", node):
        path, text = check_path_in_home(found, f"{key}.{name.text}", name), check_text(found, f"{key}.{name.text}", value)
        if path and text is not None:
            pairs.append((path, text))
    return tuple(pairs)


def check_key_bindings(found: CheckResults, key: str, node: Node) -> tuple[tuple[str, str], ...] | None:
    """Return pairs of a key binding's id and its keys, separated by commas."""
    if isinstance(node, Scalar) and node.yaml_meaning and not node.text:
        return ()
    pairs = []
    for name, value in mapping_pairs(found, f"{key}.", node):
        text = check_line(found, f"{key}.{name.text}", value)
        if text is not None:
            found.lines[f"{key}:{name.text}"] = name.line
            pairs.append((name.text, text))
    return tuple(pairs)


def check_words(found: CheckResults, key: str, node: Node) -> str | None:
    """Return a command in one line, which is split like a shell splits words."""
    text = check_line(found, key, node)
    if text is None:
        return None
    import shlex  # deferred: rarely needed

    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words or words[0].startswith("-"):
        found.add_problem(node, key, "must be a command with its arguments, with matching quotes")
        return None
    return text


def check_engines(found: CheckResults, key: str, node: Node) -> tuple[tuple[str, str], ...] | None:
    """Return pairs of an engine's name and its command."""
    pairs = []
    for name, value in mapping_pairs(found, f"{key}.", node):
        text = check_words(found, f"{key}.{name.text}", value)
        if "," in name.text or not name.text.isprintable() or name.text != name.text.strip():
            found.add_problem(name, f"{key}.{name.text}", "the name of an engine cannot contain a comma")
        elif text is not None:
            pairs.append((name.text, text))
    return tuple(pairs)


def check_limits(found: CheckResults, key: str, node: Node) -> tuple[tuple[str, int], ...] | None:
    """Return limits and their values."""
    pairs = []
    for name, value in mapping_pairs(found, f"{key}.", node):
        where = f"{key}.{name.text}"
        if name.text not in limits.NAMES:
            found.add_problem(name, where, "unknown limit" + did_you_mean(name.text, limits.NAMES))
        elif not isinstance(value, Scalar):
            found.add_problem(value, where, f"must be a number, not {describe_node(value)}")
        else:
            try:
                pairs.append((name.text, limits.parse_limit(name.text, value.text)))
                found.lines[f"{key}:{name.text}"] = name.line
            except ValueError as error:
                found.add_problem(value, where, str(error))
    return tuple(pairs)
