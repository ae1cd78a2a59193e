"""Options before the agent's name."""

import os

from agent_dev import paths
from agent_dev.config.load import SettingsRequest
from agent_dev.config.profile import Layer
from agent_dev.errors import UsageError
from agent_dev.paths import expand
from agent_dev.value import Value


class RunOptions(Value):
    """The options before the agent's name."""

    directory: str = ""
    home: str = ""
    net: str = ""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()
    ro: tuple[str, ...] = ()
    rw: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    share: tuple[str, ...] = ()
    containers: bool = False
    limit: tuple[str, ...] = ()
    merge: bool = True
    name: str = ""
    prompt: str = ""  # given to the agent in the form that its profile describes
    profile_file: str = ""
    config: str = ""
    debug: bool = False
    quiet: bool = False
    plain: bool = False  # of `agent-dev` without arguments: text only
    detachable: bool = False  # the session can be detached from the terminal
    detach: bool = False  # as `detachable`, and detached from the start
    record: str = ""  # file for a recording of the terminal
    worktree: str = ""  # the branch of a git work tree that is made for the run
    direct: str = ""  # the snapshot provider of direct mode; "auto": the best available


def settings_request(agent: str, home: str, environ: dict[str, str], options: RunOptions) -> SettingsRequest:
    """Return the request for an agent's settings with these options; `home`: the user's."""
    return SettingsRequest(
        agent=agent,
        home=home,
        environ=environ,
        config=options.config,
        profile_file=options.profile_file,
        flags=options_layer(options),
    )


def options_layer(options: RunOptions) -> Layer:
    """Return the options as the highest layer."""
    pairs = {
        "home": paths.absolute(expand(options.home, os.environ.get("HOME", ""))) if options.home else "",
        "net": options.net,
        "allow": options.allow,
        "deny": options.deny,
        "publish": options.publish,
        "ro": tuple(map(paths.absolute, options.ro)),
        "rw": tuple(map(paths.absolute, options.rw)),
        "overlay": tuple(map(paths.absolute, options.overlay)),
        "share": options.share,
        "containers": options.containers,
        "env": tuple(item for item in options.env if "=" not in item),
        "set": tuple(tuple(item.split("=", 1)) for item in options.env if "=" in item),
        "limits": tuple(map(parse_limit_option, options.limit)),
    }
    fields: dict[str, object] = {name: value for name, value in pairs.items() if value}
    if not options.merge:
        fields["merge"] = False
    names = {"set": "--env", "limits": "--limit", "merge": "--no-merge"}
    return Layer(fields, {name: names.get(name, f"--{name}") for name in fields})


def parse_limit_option(item: str) -> tuple[str, int]:
    """Return name and value of a `--limit` argument. Raises UsageError."""
    from agent_dev.config import limits, validators  # deferred: rarely needed

    name, _, text = item.partition("=")
    if name not in limits.NAMES:
        hint = f"limits: {', '.join(limits.NAMES)}"
        raise UsageError(message=f"--limit {item}: unknown limit {name}{validators.did_you_mean(name, limits.NAMES)}", hint=hint)
    try:
        return name, limits.parse_limit(name, text)
    except ValueError as error:
        raise UsageError(message=f"--limit {name}: {error}", hint=f"--limit {name}=VALUE") from None
