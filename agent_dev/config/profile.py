"""What one agent needs, as a value, and the layers it is put together from."""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Items = tuple[Any, ...]


class Profile(Value):
    """How one agent is started. Paths may begin with `~` (the user's home)."""

    name: str
    about: str = ""  # one sentence
    command: tuple[str, ...] = ()  # the program and its standing arguments; empty: the words the user typed
    env: tuple[str, ...] = ()  # names of variables let in from the user's environment
    set: tuple[tuple[str, str], ...] = ()  # variables with their values
    home: str = "~/aihome"  # the agent home, seen at the user's own $HOME
    state: str = ""  # where sessions lie; empty: $XDG_STATE_HOME/agent-dev
    net: str = "host"  # host | none
    nested: bool = True  # whether the agent can make sandboxes of its own
    tools: tuple[str, ...] = ()  # below the real home, shown read-only at their places
    caches: tuple[str, ...] = ()  # below the real home, shown through a throw-away overlay
    path: tuple[str, ...] = ()  # directories of PATH inside, before the system's
    ro: tuple[str, ...] = ()  # more paths, read-only
    rw: tuple[str, ...] = ()  # more paths, written directly
    overlay: tuple[str, ...] = ()  # more roots
    mask: tuple[str, ...] = ()  # patterns of files in the roots that the agent shall not read
    share: tuple[str, ...] = ()  # sockets of the host
    install: str = ""  # how to get the command
    limits: tuple[tuple[str, int], ...] = ()  # names of core.limits → bytes, seconds or pieces
    merge: bool = True  # open the merge screen after the agent has ended
    many_deletions: int = 25  # percent of the tree's files: flags delete more only when told twice
    keep_merges_days: int = 90  # how long a merge can be taken back
    keep_merges_mib: int = 4096  # and how much may be kept for that in all
    theme: str = "agent-dev"  # of the merge screen: agent-dev, agent-dev-light, or one of Textual's
    keys: tuple[tuple[str, str], ...] = ()  # other keys of the screen, by the id of what they do
    policy: str = "guard"  # the set of policy.yaml that says which commands may run; off: none is even looked at
    tx_inside: bool = False  # whether the agent can take checkpoints and make transactions of its own session
    ask_seconds: int = 120  # how long a command waits for the user's answer
    checkpoint_minutes: int = 5  # how often a checkpoint is taken of a running session; 0: never by itself
    keep_checkpoints: int = 50  # how many of a session are kept; the older, the sparser
    keep_checkpoints_days: int = 30
    keep_checkpoints_mib: int = 4096
    tx_allow: tuple[str, ...] = ()  # risk rules whose changes a transaction may bring home
    commit_trailers: bool = False  # say in commits that are brought home which agent and session they come from


LISTS = ("env", "tools", "caches", "path", "ro", "rw", "overlay", "mask", "share", "tx_allow")
MAPPINGS = ("set", "limits")
NETS = ("host", "none")
SHARES = ("ssh-agent", "gpg-agent", "dbus", "display", "docker")
BUILT_IN = "built-in"


class Layer(Value):
    """The fields that one source says something about, and where it says so ("file:line", "--net", a variable)."""

    fields: "dict[str, Any]"
    origins: dict[str, str]


class Settings(Value):
    """A finished profile and, for each field (or `field:item` of a list), where the value came from."""

    profile: Profile
    origins: dict[str, str]


def stack(name: str, layers: tuple[Layer, ...]) -> Settings:
    """Put layers together, the weakest first: a later scalar replaces, lists and variables add up.

    What a stronger layer says of `path` comes before what the weaker ones say: it is looked at first.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for field, value in layer.fields.items():
            if field in LISTS:
                before, more = values.get(field, ()), tuple(value)
                values[field] = _added(more, before) if field == "path" else _added(before, more)
                origins |= {f"{field}:{item}": _origin(layer, field, item) for item in value}
            elif field in MAPPINGS:
                values[field] = tuple((dict(values.get(field, ())) | dict(value)).items())
                origins |= {f"{field}:{name}": _origin(layer, field, name) for name, _ in value}
            else:
                values[field] = tuple(value) if isinstance(value, list) else value
                origins[field] = layer.origins.get(field, BUILT_IN)
    return Settings(Profile(name=name, **values), origins)


def _added(before: "Items", more: "Items") -> "Items":
    return (*before, *(item for item in more if item not in before))


def _origin(layer: Layer, field: str, item: object) -> str:
    return layer.origins.get(f"{field}:{item}", layer.origins.get(field, BUILT_IN))
