"""Options of the broker, with which the gateway's process reads the real keys and recognizes their stand-ins."""

from agent_dev.config.credentials import Credential
from agent_dev.value import Value


class BrokerOptions(Value):
    """The credentials of a session, their stand-ins by variable, and where real keys and trusted programs are."""

    credentials: tuple[Credential, ...]
    stand_ins: dict[str, str]
    environ: dict[str, str]  # the user's
    home: str
    untrusted: tuple[str, ...]  # paths that an agent may have written
    folder: str  # the session's

    def __repr__(self) -> str:
        return f"BrokerOptions({', '.join(one.name for one in self.credentials)})"
