"""The schema of configuration files: keys and checks that turn a tree of nodes into fields and problems."""

from agent_dev.config.profile import IMPORT_KINDS, NETS, SHARES
from agent_dev.config.validators import (
    CheckedFile,
    CheckResults,
    Mapping,
    Node,
    Scalar,
    check_agent_home,
    check_alerts,
    check_command,
    check_conversations,
    check_detach_key,
    check_engines,
    check_file_texts,
    check_flag,
    check_home_files,
    check_key_bindings,
    check_limits,
    check_line,
    check_network_rule,
    check_path,
    check_path_below_home,
    check_path_entry,
    check_path_in_home,
    check_policy_name,
    check_program_name,
    check_proxy,
    check_published_port,
    check_ssh_host,
    check_ssh_key,
    check_variable_name,
    check_variables,
    check_words,
    describe_node,
    did_you_mean,
    list_of,
    mapping_pairs,
    number_between,
    one_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_dev.config.validators import Check


def check_profile(document: Node | None) -> CheckedFile:
    """Check a profile; None is an empty file."""
    return check_document(document, PROFILE, dict.fromkeys(_ONLY_CONFIG, "belongs in config.yaml, not in a profile"))


def check_config(document: Node | None) -> CheckedFile:
    """Check config.yaml; None is an empty file."""
    return check_document(document, CONFIG, dict.fromkeys(_ONLY_PROFILE, "belongs in a profile, not in config.yaml"))


def check_remembered_rules(document: Node | None) -> CheckedFile:
    """Check a file of network rules that answers of the user's made."""
    return check_document(document, {name: _BOTH[name] for name in ("allow", "deny")}, {})


def check_risk_rules(document: Node | None, choices: dict[str, tuple[str, ...]]) -> CheckedFile:
    """Check a file of risk rules: a mapping of names to rules. `choices`: the allowed values of enumerated keys."""
    found = CheckResults()
    table = {**_RULE, **{name: list_of(one_of(allowed)) for name, allowed in choices.items()}}
    fields: dict[str, object] = {}
    for name, node in mapping_pairs(found, "", document):
        found.lines[name.text] = name.line
        if not isinstance(node, Mapping):
            found.add_problem(node, name.text, f"must be a mapping, not {describe_node(node)}")
            continue
        rule = _fields(found, node, table, {}, f"{name.text}.")
        if "why" not in rule:
            found.add_problem(node, name.text, "has no `why`")
        if not set(rule) - {"why", "check", "unless"}:
            found.add_problem(node, name.text, "has no condition, so it would match everything")
        fields[name.text] = rule
    return CheckedFile(fields, found.lines, tuple(found.problems))


def check_policy(document: Node | None, decisions: tuple[str, ...]) -> CheckedFile:
    """Check a file of command rules: a mapping of sets, each with ordered `rules` and an optional `extends`."""
    found, table = CheckResults(), {**_COMMAND_RULE, "decision": one_of(decisions)}

    def rule(found: CheckResults, key: str, node: Node) -> dict[str, object] | None:
        if not isinstance(node, Mapping):
            found.add_problem(node, key, f"must be a mapping, not {describe_node(node)}")
            return None
        fields = _fields(found, node, table, {}, f"{key}.")
        if missing := [name for name in ("name", "decision") if name not in fields]:
            found.add_problem(node, key, f"a rule has no {' and no '.join(missing)}")
        elif not set(fields) - {"name", "decision", "message"}:
            found.add_problem(node, f"{key}.{fields['name']}", "has no condition, so it would match everything")
        return {**fields, "line": node.line}

    fields: dict[str, object] = {}
    for name, node in mapping_pairs(found, "", document):
        found.lines[name.text] = name.line
        fields[name.text] = _fields(found, node, {"extends": check_line, "rules": list_of(rule)}, {}, f"{name.text}.")
    return CheckedFile(fields, found.lines, tuple(found.problems))


def check_values(field: str, source: str, texts: "Iterable[str]") -> tuple[str, ...]:
    """Return the problems of a field's values that come from `source`, a flag or a variable."""
    found = CheckResults()
    check = _ITEMS.get(field) or CONFIG[field]
    for text in texts:
        check(found, source, Scalar(0, text))
    return tuple(problem.text for problem in found.problems)


def check_document(document: Node | None, table: "dict[str, Check]", elsewhere: dict[str, str]) -> CheckedFile:
    """Check a file against a table of keys; `elsewhere` has messages for keys that belong in other files."""
    found = CheckResults()
    fields = _fields(found, document, table, elsewhere)
    return CheckedFile(fields, found.lines, tuple(found.problems))


def _fields(
    found: CheckResults, node: Node | None, table: "dict[str, Check]", elsewhere: dict[str, str], inside: str = ""
) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, value in mapping_pairs(found, inside, node):
        name = key.text
        if name not in table:
            message = elsewhere.get(name) or "unknown key" + did_you_mean(name, table)
            found.add_problem(key, inside + name, message)
            continue
        found.lines[inside + name] = key.line
        checked = table[name](found, inside + name, value)
        if checked is not None:
            fields[name] = checked
    return fields


def _check_ssh(found: CheckResults, key: str, node: Node) -> tuple[tuple[str, object], ...] | None:
    fields = tuple(_fields(found, node, _SSH, {}, f"{key}.").items())
    if fields or found.problems:
        return fields
    found.add_problem(node, key, "is empty: set hosts, keys or sign_git, or remove it")  # () would mean no filter
    return None


_ONLY_PROFILE = ("about", "agent", "command", "extends", "install")
_CHECKPOINTS = ("checkpoint_minutes", "keep_checkpoints", "keep_checkpoints_days", "keep_checkpoints_mib")
_ONLY_CONFIG = (
    *(
        "state",
        "many_deletions",
        "rename_similarity",
        "keep_merges_days",
        "keep_merges_mib",
        "keep_merged_sessions",
        "keep_trash_days",
        "keep_trash_mib",
        "keep_caches_days",
        "keep_caches_mib",
        "notify",
        "notify_command",
        "notify_end_seconds",
        "notify_idle_seconds",
        "ask_seconds",
        "tx_allow",
        "commit_trailers",
        "engines",
        "worker",
        "max_bundle_mib",
        "detachable",
        "detach_key",
    ),
    *("theme", "keys"),
    *_CHECKPOINTS,
)
_BOTH: "dict[str, Check]" = {
    "programs": list_of(check_program_name),
    "env": list_of(check_variable_name),
    "set": check_variables,
    "home": check_agent_home,
    "net": one_of(NETS),
    "allow": list_of(check_network_rule()),
    "deny": list_of(check_network_rule(is_deny=True)),
    "publish": list_of(check_published_port),
    "upstream_proxy": check_proxy,
    "no_proxy": list_of(check_line),
    "upstream_ca": check_path,
    "credentials": lambda found, key, node: _check_credentials(found, key, node),  # noqa: PLW0108  (defined below)
    "nested": check_flag,
    "containers": check_flag,
    "limits": check_limits,
    "tools": list_of(check_path_below_home),
    "caches": list_of(check_path_below_home),
    "path": list_of(check_path_entry),
    "ro": list_of(check_path),
    "rw": list_of(check_path),
    "overlay": list_of(check_path),
    "mask": list_of(check_line),
    "share": list_of(one_of(SHARES)),
    "ssh": _check_ssh,
    "merge": check_flag,
    "policy": check_policy_name,
    "clipboard": check_flag,
    "instructions": check_flag,
    "tx_inside": check_flag,
    "directory_renames": check_flag,
}


def _check_credentials(found: CheckResults, key: str, node: Node) -> object:
    from agent_dev.config.credentials_schema import check_credentials  # deferred: most files have none

    return check_credentials(found, key, node)


_SSH: "dict[str, Check]" = {"hosts": list_of(check_ssh_host), "keys": list_of(check_ssh_key), "sign_git": check_flag}
_AGENT: "dict[str, Check]" = {  # AgentEntry, config/agent_entry.py
    **dict.fromkeys(("npm", "pypi", "node", "python"), check_line),
    **dict.fromkeys(
        ("keys", "resume", "repeat", "fork", "prompt", "task", "task_resume", "bare", "leaves", "instructions"),
        list_of(check_line),
    ),
    "hosts": list_of(check_network_rule()),
    "telemetry": list_of(check_network_rule(is_deny=True)),
    **dict.fromkeys(("login", *IMPORT_KINDS), list_of(check_path_in_home)),
    "instructions_set": check_variables,
    "instructions_files": check_file_texts,
    "seed": check_home_files,
    "conversations": check_conversations,
    **dict.fromkeys(("resume_interactive", "runs_as_root", "nests"), check_flag),
}


def check_agent(found: CheckResults, key: str, node: Node) -> tuple[tuple[str, object], ...]:
    """Return what is known about an agent, as pairs."""
    return tuple(_fields(found, node, _AGENT, {}, f"{key}.").items())


PROFILE: "dict[str, Check]" = {
    "about": check_line,
    "agent": check_agent,
    "command": check_command,
    "extends": check_line,
    "install": check_line,
    **_BOTH,
}
CONFIG: "dict[str, Check]" = {
    **_BOTH,
    "state": check_path,
    "many_deletions": number_between(0, 100),
    "rename_similarity": number_between(0, 100),
    "keep_merges_days": number_between(0, 36500),
    "keep_merges_mib": number_between(0, 1 << 30),
    "keep_trash_days": number_between(0, 36500),
    "keep_trash_mib": number_between(0, 1 << 30),
    "keep_caches_days": number_between(0, 36500),
    "keep_caches_mib": number_between(0, 1 << 30),
    "keep_merged_sessions": number_between(0, 1 << 20),
    "notify": check_alerts,
    "notify_command": check_command,
    "notify_end_seconds": number_between(0, 86_400),
    "notify_idle_seconds": number_between(0, 86_400),
    "ask_seconds": number_between(1, 86_400),
    **dict.fromkeys(_CHECKPOINTS, number_between(0, 1 << 30)),
    "tx_allow": list_of(check_line),
    "commit_trailers": check_flag,
    "engines": check_engines,
    "worker": check_words,
    "max_bundle_mib": number_between(1, 1 << 20),
    "detachable": check_flag,
    "detach_key": check_detach_key,
    "theme": check_line,
    "keys": check_key_bindings,
}
_ITEMS: "dict[str, Check]" = {
    "env": check_variable_name,
    "set": check_variable_name,
    "share": one_of(SHARES),
    "allow": check_network_rule(),
    "deny": check_network_rule(is_deny=True),
    "publish": check_published_port,
}
_COMMAND_RULE: "dict[str, Check]" = {
    "name": check_line,
    **dict.fromkeys(("programs", "words", "options", "arguments", "paths", "only", "names", "lines", "cwd"), list_of(check_line)),
    "over": number_between(0, 1000),
    "message": check_line,
}
_RULE: "dict[str, Check]" = {
    **dict.fromkeys(("why", "check"), check_line),
    "paths": list_of(check_line),
    "unless": list_of(check_line),
    "lines": list_of(check_line),
    "but_for": list_of(check_line),
    **dict.fromkeys(("executable", "leaves_root", "special_bits", "strange_name", "unseen", "in_repository"), check_flag),
    **dict.fromkeys(("world_writable", "gutted", "shadows", "no_diff"), check_flag),
}
