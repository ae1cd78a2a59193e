"""Which keys a configuration file may hold and what may stand at each: a tree of nodes becomes fields, or problems."""

from agent_dev.config.profile import NETS, SHARES
from agent_dev.config.validators import (
    Checked,
    Found,
    Mapping,
    Node,
    Scalar,
    a_command,
    a_flag,
    a_folder_of_path,
    a_home,
    a_home_path,
    a_line,
    a_number,
    a_path,
    a_variable,
    kind_of,
    list_of,
    nearest,
    one_of,
    pairs_of,
    some_keys,
    some_limits,
    some_variables,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_dev.config.validators import Check


def profile(document: Node | None) -> Checked:
    """Check a profile file; None is an empty one."""
    return document_of(document, PROFILE, dict.fromkeys(_ONLY_CONFIG, "belongs into config.yaml, not into a profile"))


def config(document: Node | None) -> Checked:
    """Check config.yaml; None is an empty one."""
    return document_of(document, CONFIG, dict.fromkeys(_ONLY_PROFILE, "belongs into a profile, not into config.yaml"))


def rules(document: Node | None, choices: dict[str, tuple[str, ...]]) -> Checked:
    """Check a file of risk rules: a mapping of names to rules. `choices` are the words of kinds, types, content and adds."""
    found = Found()
    table = {**_RULE, **{name: list_of(one_of(words)) for name, words in choices.items()}}
    fields: dict[str, object] = {}
    for name, node in pairs_of(found, "", document):
        found.lines[name.text] = name.line
        if not isinstance(node, Mapping):
            found.complain(node, name.text, f"must be a mapping, not {kind_of(node)}")
            continue
        rule = _fields(found, node, table, {}, f"{name.text}.")
        if "why" not in rule:
            found.complain(node, name.text, "says no why")
        if not set(rule) - {"why", "check", "unless"}:
            found.complain(node, name.text, "has no condition, so it would mean everything")
        fields[name.text] = rule
    return Checked(fields, found.lines, tuple(found.problems))


def policy(document: Node | None, decisions: tuple[str, ...]) -> Checked:
    """Check a file of command rules: a mapping of sets, each with its `rules` in order and maybe what it `extends`."""
    found, table = Found(), {**_COMMAND_RULE, "decision": one_of(decisions)}

    def rule(found: Found, key: str, node: Node) -> dict[str, object] | None:
        if not isinstance(node, Mapping):
            found.complain(node, key, f"must be a mapping, not {kind_of(node)}")
            return None
        fields = _fields(found, node, table, {}, f"{key}.")
        if missing := [word for word in ("name", "decision") if word not in fields]:
            found.complain(node, key, f"a rule says no {' and no '.join(missing)}")
        elif not set(fields) - {"name", "decision", "message"}:
            found.complain(node, f"{key}.{fields['name']}", "has no condition, so it would mean everything")
        return {**fields, "line": node.line}

    fields: dict[str, object] = {}
    for name, node in pairs_of(found, "", document):
        found.lines[name.text] = name.line
        fields[name.text] = _fields(found, node, {"extends": a_line, "rules": list_of(rule)}, {}, f"{name.text}.")
    return Checked(fields, found.lines, tuple(found.problems))


def one(field: str, word: str, texts: "Iterable[str]") -> tuple[str, ...]:
    """Return what is wrong with values of a field that come by `word` (a flag, a variable) and not from a file."""
    found = Found()
    check = _ITEMS.get(field) or CONFIG[field]
    for text in texts:
        check(found, word, Scalar(0, text))
    return tuple(problem.text for problem in found.problems)


def document_of(document: Node | None, table: "dict[str, Check]", elsewhere: dict[str, str]) -> Checked:
    """Check a file against a table of keys; `elsewhere` says of others where they belong."""
    found = Found()
    fields = _fields(found, document, table, elsewhere)
    return Checked(fields, found.lines, tuple(found.problems))


def _fields(
    found: Found, node: Node | None, table: "dict[str, Check]", elsewhere: dict[str, str], inside: str = ""
) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, value in pairs_of(found, inside, node):
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


_ONLY_PROFILE = ("about", "command", "extends", "install")
_CHECKPOINTS = ("checkpoint_minutes", "keep_checkpoints", "keep_checkpoints_days", "keep_checkpoints_mib")
_ONLY_CONFIG = (
    *("state", "many_deletions", "keep_merges_days", "keep_merges_mib", "ask_seconds", "tx_allow", "commit_trailers"),
    *("theme", "keys"),
    *_CHECKPOINTS,
)
_BOTH: "dict[str, Check]" = {
    "env": list_of(a_variable),
    "set": some_variables,
    "home": a_home,
    "net": one_of(NETS),
    "nested": a_flag,
    "limits": some_limits,
    "tools": list_of(a_home_path),
    "caches": list_of(a_home_path),
    "path": list_of(a_folder_of_path),
    "ro": list_of(a_path),
    "rw": list_of(a_path),
    "overlay": list_of(a_path),
    "mask": list_of(a_line),
    "share": list_of(one_of(SHARES)),
    "merge": a_flag,
    "policy": a_line,
    "tx_inside": a_flag,
}
PROFILE: "dict[str, Check]" = {"about": a_line, "command": a_command, "extends": a_line, "install": a_line, **_BOTH}
CONFIG: "dict[str, Check]" = {
    **_BOTH,
    "state": a_path,
    "many_deletions": a_number(0, 100),
    "keep_merges_days": a_number(0, 36500),
    "keep_merges_mib": a_number(0, 1 << 30),
    "ask_seconds": a_number(1, 86_400),
    **dict.fromkeys(_CHECKPOINTS, a_number(0, 1 << 30)),
    "tx_allow": list_of(a_line),
    "commit_trailers": a_flag,
    "theme": a_line,
    "keys": some_keys,
}
_ITEMS: "dict[str, Check]" = {"env": a_variable, "set": a_variable, "share": one_of(SHARES)}
_COMMAND_RULE: "dict[str, Check]" = {
    "name": a_line,
    **dict.fromkeys(("programs", "words", "options", "arguments", "paths", "only", "names", "lines", "cwd"), list_of(a_line)),
    "over": a_number(0, 1000),
    "message": a_line,
}
_RULE: "dict[str, Check]" = {
    **dict.fromkeys(("why", "check"), a_line),
    "paths": list_of(a_line),
    "unless": list_of(a_line),
    "lines": list_of(a_line),
    "but_for": list_of(a_line),
    **dict.fromkeys(("executable", "leaves_root", "special_bits", "strange_name", "unseen", "in_repository"), a_flag),
}
