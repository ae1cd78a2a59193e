"""The settings of one agent, and the layers they are built from."""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Items = tuple[Any, ...]
else:
    Any = object


class Profile(Value):
    """The settings with which one agent is started. Paths may begin with `~` (the user's home)."""

    name: str
    about: str = ""  # one sentence
    command: tuple[str, ...] = ()  # the program and its fixed arguments; empty: the command that the user typed
    programs: tuple[str, ...] = ()  # programs that can be run by name, without `--`
    env: tuple[str, ...] = ()  # names of variables passed through from the user's environment
    set: tuple[tuple[str, str], ...] = ()  # variables with their values
    home: str = "~/aihome"  # the agent home, mounted at the user's $HOME
    state: str = ""  # the directory of sessions; empty: $XDG_STATE_HOME/agent-dev
    net: str = "host"  # one of NETS
    allow: tuple[str, ...] = ()  # rules for what a sandbox with a gateway can reach (config/network_rules.py)
    deny: tuple[str, ...] = ()  # rules for what it cannot reach, even if `allow` names it
    publish: tuple[str, ...] = ()  # ports of the sandbox that this machine reaches (config/published_ports.py)
    upstream_proxy: str = ""  # the proxy that the gateway connects through; empty: that of the environment; none: no proxy
    no_proxy: tuple[str, ...] = ()  # hosts that the gateway reaches without the proxy
    upstream_ca: str = ""  # a file with CA certificates that agents trust besides the system's
    credentials: tuple[tuple[str, Any], ...] = ()  # keys that the agent never sees: Credential in config/credentials.py
    nested: bool = True  # whether the agent can make sandboxes of its own
    containers: bool = False  # whether the agent can run containers, with podman
    tools: tuple[str, ...] = ()  # directories below the real home, mounted read-only at the same path
    caches: tuple[str, ...] = ()  # directories below the real home, mounted with an overlay that is discarded
    path: tuple[str, ...] = ()  # directories of PATH in the sandbox, before the system's
    ro: tuple[str, ...] = ()  # further paths, mounted read-only
    rw: tuple[str, ...] = ()  # further paths, mounted writable, without review
    overlay: tuple[str, ...] = ()  # further roots, each with an overlay
    mask: tuple[str, ...] = ()  # patterns of files in the roots that the agent must not read
    share: tuple[str, ...] = ()  # sockets of the host that are passed into the sandbox
    ssh: tuple[tuple[str, Any], ...] = ()  # what `share: ssh-agent` may be used for: SshRules in config/ssh_rules.py
    install: str = ""  # how to install the command, if `agent` has no package
    agent: tuple[tuple[str, Any], ...] = ()  # what is known about the agent: AgentEntry in config/agent_entry.py
    limits: tuple[tuple[str, int], ...] = ()  # name, as in config.limits → bytes, seconds or a count
    merge: bool = True  # open the review screen after the agent has exited
    many_deletions: int = 25  # percent of the tree's files; a merge by options that deletes more needs a confirmation
    rename_similarity: int = 50  # percent of a renamed file's content that must be the same; 100: all of it, 0: no renames
    keep_merges_days: int = 90  # how many days a merge can be undone
    keep_merges_mib: int = 4096  # disk space of all merges that can be undone and of their sessions, in MiB
    keep_trash_days: int = 30  # how many days discarded sessions and old agent homes stay in the trash
    keep_trash_mib: int = 10240  # disk space of the trash, in MiB
    keep_merged_sessions: int = 10  # merged sessions that stay complete; older ones keep only what an undo needs
    keep_caches_days: int = 30  # how many days unused caches are kept
    keep_caches_mib: int = 32  # disk space of the caches, in MiB
    theme: str = "agent-dev"  # colours of the review screen: agent-dev, agent-dev-light, or a theme of Textual
    keys: tuple[tuple[str, str], ...] = ()  # keys of the screen, by binding id
    detachable: bool = False  # whether sessions that are started at a terminal can be detached from it
    detach_key: str = "ctrl-\\ d"  # the two keys that detach a session, pressed one after the other
    policy: str = "guard"  # the set of rules for commands (policy.yaml); off: none
    clipboard: bool = True  # whether the agent may write to the clipboard of the terminal; reading it is never possible
    instructions: bool = True  # tell the agent how its sandbox works, if `agent` says how
    tx_inside: bool = False  # whether the agent can take checkpoints and start transactions in its own session
    directory_renames: bool = True  # make directories of overlays renameable; each rename costs a notification
    notify: tuple[str, ...] = ("bell", "desktop")  # how the user is alerted when a question waits or a run ends
    notify_command: tuple[str, ...] = ()  # a command of the user's that is run outside for each alert; it gets a title and a text
    notify_end_seconds: int = 30  # alert when a run ends that took at least this long; 0: never
    notify_idle_seconds: int = 0  # alert when the agent has been idle for this long; 0: never
    ask_seconds: int = 120  # how long a command or connection waits for the user's answer
    checkpoint_minutes: int = 5  # interval of automatic checkpoints of a running session; 0: none
    keep_checkpoints: int = 50  # checkpoints kept per session; fewer of older ones
    keep_checkpoints_days: int = 30  # how many days checkpoints are kept
    keep_checkpoints_mib: int = 4096  # disk space of a session's checkpoints, in MiB
    tx_allow: tuple[str, ...] = ()  # risk rules whose changes a transaction may apply
    engines: tuple[tuple[str, str], ...] = ()  # commands that run another command on some machine, by name (`tx --on`)
    worker: str = "agent-dev"  # the command of agent-dev on other machines
    max_bundle_mib: int = 1024  # how much a worker may send for one task, in MiB
    commit_trailers: bool = False  # add trailers with agent and session to imported commits

    @property
    def has_package(self) -> bool:
        """True if `agent` names a package, so that the agent can be installed."""
        return not {"npm", "pypi"}.isdisjoint(dict(self.agent))


_PATHS = ("tools", "caches", "path", "ro", "rw", "overlay")
LISTS = ("programs", "env", *_PATHS, "mask", "share", "tx_allow", "allow", "deny", "publish", "no_proxy")
MAPPINGS = ("set", "limits", "agent", "ssh", "credentials", "keys")
IMPORT_KINDS = ("memory", "settings", "skills", "commands", "servers", "hooks", "plugins")  # of files for `home --import`
NETS = ("host", "none", "allow", "ask", "learn")
GATEWAY_NETS = ("allow", "ask", "learn")  # with a network of the sandbox's own, behind a gateway (network/)
NETS_BY_REACH = ("none", "allow", "ask", "learn", "host")  # each reaches more than the one before
SHARES = ("ssh-agent", "gpg-agent", "dbus", "display", "clipboard-images", "docker")
OFF = "off"
ALERTS = ("bell", "desktop", "terminal")
BUILT_IN = "built-in"


class Layer(Value):
    """The fields that one source sets, and their origins ("file:line", "--net", a variable)."""

    fields: "dict[str, Any]"
    origins: dict[str, str]


class Settings(Value):
    """A complete profile and the origin of each field (or `field:item` of a list)."""

    profile: Profile
    origins: dict[str, str]


def merge_layers(name: str, layers: tuple[Layer, ...]) -> Settings:
    """Merge layers, the lowest first: a later scalar replaces, lists and variables add up.

    Entries of `path` in a higher layer come before those of lower layers, so that they are searched first.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for field, value in layer.fields.items():
            if field in LISTS:
                before, more = values.get(field, ()), tuple(value)
                values[field] = _added(more, before) if field == "path" else _added(before, more)
                origins |= {f"{field}:{item}": _origin(layer, field, item) for item in value}
            elif field in MAPPINGS:
                pairs = {name: tuple(item) if isinstance(item, list) else item for name, item in value}
                values[field] = tuple((dict(values.get(field, ())) | pairs).items())
                origins |= {f"{field}:{name}": _origin(layer, field, name) for name, _ in value}
            else:
                values[field] = tuple(value) if isinstance(value, list) else value
                origins[field] = layer.origins.get(field, BUILT_IN)
    return Settings(Profile(name=name, **values), origins)


def _added(before: "Items", more: "Items") -> "Items":
    return (*before, *(item for item in more if item not in before))


def _origin(layer: Layer, field: str, item: object) -> str:
    found = (layer.origins.get(name) for name in (f"{field}:{item}", f"{field}.{item}", field))
    return next(filter(None, found), BUILT_IN)
