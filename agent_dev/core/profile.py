"""What one agent needs, as a value, and the layers it is put together from."""

from agent_dev.value import Value


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
    tools: tuple[str, ...] = ()  # below the real home, shown read-only at their places
    caches: tuple[str, ...] = ()  # below the real home, shown through a throw-away overlay
    path: tuple[str, ...] = ()  # directories of PATH inside, before the system's
    ro: tuple[str, ...] = ()  # more paths, read-only
    rw: tuple[str, ...] = ()  # more paths, written directly
    overlay: tuple[str, ...] = ()  # more roots
    install: str = ""  # how to get the command
    merge: bool = True  # open the merge screen after the agent has ended


LISTS = ("env", "tools", "caches", "path", "ro", "rw", "overlay")
WORDS = ("command",)
TEXTS = ("about", "home", "state", "net", "install")
NETS = ("host", "none")
BUILT_IN = "built-in"


class Layer(Value):
    """The fields that one source says something about, and where it says so ("file:line", "--net", a variable)."""

    fields: dict[str, object]
    origins: dict[str, str]


class Settings(Value):
    """A finished profile and, for each field (or `field:item` of a list), where the value came from."""

    profile: Profile
    origins: dict[str, str]


def stack(name: str, layers: tuple[Layer, ...]) -> Settings:
    """Put layers together, the weakest first: a later scalar replaces, lists and variables add up."""
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for field, value in layer.fields.items():
            origin = layer.origins.get(field, BUILT_IN)
            if field in LISTS and isinstance(value, tuple | list):
                values[field] = _added(values.get(field, ()), value, field, origin, layer, origins)
            elif field == "set" and isinstance(value, tuple | list):
                values[field] = _replaced(values.get(field, ()), value, origin, layer, origins)
            else:
                values[field] = tuple(value) if isinstance(value, list) else value
                origins[field] = origin
    return Settings(Profile(name=name, **values), origins)


def _added(
    before: object,
    value: "tuple[object, ...] | list[object]",
    field: str,
    origin: str,
    layer: Layer,
    origins: dict[str, str],
) -> tuple[object, ...]:
    items = list(before) if isinstance(before, tuple) else []
    for item in value:
        origins[f"{field}:{item}"] = layer.origins.get(f"{field}:{item}", origin)
        if item not in items:
            items.append(item)
    return tuple(items)


def _replaced(
    before: object, value: "tuple[object, ...] | list[object]", origin: str, layer: Layer, origins: dict[str, str]
) -> tuple[object, ...]:
    table = dict(before) if isinstance(before, tuple) else {}
    for pair in value:
        name, text = pair  # type: ignore[misc]
        table[name] = text
        origins[f"set:{name}"] = layer.origins.get(f"set:{name}", origin)
    return tuple(table.items())
