"""Which of the user's git settings an agent gets as values: who commits, and what changes the content of a commit."""

from agent_dev.value import Value

IGNORED, ATTRIBUTES = "core.excludesfile", "core.attributesfile"  # as git lists them
# Line ends, modes, names and encodings as they enter an index or a commit; what a merge makes of them.
_CONTENT = (
    "core.autocrlf",
    "core.checkroundtripencoding",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.safecrlf",
    "core.symlinks",
    "i18n.commitencoding",
    "merge.renormalize",
)
_DRIVERS = {"filter": ("clean", "smudge", "process", "required"), "merge": ("name", "driver", "recursive")}
_LOCAL = ("local", "worktree")


class Listed(Value):
    """What `git config --list -z --show-scope` says: the last value of each key, and the keys of the repository's own."""

    values: dict[str, str]
    local: frozenset[str]


def parse(listing: bytes) -> Listed:
    """Return the settings; a key without a value is a true one. What a command line of ours said is left out."""
    values: dict[str, str] = {}
    local: dict[str, bool] = {}
    words = listing.split(b"\0")
    for scope, item in zip(words[::2], words[1::2], strict=False):
        key, equals, value = item.partition(b"\n")
        if scope != b"command":
            name = key.decode("utf-8", "surrogateescape")
            values[name] = value.decode("utf-8", "surrogateescape") if equals else "true"
            local[name] = scope.decode("ascii", "replace") in _LOCAL
    return Listed(values, frozenset(name for name, is_local in local.items() if is_local))


def author(listed: Listed, environ: dict[str, str], user: str, host: str) -> dict[str, str]:
    """Return the identity that git gives the user: environment, then configuration, then the account's name."""
    values = listed.values
    name = environ.get("GIT_AUTHOR_NAME") or values.get("author.name") or values.get("user.name") or user
    email = environ.get("GIT_AUTHOR_EMAIL") or values.get("author.email") or values.get("user.email")
    return {"user.name": name, "user.email": email or environ.get("EMAIL") or f"{user}@{host}"}


def content(listed: Listed) -> dict[str, str]:
    """Return the settings that change what a commit contains; the repository's own are in the agent's copy of it.

    Every filter is required: where its program is not there inside, git refuses instead of committing other bytes.
    """
    found = {key: listed.values[key] for key in _CONTENT if key in listed.values and key not in listed.local}
    found |= {key: value for key, value in listed.values.items() if _is_driver(key)}
    for name in {key.rpartition(".")[0] for key in found if key.startswith("filter.")}:
        found[f"{name}.required"] = "true"
        if f"{name}.process" not in found:  # a required one has two sides
            found = {f"{name}.clean": "cat", f"{name}.smudge": "cat", **found}
    return found


def _is_driver(key: str) -> bool:
    section, _, rest = key.partition(".")
    return "." in rest and rest.rpartition(".")[2] in _DRIVERS.get(section, ())


def text(values: dict[str, str]) -> bytes:
    """Return settings as git writes them in a file."""
    lines: list[str] = []
    last = ""
    for key, value in values.items():
        section, name = _section(key)
        if section != last:
            lines.append(f"[{section}]\n")
            last = section
        lines.append(f"\t{name} = {_quoted(value)}\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def _section(key: str) -> tuple[str, str]:
    path, _, name = key.rpartition(".")
    section, dot, below = path.partition(".")
    if not dot:
        return section, name
    escaped = below.replace("\\", "\\\\").replace('"', '\\"')
    return f'{section} "{escaped}"', name


def _quoted(value: str) -> str:
    table = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(table.get(letter, letter) for letter in value) + '"'
