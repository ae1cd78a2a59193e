"""A repository's own settings before they count: what the file says, what it would give and take, and the user's word."""

from dataclasses import dataclass

from agent_dev.config import strict_yaml as yaml_file
from agent_dev.config import trust_store as trust
from agent_dev.config.repository_settings import NAME, effects
from agent_dev.errors import BadConfiguration, NotTrustworthy
from agent_dev.session.sessions import Here

NONE, UNTRUSTED, CHANGED, TRUSTED = "none", "untrusted", "changed", "trusted"


@dataclass(frozen=True, slots=True)
class Said:
    """A root's file: its state, its text, what it gives the agent and what it takes away. `problems`: why it cannot count."""

    root: str
    state: str
    text: str = ""
    gives: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def look(where: Here) -> tuple[Said, trust.Trusted | None]:
    """Return what a root's file says, and what would be kept if the user trusted it."""
    if not trust.is_there(where.root):
        return Said(where.root, NONE), None
    known = trust.record(where.store.path, where.root)
    try:
        data = trust.read(where.root)
    except NotTrustworthy as error:
        return Said(where.root, CHANGED if known else UNTRUSTED, problems=(error.message,)), None
    digest = trust.digest(data)
    state = TRUSTED if known and known.digest == digest else CHANGED if known else UNTRUSTED
    parsed = yaml_file.parse_data(f"{where.root}/{NAME}", "repository", data)
    text = data.decode("utf-8", "surrogateescape")
    gives, takes = effects(parsed.fields)
    said = Said(where.root, state, text, gives, takes, parsed.problems)
    return said, None if parsed.problems else trust.Trusted(digest, text, parsed.fields, parsed.lines)


def give(where: Here, wanted: trust.Trusted) -> None:
    """Keep the user's word for exactly what was shown: a file that changed meanwhile is another one."""
    trust.keep(where.store.path, where.root, wanted)


def revoke(where: Here) -> bool:
    """Take the word back; return whether there was one."""
    return trust.revoke(where.store.path, where.root)


def complain(said: Said) -> None:
    """Raise BadConfiguration for a file that cannot be trusted as it is."""
    raise BadConfiguration(message="\n".join(said.problems))
