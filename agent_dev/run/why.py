"""Explain what an agent sees, reaches and may run, which line of which file decides it, and how to change that."""

import os
import shlex
import stat
from collections.abc import Iterator

from agent_dev.config import network_rules
from agent_dev.config.profile import BUILT_IN, GATEWAY_NETS
from agent_dev.errors import AgentDevError, UsageError
from agent_dev.linux import syscalls
from agent_dev.path_patterns import PatternIndex
from agent_dev.paths import expand, is_below, split_optional
from agent_dev.policy.command_rules import Command, Policy, decide
from agent_dev.quick_dataclass import dataclass
from agent_dev.run.prepare import git_dirs, locate_command, protected_paths
from agent_dev.run.request import PreparedRun
from agent_dev.sandbox import plan
from agent_dev.sandbox.plan import Bind, Dev, Mask, MaskedView, Overlay, SessionSpec, Tmpfs
from agent_dev.sandbox.unsafe_paths import RequestedPath, refusal_reason

VISIBLE, WRITABLE, MASKED, HIDDEN = "visible", "writable", "masked", "not visible"
REACHABLE, UNREACHABLE = "reachable", "not reachable"
MISSING = "not found"
ABSENT = "; it does not exist"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CONFIG = "config.yaml"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "fd", "core", "stdin", "stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of a path, host or command: a word, a sentence, the setting with its origin, and how to change it."""

    subject: str
    state: str
    text: str
    origin: str
    changes: tuple[str, ...] = ()


def is_made(path: str, prepared: PreparedRun, folder: str) -> bool:
    """Return whether a session, given by its folder, has a new or changed version of a path."""
    for number, root in enumerate((prepared.location.root, *prepared.overlays)):
        if is_below(path, root) and path != root:
            try:
                status = _status_below(f"{folder}/roots/{number}/upper", path[len(root) + 1 :])
            except OSError:
                continue  # not there, or unreadable
            return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == 0)  # a whiteout
    return False


def _status_below(folder: str, path: str) -> os.stat_result:
    """Return the status of an entry below a folder, without following the agent's symlinks. Raises OSError."""
    top = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = syscalls.open_below(top, os.fsencode(path), os.O_PATH | os.O_NOFOLLOW)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)
    finally:
        os.close(top)


def explain_path(path: str, prepared: PreparedRun, spec: SessionSpec, *, is_made: bool = False) -> Explanation:
    """Explain an absolute path, as seen in the sandbox of a prepared run. `is_made`: its session has a version of its own."""
    mounts = plan.build_plan(prepared.settings.profile, prepared.machine, spec).mounts
    mount = next((one for one in reversed(mounts) if is_below(path, one.target)), None)
    show = _ways_to_show(path, prepared)
    changes: tuple[str, ...] = ()
    if mount is None or (isinstance(mount, Tmpfs) and mount.target != path):
        state, text, changes = *_describe_unshown(path, mount, mounts), show
    elif isinstance(mount, Bind) and mount.source == prepared.agent_home:
        state, text, changes = *_describe_in_home(path, mount), show
    elif os.path.lexists(path) and not _exists(path, mount, prepared):
        state, text = HIDDEN, f"{mount.target} inside does not contain it"  # and nothing can be mounted in it
    elif _is_masked(path, mount, prepared, spec.empty_directory):
        state, text = MASKED, "it is or could be a credential; an empty file or directory is in its place"
    elif isinstance(mount, MaskedView) or (isinstance(mount, Bind) and not mount.writable):
        state, text, changes = VISIBLE, "read-only", _ways_to_write(path, prepared)
    else:
        state, text = _describe_own(path, mount, prepared)
    if is_made:
        text += "; this session has a version of its own"
    elif state in (VISIBLE, WRITABLE) and not _exists(path, mount, prepared):
        text += ABSENT
    return Explanation(path, state, text, _origin(path, state, prepared), changes)


def _describe_unshown(path: str, mount: plan.Mount | None, mounts: tuple[plan.Mount, ...]) -> tuple[str, str]:
    """Describe a path that no setting shows; the directories above a shown path exist, too."""
    if any(is_below(one.target, path) for one in mounts):
        return VISIBLE if mount is None else WRITABLE, "a directory with nothing but what is shown below it"
    return HIDDEN, f"nothing shows it to the agent{'' if os.path.lexists(path) else ABSENT}"


def _describe_in_home(path: str, mount: Bind) -> tuple[str, str]:
    """Describe a path below the user's home, where the agent has its own home."""
    other = mount.source + path[len(mount.target) :]
    if os.path.lexists(other):
        return WRITABLE, f"the agent's own, {other}" + ("; yours is not visible" if os.path.lexists(path) else "")
    return HIDDEN, f"the agent has its own home, {mount.source}, which does not contain it"


def _ways_to_show(path: str, prepared: PreparedRun) -> tuple[str, ...]:
    """Return how to show a path read-only; none if that would be refused."""
    wanted = RequestedPath("--ro", os.path.realpath(path))
    if not os.path.exists(path) or refusal_reason((wanted,), protected_paths(prepared)):
        return ()
    return (f"agent-dev --ro {path} AGENT", f"ro: [{path}] in {_CONFIG}")


def _ways_to_write(path: str, prepared: PreparedRun) -> tuple[str, ...]:
    """Return how to make a read-only path writable; the system never is."""
    if any(is_below(path, folder) for folder in prepared.machine.system):
        return ()
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    reviewed = f"agent-dev --overlay {folder} AGENT (reviewed)"
    tool = next((one for one in prepared.tools if is_below(path, one)), "")
    if not tool:
        return (reviewed, f"agent-dev --rw {folder} AGENT (without review)")
    below = (tool if os.path.isdir(tool) else os.path.dirname(tool))[len(prepared.machine.home) :]
    own = shlex.quote(prepared.agent_home + below)
    return (
        "programs for agents: install them inside, into ~/.local/agent/bin, which is in PATH",
        f"mkdir -p {own} && touch {own}/.keep (the agent then sees this directory instead of yours)",
        reviewed,
    )


def _describe_own(path: str, mount: plan.Mount, prepared: PreparedRun) -> tuple[str, str]:
    """Describe what is writable, or made by agent-dev."""
    if _is_in_git_dir(path, prepared):
        return WRITABLE, "a private copy of the git directory: commits can be imported, all else stays in the session"
    match mount:
        case Bind():
            return WRITABLE, "changes are made to your own file, without review"
        case Overlay() if mount.target in prepared.caches:
            return WRITABLE, "changes are discarded at the end of the run"
        case Overlay():
            return WRITABLE, "changes stay in the session until you apply them"
        case Tmpfs():
            return WRITABLE, "an empty directory in memory"
        case _:
            return VISIBLE, "made by agent-dev"


def explain_command(prepared: PreparedRun, policy: Policy) -> Explanation:
    """Explain whether the command of a prepared run exists inside, and what the policy decides about it."""
    command = prepared.command
    subject = shlex.join(command)
    try:
        inside, _ = locate_command(prepared)
    except AgentDevError as error:
        return Explanation(
            subject, MISSING, str(error), "no directory of the sandbox's PATH contains it", (error.hint,) if error.hint else ()
        )
    found = decide(policy, Command(command[0], command, prepared.cwd, prepared.machine.home))
    origin = f"rule {found.rule} ({found.origin})" if found.rule else f"no rule of the policy {policy.name} matches"
    changes = ("rules of your own: ~/.config/agent-dev/policy.yaml", f"policy: NAME in {_CONFIG}")
    return Explanation(subject, found.decision, f"{inside}{f'; {found.message}' if found.message else ''}", origin, changes)


def _is_masked(path: str, mount: plan.Mount, prepared: PreparedRun, empty_directory: str) -> bool:
    if isinstance(mount, Mask) or (isinstance(mount, Bind) and mount.source == empty_directory):
        return True
    if not isinstance(mount, MaskedView):
        return False
    names = (entry.name for folder, entries in prepared.masked_views if folder == mount.target for entry in entries)
    below = path[len(mount.target) + 1 :]
    return any(below == name.rstrip("/") or (name.endswith("/") and below.startswith(name)) for name in names)


def _is_in_git_dir(path: str, prepared: PreparedRun) -> bool:
    return any(is_below(path, folder) for folder in git_dirs(prepared))


def _exists(path: str, mount: plan.Mount | None, prepared: PreparedRun) -> bool:
    """Return whether a path exists where it comes from: on the host, or in the sandbox's own /dev."""
    if _is_in_git_dir(path, prepared):
        return os.path.lexists(path)  # what the session gets is a copy
    match mount:
        case Bind(target, source):
            return os.path.lexists(source + path[len(target) :])
        case MaskedView() | Overlay():
            return os.path.lexists(path)
        case Dev(target, devices):
            shown = (*(f"{target}/{name}" for name in _DEVICES), *devices)
            return any(is_below(one, path) or is_below(path, one) for one in shown)
        case _:
            return True


def _origin(path: str, state: str, prepared: PreparedRun) -> str:
    """Return the setting that decides about a path, with its file and line."""
    profile, origins = prepared.settings.profile, prepared.settings.origins
    if state == MASKED:
        patterns = (pattern for pattern in profile.mask if _matches(pattern, path, prepared))
        return next((f"mask: {pattern} ({origins.get(f'mask:{pattern}', BUILT_IN)})" for pattern in patterns), _built_in("masks"))
    found = [(real, row) for real, row in _settings(prepared) if is_below(path, real)]
    if found and state != HIDDEN:
        return max(found, key=lambda one: len(one[0]))[1]
    reason = next((f"not shown: {why}" for folder, why in prepared.hidden if is_below(path, folder)), "")
    return reason or _built_in("what every agent sees" if state != HIDDEN else "only what a setting names is shown")


def _built_in(text: str) -> str:
    return f"{BUILT_IN}: {text}"


def _settings(prepared: PreparedRun) -> Iterator[tuple[str, str]]:
    """Yield each directory that a setting shows, and the setting with its origin."""
    profile, origins, home = prepared.settings.profile, prepared.settings.origins, prepared.machine.home
    yield prepared.location.root, "the directory of the run"
    yield home, f"home: {profile.home} ({origins.get('home', BUILT_IN)})"
    for field in ("tools", "caches", "ro", "rw", "overlay"):
        for item in profile.as_dict()[field]:
            real = os.path.realpath(expand(split_optional(item)[0], home))
            yield real, f"{field}: {item} ({origins.get(f'{field}:{item}', BUILT_IN)})"


def _matches(pattern: str, path: str, prepared: PreparedRun) -> bool:
    index = PatternIndex(((pattern, 0),))
    roots = (root for root in (prepared.location.root, *prepared.overlays) if is_below(path, root) and path != root)
    return any(index.matching_path(os.fsencode(path[len(root) + 1 :])) for root in roots)


def explain_host(host: str, prepared: PreparedRun, folder: str = "") -> Explanation:
    """Explain a host, with or without a port. `folder`: of the session, if it is about one."""
    net = prepared.settings.profile.net
    origin = f"net: {net} ({prepared.settings.origins.get('net', BUILT_IN)})"
    name = host.rpartition(":")[0].strip("[]") if "]:" in host or host.count(":") == 1 else host.strip("[]")
    if port := host.removeprefix(f"[{name}]").removeprefix(name).removeprefix(":"):
        _check_port(host, port)
    if net != "host" and name in _LOOPBACK and prepared.settings.profile.publish:
        from agent_dev.run.network import why_host  # only with published ports

        published = why_host.explain_published(host, prepared.settings)
        if published:
            return Explanation(host, *published)
    if net == "none":
        text = "the agent has a loopback interface of its own" if name in _LOOPBACK else "the agent has no network"
        return Explanation(host, UNREACHABLE, text, origin, ("agent-dev --net host AGENT", f"net: host in {_CONFIG}"))
    if net in GATEWAY_NETS:
        from agent_dev.run.network import why_host  # only with such a network

        return Explanation(host, *why_host.explain_by_rules(host, name, prepared, folder))
    text = "the agent uses the host's network" + (", with the servers on its loopback" if name in _LOOPBACK else "")
    return Explanation(host, REACHABLE, text, origin, ("agent-dev --net none AGENT", f"net: none in {_CONFIG}"))


def _check_port(host: str, port: str) -> None:
    try:
        network_rules.parse_port(host, port)
    except ValueError as error:
        raise UsageError(message=f"why: {error}") from None
