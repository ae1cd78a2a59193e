"""Rules about settings: which keys hold secrets or start programs, and which paths in them exist in the sandbox."""

import re
from collections.abc import Callable
from typing import Any

from agent_dev.home.importing.items import HOOKS, RUNS, SECRET, SERVERS, Edit
from agent_dev.redact import mask_secrets

# Keys, without case and punctuation, whose values are or name programs that an agent starts unasked.
_PROGRAM_KEYS = frozenset(
    (
        *("hooks", "statusline", "mcpservers", "mcp", "notify", "plugin", "plugins", "enabledplugins", "extensions", "lsp"),
        *("formatter", "command", "commands", "cmd", "args", "load", "awsauthrefresh", "awscredentialexport", "experimentalhook"),
        *(
            "extraknownmarketplaces",
            "packages",
            "tools",
            "exec",
            "script",
            "nodeoptions",
            "bashenv",
            "ldpreload",
            "pythonstartup",
        ),
    )
)
_PROGRAM_ENDINGS = ("command", "cmd", "helper", "hook")
_SERVER_KEYS = ("mcpservers", "mcp")
_VARIABLE_KEYS = ("env", "environment", "headers", "httpheaders")
_REFERENCE = re.compile(r"\$\{?[\w:.-]+\}?|\{(?:env|file):[^}]*\}|")
_PATH = re.compile(r"""(?:^|(?<=[\s"'=]))(?:(?:~|\$HOME|\$\{HOME\})/|/(?=[^/]))[^\s"'`;|&<>()$*?]*""")
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
_FRONT_PROGRAM = re.compile(r"^(?:hooks|mcp[-_]?servers)\s*:", re.IGNORECASE | re.MULTILINE)

Locate = Callable[[str], str | None]


def assess(key: str, value: object) -> tuple[str, ...]:
    """Return the flags of a key of a settings file."""
    found: set[str] = set()
    _assess(key, value, found, is_program=False, is_variable=False)
    return tuple(sorted(found, reverse=True))


def kind_of(key: str, kind: str) -> str:
    """Return the kind of a flagged key of a settings file of this kind."""
    plain = _plain(key)
    return SERVERS if plain in _SERVER_KEYS else HOOKS if plain == "hooks" else kind


def starts_programs(text: str) -> bool:
    """Return whether the front matter of a skill or command has hooks or servers."""
    front = _FRONT_MATTER.match(text)
    return bool(front and _FRONT_PROGRAM.search(front[1]))


def holds_secret(text: str) -> bool:
    """Return whether a word of a text has the form of a secret."""
    return any(mask_secrets((word,)) != (word,) for word in text.split())


def _assess(key: str, value: object, found: set[str], *, is_program: bool, is_variable: bool) -> None:
    """Collect the flags; `is_program`: below a key that starts programs; `is_variable`: a variable or header there."""
    if _names_program(key):
        is_program = True
        found.add(RUNS)
    if isinstance(value, dict):
        is_variable = is_program and _plain(key) in _VARIABLE_KEYS
        for name, part in value.items():
            _assess(str(name), part, found, is_program=is_program, is_variable=is_variable)
    elif isinstance(value, list):
        words = tuple(part for part in value if isinstance(part, str))
        if mask_secrets(words) != words:
            found.add(SECRET)  # such as `--token` and its value
        for part in value:
            _assess(key, part, found, is_program=is_program, is_variable=is_variable)
    elif isinstance(value, str) and _is_secret(key, value, is_variable=is_variable):
        found.add(SECRET)


def _names_program(key: str) -> bool:
    plain = _plain(key)
    return plain in _PROGRAM_KEYS or plain.endswith(_PROGRAM_ENDINGS)


def _is_secret(key: str, text: str, *, is_variable: bool) -> bool:
    """Return whether a text looks like a secret; every literal variable of a server counts."""
    if _REFERENCE.fullmatch(text):
        return False
    return is_variable or any(mask_secrets((word,)) != (word,) for word in (text, f"{key}={text}"))


def _plain(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


class _Dropped:
    """The result for a value with a path that does not exist in the sandbox."""


_DROPPED = _Dropped()


def translate_paths(document: dict[str, Any], locate: Locate) -> tuple[dict[str, Any], tuple[Edit, ...]]:
    """Return a document with the paths as they are in the sandbox, and the edits made for that.

    `locate` returns the path inside for a path outside, None if it does not exist there. A server or hook of which a path is
    missing is dropped as a whole; elsewhere, the value.
    """
    edits: list[Edit] = []
    translated = _translate_mapping(document, locate, edits, "", is_program=False)
    return ({} if isinstance(translated, _Dropped) else translated), tuple(edits)


def _translate(value: Any, locate: Locate, edits: list[Edit], where: str, *, is_program: bool) -> Any:
    if isinstance(value, dict):
        return _translate_mapping(value, locate, edits, where, is_program=is_program)
    if isinstance(value, list):
        return _translate_list(value, locate, edits, where, is_program=is_program)
    return _translate_text(value, locate, edits, where, is_program=is_program) if isinstance(value, str) else value


def _translate_mapping(value: dict[str, Any], locate: Locate, edits: list[Edit], where: str, *, is_program: bool) -> Any:
    translated = {}
    for key, part in value.items():
        runs = is_program or _names_program(str(key))
        path = f"{where}.{key}" if where else str(key)
        count = sum(edit.action == "dropped" for edit in edits)
        new = _translate(part, locate, edits, path, is_program=runs)
        is_part = _plain(str(key)) in ("command", "args", "cmd", "cwd")
        if is_part and count < sum(edit.action == "dropped" for edit in edits):
            return _DROPPED
        if not isinstance(new, _Dropped):
            translated[key] = new
    return translated if translated or not value else _DROPPED


def _translate_list(value: list[Any], locate: Locate, edits: list[Edit], where: str, *, is_program: bool) -> Any:
    translated = [_translate(part, locate, edits, f"{where}[{index}]", is_program=is_program) for index, part in enumerate(value)]
    kept = [part for part in translated if not isinstance(part, _Dropped)]
    return kept if kept or not value else _DROPPED


def _translate_text(value: str, locate: Locate, edits: list[Edit], where: str, *, is_program: bool) -> Any:
    """Translate a text that is a path, or a command with paths."""
    whole = _PATH.match(value)
    texts = [value] if whole and not is_program else [found[0] for found in _PATH.finditer(value)] if is_program else []
    new = value
    for text in texts:
        inside = locate(text)
        if inside is None:
            edits.append(Edit("dropped", where, text))
            return _DROPPED
        if inside != text:
            edits.append(Edit("rewritten", where, f"{text} -> {inside}"))
            new = new.replace(text, inside)
    return new
