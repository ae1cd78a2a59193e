"""Settings of a repository: the allowed keys, those that restrict the agent, and those that grant something."""

from agent_dev.config import schema
from agent_dev.config.profile import GATEWAY_NETS, NETS_BY_REACH, Layer, Settings
from agent_dev.config.validators import CheckedFile, Node
from agent_dev.paths import split_optional

FILE_NAME = ".agent-dev.yaml"
_RESTRICTIVE = {"net": ("none", *GATEWAY_NETS), "nested": (False,)}  # override everything but a flag
_RESTRICTIVE_LISTS = ("mask", "deny")
_KEYS = ("env", "set", "net", "allow", "deny", "publish", "nested", "ro", "rw", "overlay", "mask", "share", "merge")
_GRANTS = {
    "env": "passes through your variable {}",
    "set": "sets the variable {}",
    "ro": "mounts {} read-only",
    "rw": "lets the agent write {} directly, without review",
    "overlay": "mounts {} with an overlay, so that you review changes to it",
    "share": "shares {} with the agent",
    "allow": "lets the agent reach {}, unless its network is net: host or none",
    "publish": "publishes the port {} of the sandbox on this machine",
}


_LIMITS = {
    "none": "removes the network",
    "allow": "limits the network to your `allow:` rules",
    "ask": "limits the network to your `allow:` rules and to what you approve",
    "learn": "limits the network to names that lead to public addresses",
    False: "forbids nested sandboxes",
}


def check(document: Node | None) -> CheckedFile:
    """Check a repository's file; None is an empty one."""
    table = {name: schema.CONFIG[name] for name in _KEYS}
    others = {**schema.CONFIG, **schema.PROFILE}
    return schema.check_document(document, table, dict.fromkeys(others, "not allowed in a repository: set it in config.yaml"))


def restrictions(layer: Layer) -> Layer:
    """Return the part of a layer that restricts the agent."""
    fields = {name: value for name, value in layer.fields.items() if name in _RESTRICTIVE_LISTS or _is_restrictive(name, value)}
    return Layer(fields, {name: origin for name, origin in layer.origins.items() if name.partition(":")[0] in fields})


def apply_restrictions(settings: Settings, layer: Layer, flags: Layer) -> Settings:
    """Apply a repository's restrictions above everything but the command line."""
    applied = {
        name: value
        for name, value in layer.fields.items()
        if _is_restrictive(name, value) and name not in flags.fields and _takes_away(name, value, settings)
    }
    if not applied:
        return settings
    origins = {name: layer.origins.get(name, FILE_NAME) for name in applied}
    return Settings(settings.profile.replace(**applied), {**settings.origins, **origins})


def _is_restrictive(name: str, value: object) -> bool:
    return value in _RESTRICTIVE.get(name, ())


def _takes_away(name: str, value: object, settings: Settings) -> bool:
    """Return whether a restrictive value reaches less than the user's own setting."""
    return name != "net" or NETS_BY_REACH.index(str(value)) < NETS_BY_REACH.index(settings.profile.net)


def _describe_grant(name: str, item: object) -> str:
    if isinstance(item, tuple | list):
        return _GRANTS[name].format("=".join(item))
    path, is_optional = split_optional(str(item)) if name in ("ro", "rw") else (item, False)
    return _GRANTS[name].format(path) + (", if it exists" if is_optional else "")


def describe_effects(fields: dict[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Describe what a file grants to the agent, and what it restricts."""
    grants: list[str] = []
    limits: list[str] = []
    for name, value in fields.items():
        items = value if isinstance(value, tuple | list) else (value,)
        if name in _GRANTS:
            grants += (_describe_grant(name, item) for item in items)
        elif name in _RESTRICTIVE_LISTS:
            limits += (f"{'hides' if name == 'mask' else 'keeps the agent from reaching'} {item}" for item in items)
        elif _is_restrictive(name, value):
            limits.append(_LIMITS[value])
        else:
            text = str(value).lower() if isinstance(value, bool) else value
            grants.append(f"sets {name}: {text}, unless you set it")
    return tuple(grants), tuple(limits)
