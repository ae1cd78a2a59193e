"""Check this machine by trying each feature, with a remedy for each failure."""

import os
import subprocess
import sys
import tempfile
from enum import StrEnum

from agent_dev.config import load, trust_store
from agent_dev.config.options import RunOptions, options_layer
from agent_dev.control import socket_file
from agent_dev.errors import NOT_EXECUTABLE, NOT_FOUND, NOT_STARTED, AgentDevError, CommandNotFound
from agent_dev.linux import programs, syscalls
from agent_dev.network import libraries, namespace
from agent_dev.overlay.labels import format_count, format_size
from agent_dev.paths import expand, split_optional
from agent_dev.quick_dataclass import dataclass
from agent_dev.risk import load as risk_load
from agent_dev.run.prepare import locate_command, prepare_run
from agent_dev.run.request import RunRequest
from agent_dev.sandbox import failure_hints, landlock_probe, machine, probe
from agent_dev.sandbox.containers import outer_flags, requirements
from agent_dev.sandbox.plan import agent_home_path, agent_homes_folder
from agent_dev.session import approvals, disk_use, sessions, store
from agent_dev.session.sessions import CommandContext
from agent_dev.ssh_agent import openssh

_TIMEOUT = 60  # s
_HINT = "agent-dev: hint: "


class FindingState(StrEnum):
    """The state of a finding. LACKING: missing or impossible here, but optional."""

    OK = "well"
    UNAVAILABLE = "lacking"
    FAILED = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its subject, result, state and remedy."""

    subject: str
    result: str
    state: FindingState = FindingState.OK
    remedy: str = ""

    @property
    def has_failed(self) -> bool:
        """True if it prevents agents from running here, or from running properly."""
        return self.state is FindingState.FAILED


def _wrong_if(problem: object) -> FindingState:
    return FindingState.FAILED if problem else FindingState.OK


def run_checks(where: CommandContext, options: RunOptions) -> tuple[Finding, ...]:
    """Check everything a run needs. Creates nothing permanent."""
    request = load.SettingsRequest(
        agent="", home=_home(where), environ=where.environ, config=options.config, flags=options_layer(options)
    )
    profile = load.load_settings(request).profile
    home = agent_home_path(profile, _home(where), where.root)
    writable = (*profile.overlay, *profile.rw, *(split_optional(path)[0] for path in profile.rw))
    agent_paths = (expand(path, _home(where)) for path in (agent_homes_folder(profile, _home(where)), *writable))
    untrusted = (where.root, home, *agent_paths)
    findings = [
        _kernel(),
        *_outer_container(),
        *_namespaces(),
        _landlock(),
        _limits(where, untrusted),
        _network(),
        _containers(profile.net),
        _control_socket(),
        _openssh(where, untrusted),
        _git(where, untrusted),
        *_bwrap(where, untrusted),
        _state(where),
        _disk_use(where),
        *waiting_questions(where),
    ]
    findings += [_agent_home(home), _rules(where), *_repository(where), *_cloud(profile.net), _terminal(where)]
    names = [name for name, _, _ in load.list_profiles(_home(where), where.environ) if name != "default"]
    return (*findings, *_profiles({name: _profile(name, where, options) for name in names}))


def _profiles(found: dict[str, Finding]) -> list[Finding]:
    """Return one finding per profile, and a single one for all profiles that lack the same requirement."""
    findings = [finding for finding in found.values() if finding.state is not FindingState.UNAVAILABLE]
    lacking: dict[tuple[str, str], list[str]] = {}
    for name, finding in found.items():
        if finding.state is FindingState.UNAVAILABLE:
            lacking.setdefault((finding.result, finding.remedy.replace(name, "NAME")), []).append(name)
    for (result, remedy), names in lacking.items():
        if len(names) == 1:
            findings.append(found[names[0]])
        else:
            findings.append(Finding(f"profiles {', '.join(names)}", result, FindingState.UNAVAILABLE, remedy))
    return findings


def _home(where: CommandContext) -> str:
    return os.path.realpath(where.environ.get("HOME", "/"))


def _kernel() -> Finding:
    release = os.uname().release
    numbers = [int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit()]
    return Finding(
        "kernel", release, _wrong_if(numbers < [5, 12]), remedy="Linux 5.12 or newer is required" if numbers < [5, 12] else ""
    )


def _outer_container() -> list[Finding]:
    """In a container, name the flags with which it must be started."""
    if not failure_hints.is_container():
        return []
    flags = outer_flags.missing_flags()
    if not flags:
        return [Finding("this container", "permits sandboxes (tested)")]
    return [Finding("this container", "does not permit sandboxes", FindingState.FAILED, f"start it with {' '.join(flags)}")]


def _namespaces() -> list[Finding]:
    reason = probe.namespaces_error()
    findings = [
        Finding(
            "user namespaces",
            reason or "work (tested)",
            _wrong_if(reason),
            remedy=failure_hints.userns_hint() if reason else "",
        )
    ]
    if os.path.exists(failure_hints.APPARMOR_SYSCTL):
        with open(failure_hints.APPARMOR_SYSCTL, encoding="ascii") as file:
            is_on = file.read().strip() == "1"
        findings.append(
            Finding(
                "AppArmor",
                "restricts user namespaces" if is_on else "does not restrict user namespaces",
                FindingState.UNAVAILABLE if is_on else FindingState.OK,
                remedy=failure_hints.APPARMOR_REMEDY if is_on else "",
            )
        )
    return findings


def _landlock() -> Finding:
    """Check Landlock; it is optional."""
    version, missing = syscalls.landlock_abi(), landlock_probe.missing_requirement()
    rules = f"no file rules for `nested: false`: {missing}" if missing else "file rules for `nested: false`"
    if syscalls.has_landlock_scopes():
        return Finding("Landlock", f"version {version}: blocks signals to the host and its abstract sockets; {rules}")
    remedy = "agents with the host's network reach its abstract sockets: use --net none, or Linux 6.12 with Landlock"
    return Finding(
        "Landlock",
        f"version {version} without scopes; {rules}" if version else f"not available; {rules}",
        FindingState.UNAVAILABLE,
        remedy,
    )


def _limits(where: CommandContext, untrusted: tuple[str, ...]) -> Finding:
    """Check whether a memory limit can hold for a whole sandbox; it is optional."""
    busctl = programs.find_program("busctl", where.environ, untrusted) or ""
    if probe.has_limit_groups(busctl, where.environ):
        return Finding("limits", "apply to the whole sandbox (tested)")
    remedy = "a systemd user session, or a delegated control group, lets it apply to the whole sandbox"
    return Finding(
        "limits", "a memory limit applies per process: no control group can be created", FindingState.UNAVAILABLE, remedy
    )


def _network() -> Finding:
    """Check what a network of the sandbox's own needs; it is optional."""
    reason = probe.error_in_child(libraries.try_all)
    if reason:
        return Finding("net: allow, ask", reason, FindingState.UNAVAILABLE, "install agent-dev again, with its libraries")
    reason = probe.error_in_child(namespace.try_support)
    if not reason:
        return Finding("net: allow, ask", "works (tested)")
    remedy = "the kernel needs nf_tables with NAT and reject: sudo modprobe -a nft_chain_nat nft_nat nft_reject_inet"
    return Finding("net: allow, ask", reason, FindingState.UNAVAILABLE, remedy)


def _containers(net: str) -> Finding:
    """Check what containers in the sandbox need; they are optional."""
    missing = requirements.missing_programs()
    if missing:
        return Finding("containers", f"{' and '.join(missing)} not installed", FindingState.UNAVAILABLE, requirements.REMEDY)
    problem = requirements.network_problem(net)
    if problem:
        return Finding("containers", f"work, without published ports: {problem}", FindingState.UNAVAILABLE)
    return Finding("containers", "possible with --containers: podman, crun and " + requirements.network_helper())


def _openssh(where: CommandContext, untrusted: tuple[str, ...]) -> Finding:
    """Check whether ssh tells its agent the host, as `ssh:` needs; it is optional."""
    program = programs.find_program("ssh", where.environ, untrusted)
    version = openssh.parse_version(openssh.read_version(program, where.environ)) if program else None
    if version is None:
        return Finding("OpenSSH", "not installed: `ssh:` cannot be used", FindingState.UNAVAILABLE)
    text = ".".join(map(str, version))
    if openssh.binds_sessions(version):
        return Finding("OpenSSH", f"{text}, works with `ssh:`")
    return Finding("OpenSSH", f"{text}: logins through `ssh:` need 8.9 or newer", FindingState.UNAVAILABLE)


def _git(where: CommandContext, untrusted: tuple[str, ...]) -> Finding:
    """Check git, which reads and imports an agent's commits."""
    program = programs.find_program("git", where.environ, untrusted)
    if program is None:
        return Finding("git", "not installed", FindingState.FAILED, machine.install_hint("git"))
    return Finding("git", program)


def _control_socket() -> Finding:
    """Check whether an agent can run transactions in its session."""
    if socket_file.is_available():
        return Finding("tx inside", "available")
    return Finding("tx inside", "not available: requires a Python below /usr", FindingState.UNAVAILABLE)


def _bwrap(where: CommandContext, untrusted: tuple[str, ...]) -> list[Finding]:
    try:
        program = machine.find_bwrap(where.environ, tuple(map(os.path.realpath, untrusted)))
        version = machine.bwrap_version(program, where.environ)
    except AgentDevError as error:
        return [Finding("bubblewrap", error.message, FindingState.FAILED, remedy=error.hint)]
    from agent_dev.sandbox.bwrap import BY_BWRAP, default_overlay_mode

    mounter = "bubblewrap" if default_overlay_mode(version) == BY_BWRAP else "the launcher"
    return [Finding("bubblewrap", f"{program} {'.'.join(map(str, version))}"), Finding("overlay", f"mounted by {mounter}")]


def _state(where: CommandContext) -> Finding:
    folder_above = where.store.path
    while not os.path.isdir(folder_above):
        folder_above = os.path.dirname(folder_above)
    try:
        with tempfile.TemporaryDirectory(prefix=".agent-dev-doctor-", dir=folder_above) as folder:
            reason = probe.overlay_error(folder)
    except OSError as error:
        reason = f"not writable: {error.strerror}"
    remedy = "set `state:` in config.yaml to a directory on ext4, xfs or btrfs" if reason else ""
    return Finding(
        "state directory",
        f"{where.store.path}: {reason or 'supports overlays (tested)'}",
        _wrong_if(reason),
        remedy=remedy,
    )


def _disk_use(where: CommandContext) -> Finding:
    kinds = disk_use.measure_state(where.store, where.environ)
    rows = [f"{kind} {format_size(size)} ({count:,})" for kind, count, size in kinds if count]
    return Finding("disk use", ", ".join(rows) or "none")


def waiting_questions(where: CommandContext) -> list[Finding]:
    """Report each running session, of any repository, in which a command or connection waits for the user's answer."""
    findings = []
    for one in sessions.list_sessions(where.store):
        commands, connections = approvals.count_by_kind(one.session.folder) if one.state == store.RUNNING else (0, 0)
        kinds = ((commands, "command"), (connections, "connection"))
        counts = " and ".join(format_count(count, kind) for count, kind in kinds if count)
        if counts:
            result = f"{counts} {'waits' if commands + connections == 1 else 'wait'} for your answer in session {one.name}"
            findings.append(Finding("approvals", result, FindingState.UNAVAILABLE, f"agent-dev approve --in {one.name}"))
    return findings


def _agent_home(path: str) -> Finding:
    if os.path.isdir(path):
        return Finding("agent home", path)
    if os.path.exists(path):
        return Finding("agent home", f"{path} is not a directory", FindingState.FAILED, "move it away, or use --home DIR")
    return Finding("agent home", f"{path} will be created on first use")


def _rules(where: CommandContext) -> Finding:
    try:
        rules = risk_load.load_risk_rules(where.environ)
    except AgentDevError as error:
        return Finding("risk rules", error.message.splitlines()[0], FindingState.FAILED, remedy="fix that file")
    if problems := risk_load.tx_allow_problems(where.profile.tx_allow, where.origins, where.environ):
        return Finding("risk rules", problems[0], FindingState.FAILED, remedy="fix that file")
    return Finding("risk rules", f"{len(rules)} loaded")


def _repository(where: CommandContext) -> list[Finding]:
    """Check whether the repository's own settings are trusted."""
    if not trust_store.has_settings(where.root):
        return []
    reason = trust_store.load_layer(where.store.path, where.root)[1]
    return [
        Finding(
            "settings of this repository", reason or "trusted, unchanged", FindingState.UNAVAILABLE if reason else FindingState.OK
        )
    ]


def _cloud(net: str) -> list[Finding]:
    """On a cloud machine, report that agents with the host's network reach its metadata service."""
    cloud = machine.cloud_provider()
    if not cloud:
        return []
    if net != "host":
        return [Finding("cloud metadata", f"unreachable with net: {net}")]
    remedy = "use --net none, or remove the machine's role and user data"
    return [Finding("cloud metadata", machine.METADATA_WARNING.format(cloud), FindingState.UNAVAILABLE, remedy)]


def _terminal(where: CommandContext) -> Finding:
    term = where.environ.get("TERM", "")
    if not os.isatty(0):
        return Finding("terminal", "none: the review screen needs one; --all and --take do not", FindingState.UNAVAILABLE)
    return Finding(
        "terminal",
        term or "TERM is not set",
        _wrong_if(term in ("", "dumb")),
        remedy="set TERM" if term in ("", "dumb") else "",
    )


def _profile(name: str, where: CommandContext, options: RunOptions) -> Finding:
    what = f"profile {name}"
    try:
        prepared = prepare_run(RunRequest((name,), options.replace(directory=where.cwd), where.environ))
    except CommandNotFound as error:
        return Finding(what, "command not found", FindingState.UNAVAILABLE, error.hint)
    except AgentDevError as error:
        return Finding(what, error.message, FindingState.UNAVAILABLE, error.hint)
    program = prepared.command[0]
    code, output, hint = _try_inside(program, prepared.machine.bwrap, where.environ)
    path = locate_command(prepared)[1]
    if code in (NOT_STARTED, NOT_EXECUTABLE, NOT_FOUND):
        return Finding(what, f"{path} fails in the sandbox: {output}", FindingState.FAILED, hint)
    return Finding(what, f"{path} runs in the sandbox" + (f": {output}" if code == 0 else ""))


def _try_inside(program: str, bwrap: str, environ: dict[str, str]) -> tuple[int, str, str]:
    """Run `PROGRAM --version` in a sandbox around an empty directory; return exit code, first line of output and our hint."""
    # Its root is not the repository, so it would trust programs from there, which we do not; and in the repository an
    # agent_dev.py would be imported instead of ours.
    env = {**environ, "AGENT_DEV_BWRAP": bwrap, "PATH": os.defpath}
    with tempfile.TemporaryDirectory(prefix="agent-dev-doctor-") as empty:
        command = [sys.executable, "-P", "-m", "agent_dev", "-C", empty, "--no-merge", "--", program, "--version"]
        process = subprocess.run(
            command, env=env, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=_TIMEOUT, cwd=empty
        )
    lines = (process.stdout or process.stderr).decode("utf-8", "replace").strip().splitlines()
    hint = next((line.removeprefix(_HINT) for line in lines if line.startswith(_HINT)), "")
    return process.returncode, lines[0] if lines else "", hint
