"""Report the configuration of an agent, each value with its origin."""

from typing import Any

from agent_dev.config import load, trust_store
from agent_dev.config.limits import format_limit
from agent_dev.config.options import RunOptions, settings_request
from agent_dev.config.profile import BUILT_IN, MAPPINGS, OFF
from agent_dev.config.upstream_proxy import parse_proxy
from agent_dev.linux import users
from agent_dev.quick_dataclass import dataclass
from agent_dev.run.prepare import require_known
from agent_dev.session.sessions import CommandContext


@dataclass(frozen=True, slots=True)
class ConfiguredValue:
    """One value of a key: a list item, a variable, or the only value."""

    key: str
    value: object
    origin: str


def effective_values(where: CommandContext, options: RunOptions, agent: str) -> tuple[ConfiguredValue, ...]:
    """Return every value that a run would use, in the order of the keys.

    Raises InvalidConfiguration, UsageError, UnknownAgent.
    """
    home = users.home_directory(where.environ)
    repository = (
        trust_store.load_layer(where.store.path, where.root)[0]
        if trust_store.has_settings(where.root)
        else load.SettingsRequest.repository
    )
    request = settings_request(agent, home, where.environ, options)
    settings = load.load_settings(request.replace(repository=repository))
    if agent not in ("", load.DEFAULT_PROFILE):
        require_known(agent, settings, options.profile_file)
    values = []
    for key, value in settings.profile.as_dict().items():
        for name, item in _items(key, value):
            origin = settings.origins.get(name) or settings.origins.get(key) or BUILT_IN
            values.append(ConfiguredValue(key, item, origin))
    return tuple(values)


def is_default(origin: str) -> bool:
    """Return whether a value comes from agent-dev itself: built in, or from the shipped default profile."""
    return origin == BUILT_IN or origin.startswith(f"{load.profiles_folder()}/{load.DEFAULT_PROFILE}.yaml:")


def _items(key: str, value: object) -> list[tuple[str, object]]:
    """Return each item of a key, with the name under which its origin is recorded; the proxy without its password."""
    if key == "upstream_proxy" and value:
        return [(key, str(parse_proxy(str(value)) or value))]
    if key in MAPPINGS and isinstance(value, tuple):
        return [(f"{key}:{name}", _mapping_item(key, name, item)) for name, item in value]
    if key == "notify" and not value:
        return [(key, OFF)]
    if isinstance(value, tuple) and key != "command":
        return [(f"{key}:{item}", item) for item in value]
    return [(key, list(value) if isinstance(value, tuple) else value)]


def _mapping_item(key: str, name: str, item: Any) -> object:
    if key == "limits":
        return f"{name}={format_limit(name, item)}"
    return f"{name}={item}" if key == "set" else (name, item)
