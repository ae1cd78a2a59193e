"""What is configured for an agent, each value with where it comes from."""

from dataclasses import dataclass

from agent_dev.config import load
from agent_dev.config import trust_store as trust
from agent_dev.config.profile import BUILT_IN
from agent_dev.run.prepare import Options, flags
from agent_dev.sandbox import machine
from agent_dev.session.sessions import Here


@dataclass(frozen=True, slots=True)
class Configured:
    """One value of a key: an item of a list, a variable, or the key's only one."""

    key: str
    value: object
    origin: str


def effective(where: Here, options: Options, agent: str) -> tuple[Configured, ...]:
    """Return every value that a run would get, in the order of the keys. Raises BadConfiguration, UsageError."""
    home = machine.home(where.environ)
    repository = trust.layer(where.store.path, where.root)[0] if trust.is_there(where.root) else load.Request.repository
    request = load.Request(
        agent=agent,
        home=home,
        environ=where.environ,
        config=options.config,
        profile_file=options.profile_file,
        flags=flags(options),
        repository=repository,
    )
    settings = load.settings(request)
    found = []
    for key, value in settings.profile.as_dict().items():
        for name, one in _items(key, value):
            origin = settings.origins.get(name) or settings.origins.get(key) or BUILT_IN
            found.append(Configured(key, one, origin))
    return tuple(found)


def _items(key: str, value: object) -> list[tuple[str, object]]:
    """Return each item of a key with the name under which its origin is known."""
    if key == "set" and isinstance(value, tuple):
        return [(f"set:{name}", f"{name}={text}") for name, text in value]
    if isinstance(value, tuple) and key != "command":
        return [(f"{key}:{item}", item) for item in value]
    return [(key, list(value) if isinstance(value, tuple) else value)]
