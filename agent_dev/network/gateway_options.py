"""The options of the gateway, and its messages to and from the launcher."""

from agent_dev.value import Value

READY, FAILED, END = b"r", b"!", b"e"


class GatewayOptions(Value):
    """The mode and rules of a sandbox's network, as texts, and where its connections are logged."""

    mode: str  # one of GATEWAY_NETS (config/profile.py)
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    log: str  # the path of its log
    publish: tuple[str, ...] = ()  # entries of `publish:`
    proxy: str = ""  # the URL of the proxy to connect through; "": none
    no_proxy: tuple[str, ...] = ()  # hosts that are reached without it
    upstream_ca: str = ""  # a file with authorities to trust besides the system's
    published_file: str = ""  # where ports that `auto` finds are listed
