"""What a repository's own settings may say: which keys, which of them take something away, and which give something."""

from agent_dev.config import schema
from agent_dev.config.profile import Layer, Settings
from agent_dev.config.validators import Checked, Node

NAME = ".agent-dev.yaml"
_TIGHT = {"net": "none", "nested": False}  # what holds against everything but a flag
_KEYS = ("env", "set", "net", "nested", "ro", "rw", "overlay", "mask", "share", "merge")
_WIDER = {
    "env": "lets in your variable {}",
    "set": "sets the variable {}",
    "ro": "shows {}",
    "rw": "lets the agent write {} directly, without review",
    "overlay": "shows {} and collects changes to it",
    "share": "hands in the socket of {}",
}


def check(document: Node | None) -> Checked:
    """Check a repository's file; None is an empty one."""
    table = {name: schema.CONFIG[name] for name in _KEYS}
    others = {**schema.CONFIG, **schema.PROFILE}
    return schema.document_of(document, table, dict.fromkeys(others, "is not for a repository to say: put it into config.yaml"))


def restrictions(layer: Layer) -> Layer:
    """Return what of a layer takes something away from the agent."""
    fields = {name: value for name, value in layer.fields.items() if name == "mask" or _is_tight(name, value)}
    return Layer(fields, {name: origin for name, origin in layer.origins.items() if name.partition(":")[0] in fields})


def tighten(made: Settings, layer: Layer, flags: Layer) -> Settings:
    """Put a repository's restrictions above everything but the command line."""
    taken = {name: value for name, value in layer.fields.items() if _is_tight(name, value) and name not in flags.fields}
    if not taken:
        return made
    origins = {name: layer.origins.get(name, NAME) for name in taken}
    return Settings(made.profile.but(**taken), {**made.origins, **origins})


def _is_tight(name: str, value: object) -> bool:
    return name in _TIGHT and _TIGHT[name] == value


def effects(fields: dict[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return in words what a file gives the agent, and what it takes away."""
    gives: list[str] = []
    takes: list[str] = []
    for name, value in fields.items():
        items = value if isinstance(value, tuple | list) else (value,)
        if name in _WIDER:
            gives += (_WIDER[name].format("=".join(item) if isinstance(item, tuple | list) else item) for item in items)
        elif name == "mask":
            takes += (f"hides {item}" for item in items)
        elif _is_tight(name, value):
            takes.append("takes the network away" if name == "net" else "forbids sandboxes inside")
        else:
            word = str(value).lower() if isinstance(value, bool) else value
            gives.append(f"says {name}: {word}, where you say nothing")
    return tuple(gives), tuple(takes)
