"""The check of `credentials:` in configuration files. Pure."""

from agent_dev.config import network_rules
from agent_dev.config.credentials import FORWARD, INJECT
from agent_dev.config.validators import (
    CheckResults,
    Mapping,
    Node,
    check_command,
    check_line,
    check_path,
    check_variable_name,
    describe_node,
    did_you_mean,
    list_of,
    mapping_pairs,
    one_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.config.validators import Check

    Fields = dict[str, object]
_TOKEN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_SOURCES = ("env", "file", "command")
_FORBIDDEN_HEADERS = ("host", "content-length", "transfer-encoding", "connection", "cookie")


def check_credentials(found: CheckResults, key: str, node: Node) -> tuple[object, ...] | None:
    """Return credentials as pairs: name, and pairs of its keys."""
    made = []
    for name, value in mapping_pairs(found, f"{key}.", node):
        where = f"{key}.{name.text}"
        found.lines[f"{key}:{name.text}"] = name.line
        if not isinstance(value, Mapping):
            found.add_problem(value, where, f"must be a mapping, not {describe_node(value)}")
        elif not name.text or not set(name.text) <= _TOKEN:
            found.add_problem(name, where, "a credential's name has letters, digits, - and _")
        else:
            made.append((name.text, tuple(_check_one(found, where, value).items())))
    return tuple(made)


def _check_one(found: CheckResults, where: str, node: Mapping) -> "Fields":
    fields: Fields = {}
    for name, value in mapping_pairs(found, f"{where}.", node):
        if name.text not in _KEYS:
            found.add_problem(name, f"{where}.{name.text}", "unknown key" + did_you_mean(name.text, _KEYS))
            continue
        checked = _KEYS[name.text](found, f"{where}.{name.text}", value)
        if checked is not None:
            fields[name.text] = checked
    _check_together(found, where, node)
    return fields


def _check_together(found: CheckResults, where: str, node: Mapping) -> None:
    """Report keys that are missing, or that exclude each other."""
    given = {name.text for name, _ in node.pairs}
    for needed in ("host", "variable"):
        if needed not in given:
            found.add_problem(node, where, f"has no `{needed}`")
    sources = [name for name in _SOURCES if name in given]
    if len(sources) > 1:
        found.add_problem(node, where, f"has {' and '.join(sources)}: one key has one source")
    if {"user", "header"} <= given:
        found.add_problem(node, where, "has user and header: a user is for Basic authentication")
    if "base_path" in given and "base_url" not in given:
        found.add_problem(node, where, "has base_path, but no base_url")


def _check_host(found: CheckResults, key: str, node: Node) -> str | None:
    text = check_line(found, key, node)
    if text is None:
        return None
    try:
        name = network_rules.canonical_name(text)
    except ValueError as error:
        found.add_problem(node, key, str(error))
        return None
    if name == "localhost" or name.endswith(".localhost"):
        found.add_problem(node, key, f"{text} is the sandbox itself")
        return None
    return name


def _check_header(found: CheckResults, key: str, node: Node) -> str | None:
    text = check_line(found, key, node)
    if text is None:
        return None
    name, _, scheme = text.partition(":")
    if not name or not set(name) <= _TOKEN or not set(scheme.strip()) <= _TOKEN:
        found.add_problem(node, key, f"{text} is not written NAME or NAME: SCHEME")
    elif name.lower() in _FORBIDDEN_HEADERS:
        found.add_problem(node, key, f"{name} cannot have a key")
    else:
        return f"{name.lower()}: {scheme.strip()}" if scheme.strip() else name.lower()
    return None


def _check_user(found: CheckResults, key: str, node: Node) -> str | None:
    text = check_line(found, key, node)
    if text is None or set(text) <= _TOKEN | set(".@+"):
        return text
    found.add_problem(node, key, f"{text} is not a user name: letters, digits and . @ + - _")
    return None


def _check_branch(found: CheckResults, key: str, node: Node) -> str | None:
    text = check_line(found, key, node)
    if text is None:
        return None
    if text.startswith(("/", "-")) or ".." in text or any(char in " ~^:\\" or not char.isprintable() for char in text):
        found.add_problem(node, key, f"{text} is not a pattern of branches, such as agent/*")
        return None
    return text


def _check_method(found: CheckResults, key: str, node: Node) -> str | None:
    text = check_line(found, key, node)
    if text is None or (text.isascii() and text.isupper() and text.replace("-", "").isalpha()):
        return text
    found.add_problem(node, key, f"{text} is not a method of HTTP, such as GET")
    return None


def _check_url_path(found: CheckResults, key: str, node: Node) -> str | None:
    text = check_line(found, key, node)
    if text is None or (text.startswith("/") and text.isascii() and not set(text) & set(" ?#%\\")):
        return text
    found.add_problem(node, key, f"{text} is not a path of a URL, such as /v1/*")
    return None


_KEYS: "dict[str, Check]" = {
    "host": _check_host,
    "variable": check_variable_name,
    "base_url": check_variable_name,
    "base_path": _check_url_path,
    "env": check_variable_name,
    "file": check_path,
    "command": check_command,
    "header": _check_header,
    "user": _check_user,
    "push": list_of(_check_branch),
    "methods": list_of(_check_method),
    "paths": list_of(_check_url_path),
    "without_key": one_of((FORWARD, INJECT)),
}
