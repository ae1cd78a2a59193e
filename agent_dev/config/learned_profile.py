"""The draft of a profile from what an agent looked for and was denied: everything that would show or allow more is a comment."""

from collections.abc import Iterable

from agent_dev.paths import is_below
from agent_dev.quick_dataclass import dataclass
from agent_dev.sanitize import visible

_MANY = 3  # paths in one directory, from which on the directory is named instead
_EXAMPLES = 3  # names in a comment


@dataclass(frozen=True, slots=True)
class Learned:
    """The findings of a run: what its agent missed. Paths exist on the host and not inside.

    `paths`: it looked for them. `secrets`: such that hold credentials. `programs`: name and path on the host. `commands`: the
    command lines that the policy denied. `hosts`: rules for the hosts that it reached, or None if that is not known.
    """

    paths: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    programs: tuple[tuple[str, str], ...] = ()
    commands: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing was missing, and no hosts were recorded."""
        return not (self.paths or self.secrets or self.programs or self.commands or self.hosts)


def draft_text(agent: str, learned: Learned, home: str, extends: str = "") -> str:
    """Return the draft in YAML: a profile that extends the agent's, or for a command the profile named by `extends`."""
    started = visible(agent)
    blocks = [
        f"# A draft, made by `agent-dev learn {'-- ' * bool(extends)}{started}`: what a run missed.",
        f"# To use a line, remove its `# `. Then `agent-dev NAME` starts {started} with it,",
        "# where NAME is the name of this file without `.yaml`.",
        f"extends: {extends or agent}",
    ]
    if extends:
        blocks.append(f"command: [{_literal(started)}]")
    blocks += _path_block("They exist on this machine, but not inside. `ro` shows them.", learned.paths, home)
    blocks += _path_block(
        "These hold credentials. What the agent can read, it can send away: better pass one token with `env`.",
        learned.secrets,
        home,
    )
    if learned.programs:
        rows = [f"#   - {_quoted(path, home)} # {visible(name)}" for name, path in learned.programs]
        blocks += [
            "",
            "# Programs that it did not find. Another way: agent-dev shell, and install them in the agent home.",
            "# ro:",
            *rows,
        ]
    if learned.commands:
        rows = [f"#   {visible(command)}" for command in learned.commands]
        blocks += ["", "# Commands that the policy denied; `agent-dev why -- COMMAND` names the rule.", *rows]
    if learned.hosts is not None:
        rows = [f'#   - "{rule}"' for rule in learned.hosts]
        blocks += [
            "",
            "# The hosts that it reached, for a network of its own that reaches nothing else.",
            "# net: allow",
            "# allow:",
            *rows,
        ]
    return "".join(f"{line}\n" for line in blocks)


def _path_block(about: str, paths: tuple[str, ...], home: str) -> list[str]:
    if not paths:
        return []
    return [
        "",
        f"# {about}",
        "# ro:",
        *(f"#   - {_quoted(path, home)}{_comment(below)}" for path, below in fold_paths(paths, home)),
    ]


def fold_paths(paths: Iterable[str], home: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the paths without those below another one, and a directory in place of many of its entries, with their names."""
    highest: list[str] = []
    for path in sorted(set(paths)):
        if not highest or not is_below(path, highest[-1]):
            highest.append(path)
    by_folder: dict[str, list[str]] = {}
    for path in highest:
        by_folder.setdefault(path.rpartition("/")[0], []).append(path.rpartition("/")[2])
    found: list[tuple[str, tuple[str, ...]]] = []
    for folder, names in by_folder.items():
        if len(names) >= _MANY and folder.count("/") > 1 and not is_below(home, folder):
            found.append((folder, tuple(names)))
        else:
            found += [(f"{folder}/{name}", ()) for name in names]
    return tuple(sorted(found))


def _comment(names: tuple[str, ...]) -> str:
    shown = ", ".join(map(visible, names[:_EXAMPLES])) + (" …" if len(names) > _EXAMPLES else "")
    return f" # {shown}" if names else ""


def _quoted(path: str, home: str) -> str:
    short = f"~{path[len(home) :]}" if is_below(path, home) else path
    return _literal(visible(f"{short}?"))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
