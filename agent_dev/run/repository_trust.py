"""A repository's own settings before they are trusted: the file's text and effects, and the user's decision."""

from agent_dev.config import strict_yaml, trust_store
from agent_dev.config.repository_settings import FILE_NAME, describe_effects
from agent_dev.errors import IgnoredSettings, InvalidConfiguration
from agent_dev.quick_dataclass import dataclass
from agent_dev.session.sessions import CommandContext

NONE, UNTRUSTED, CHANGED, TRUSTED = "none", "untrusted", "changed", "trusted"


@dataclass(frozen=True, slots=True)
class TrustStatus:
    """A root's settings file: state, text, what it grants to the agent and what it restricts.

    `problems`: why it cannot be trusted.
    """

    root: str
    state: str
    text: str = ""
    grants: tuple[str, ...] = ()
    restrictions: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def read_status(where: CommandContext) -> tuple[TrustStatus, trust_store.TrustRecord | None]:
    """Return the state of a root's file, and what to store if the user trusts it."""
    if not trust_store.has_settings(where.root):
        return TrustStatus(where.root, NONE), None
    known = trust_store.read_record(where.store.path, where.root)
    try:
        data = trust_store.read(where.root)
    except IgnoredSettings as error:
        return TrustStatus(where.root, CHANGED if known else UNTRUSTED, problems=(error.message,)), None
    digest = trust_store.digest(data)
    state = TRUSTED if known and known.digest == digest else CHANGED if known else UNTRUSTED
    parsed = strict_yaml.parse_data(f"{where.root}/{FILE_NAME}", "repository", data)
    text = data.decode("utf-8", "surrogateescape")
    gives, takes = describe_effects(parsed.fields)
    status = TrustStatus(where.root, state, text, gives, takes, parsed.problems)
    return status, None if parsed.problems else trust_store.TrustRecord(digest, text, parsed.fields, parsed.lines)


def grant(where: CommandContext, wanted: trust_store.TrustRecord) -> None:
    """Store the user's trust in exactly the content that was shown; a changed file is not trusted."""
    trust_store.write_record(where.store.path, where.root, wanted)


def revoke(where: CommandContext) -> bool:
    """Revoke the trust; return whether there was any."""
    return trust_store.revoke(where.store.path, where.root)


def raise_problems(status: TrustStatus) -> None:
    """Raise InvalidConfiguration for a file that cannot be trusted as it is."""
    raise InvalidConfiguration(message="\n".join(status.problems))
