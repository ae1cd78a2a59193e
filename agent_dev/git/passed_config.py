"""The git settings passed through to an agent: identity, and settings that change a commit's content."""

from agent_dev.value import Value

EXCLUDES_FILE, ATTRIBUTES_FILE = "core.excludesfile", "core.attributesfile"  # spelled as git lists them
# Settings for line endings, modes, names and encodings in an index or a commit, and for merges.
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


class ListedConfig(Value):
    """The output of `git config --list -z --show-scope`: the last value of each key, and the keys set by the repository.

    `included_files`: the included files, in order.
    """

    values: dict[str, str]
    local_keys: frozenset[str]
    included_files: tuple[str, ...] = ()


def parse_listing(listing: bytes) -> ListedConfig:
    """Parse the listing; a key without a value is true. Settings from our own command line are left out."""
    values: dict[str, str] = {}
    local: dict[str, bool] = {}
    included: list[str] = []
    fields = listing.split(b"\0")
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        key, equals, value = setting.partition(b"\n")
        if scope != b"command":
            name = key.decode("utf-8", "surrogateescape")
            values[name] = value.decode("utf-8", "surrogateescape") if equals else "true"
            local[name] = scope.decode("ascii", "replace") in _LOCAL
            if name.startswith(("include.", "includeif.")) and name.endswith(".path"):
                included.append(values[name])
    return ListedConfig(values, frozenset(name for name, is_local in local.items() if is_local), tuple(included))


def find_identity(listed: ListedConfig, environ: dict[str, str], user: str, host: str) -> dict[str, str]:
    """Return the user's identity by git's rules: environment, then configuration, then the account's name."""
    values = listed.values
    name = environ.get("GIT_AUTHOR_NAME") or values.get("author.name") or values.get("user.name") or user
    email = environ.get("GIT_AUTHOR_EMAIL") or values.get("author.email") or values.get("user.email")
    return {"user.name": name, "user.email": email or environ.get("EMAIL") or f"{user}@{host}"}


def select_content_settings(listed: ListedConfig) -> dict[str, str]:
    """Return the settings that change a commit's content; the repository's own are in the agent's copy of it.

    All filters are required: if a filter's program is missing in the sandbox, git refuses instead of committing other bytes.
    """
    found = {key: listed.values[key] for key in _CONTENT if key in listed.values and key not in listed.local_keys}
    found |= {key: value for key, value in listed.values.items() if _is_driver(key)}
    for name in {key.rpartition(".")[0] for key in found if key.startswith("filter.")}:
        found[f"{name}.required"] = "true"
        if f"{name}.process" not in found:  # a required filter needs both directions
            found = {f"{name}.clean": "cat", f"{name}.smudge": "cat", **found}
    return found


def _is_driver(key: str) -> bool:
    section, _, rest = key.partition(".")
    return "." in rest and rest.rpartition(".")[2] in _DRIVERS.get(section, ())


def format_config(values: dict[str, str]) -> bytes:
    """Return settings in git's file format."""
    lines: list[str] = []
    last = ""
    for key, value in values.items():
        section, name = _split_key(key)
        if section != last:
            lines.append(f"[{section}]\n")
            last = section
        lines.append(f"\t{name} = {_quote(value)}\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def _split_key(key: str) -> tuple[str, str]:
    path, _, name = key.rpartition(".")
    section, dot, subsection = path.partition(".")
    if not dot:
        return section, name
    escaped = subsection.replace("\\", "\\\\").replace('"', '\\"')
    return f'{section} "{escaped}"', name


def _quote(value: str) -> str:
    table = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(table.get(letter, letter) for letter in value) + '"'
