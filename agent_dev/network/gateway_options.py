"""The options of the gateway, and its messages to and from the launcher."""

import os

from agent_dev.notification import NotificationSettings
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.network.broker.options import BrokerOptions

END = b"e"
UNUSED = b"u"  # from a gateway that ends without having loaded, because nothing has connected
LOG = "network.jsonl"  # in the folder of the session


class GatewayOptions(Value):
    """The mode and rules of a sandbox's network, as text, and how the user is asked.

    `folder`: the session's, with the log and the questions. `remembered`: the profile's file of rules from permanent answers;
    `remembered_mark`: what `file_mark` returned for it when its rules were taken into `allow` and `deny`.
    """

    mode: str  # one of GATEWAY_NETS (config/profile.py); "none" if only ports are published
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    folder: str
    remembered: str
    remembered_mark: tuple[int, ...]
    ask_seconds: int
    notifications: NotificationSettings
    publish: tuple[str, ...] = ()  # entries of `publish:`
    proxy: str = ""  # the URL of the proxy to connect through; "": none
    no_proxy: tuple[str, ...] = ()  # hosts that are reached without it
    upstream_ca: str = ""  # a file with CA certificates to trust besides the system's
    published_file: str = ""  # where ports that `auto` finds are listed
    libraries_file: str = ""  # the cache of files that the gateway loads
    broker: "BrokerOptions | None" = None  # with credentials


def file_mark(path: str) -> tuple[int, ...]:
    """Return numbers that change with a file, none if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
