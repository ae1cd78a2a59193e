"""What this machine can do: found by trying, each with what to do about it."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from enum import StrEnum

from agent_dev.config import load
from agent_dev.config import trust_store as trust
from agent_dev.errors import NOT_EXECUTABLE, NOT_FOUND, NOT_STARTED, AgentDevError, CommandNotFound
from agent_dev.inside.control import socket_file as door
from agent_dev.linux import syscalls as kernel
from agent_dev.run.prepare import Options, Request, flags, locate, prepare
from agent_dev.sandbox import failure_hints as explain
from agent_dev.sandbox import landlock_probe as wall
from agent_dev.sandbox import machine, probe
from agent_dev.sandbox.plan import expand, home_place, homes_folder
from agent_dev.session.sessions import Here

_PATIENCE = 60  # s


class State(StrEnum):
    """How something is. `LACKING`: it is not there, or cannot be here, and needs not be."""

    WELL = "well"
    LACKING = "lacking"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what, what was found, how that is, and the cure."""

    what: str
    found: str
    state: State = State.WELL
    cure: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether no agent runs here, or not as it should, because of it."""
        return self.state is State.WRONG


def _wrong_if(is_so: object) -> State:
    return State.WRONG if is_so else State.WELL


def examine(where: Here, options: Options) -> tuple[Finding, ...]:
    """Look at everything a run needs. Creates nothing that stays."""
    request = load.Request(agent="", home=_home(where), environ=where.environ, config=options.config, flags=flags(options))
    profile = load.settings(request).profile
    home = home_place(profile, _home(where), where.root)
    written = (expand(path, _home(where)) for path in (homes_folder(profile, _home(where)), *profile.overlay, *profile.rw))
    found = [_kernel(), *_namespaces(), _landlock(), _door(), *_bwrap(where, (where.root, home, *written)), _state(where)]
    found.append(Finding("agent home", home if os.path.isdir(home) else f"{home} will be made on first use"))
    found += [_rules(where), *_repository(where), _terminal(where)]
    names = [name for name, _, _ in load.names(_home(where), where.environ) if name != "default"]
    return (*found, *_profiles({name: _profile(name, where, options) for name in names}))


def _profiles(found: dict[str, Finding]) -> list[Finding]:
    """Return what was found of each profile, said once where it is the same of all, as where nothing can run."""
    same = {replace(one, what=f"profiles {', '.join(found)}") for one in found.values()}
    if len(found) > 1 and len(same) == 1 and all(one.state is State.LACKING for one in same):
        return [*same]
    return [*found.values()]


def _home(where: Here) -> str:
    return os.path.realpath(where.environ.get("HOME", "/"))


def _kernel() -> Finding:
    release = os.uname().release
    numbers = [int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit()]
    return Finding(
        "kernel", release, _wrong_if(numbers < [5, 12]), cure="Linux 5.12 or newer is needed" if numbers < [5, 12] else ""
    )


def _namespaces() -> list[Finding]:
    reason = probe.namespaces()
    findings = [
        Finding(
            "user namespaces",
            reason or "work, tried",
            _wrong_if(reason),
            cure=explain.userns_hint() if reason else "",
        )
    ]
    if os.path.exists(explain.APPARMOR):
        with open(explain.APPARMOR, encoding="ascii") as file:
            is_on = file.read().strip() == "1"
        findings.append(
            Finding(
                "AppArmor",
                "restricts user namespaces" if is_on else "lets user namespaces be",
                State.LACKING if is_on else State.WELL,
                cure=explain.PROFILE if is_on else "",
            )
        )
    return findings


def _landlock() -> Finding:
    """Say what Landlock does here; nothing depends on it."""
    version, missing = kernel.landlock(), wall.missing()
    behind = f"no second wall where `nested: false`: {missing}" if missing else "a second wall where `nested: false`"
    if kernel.has_scopes():
        return Finding("Landlock", f"version {version}: signals and abstract sockets of the host are out of reach; {behind}")
    cure = "with the host's network, abstract sockets of the host can be reached: --net none, or Linux 6.12 with Landlock"
    return Finding(
        "Landlock", f"version {version} cannot scope; {behind}" if version else f"is not there; {behind}", State.LACKING, cure
    )


def _door() -> Finding:
    """Say whether an agent can make transactions of its session."""
    if door.is_possible():
        return Finding("tx inside", "can be run")
    return Finding("tx inside", "there is none: it needs a Python below /usr", State.LACKING)


def _bwrap(where: Here, untrusted: tuple[str, ...]) -> list[Finding]:
    try:
        program = machine.bwrap(where.environ, tuple(map(os.path.realpath, untrusted)))
        version = machine.bwrap_version(program, where.environ)
    except AgentDevError as error:
        return [Finding("bubblewrap", error.message, State.WRONG, cure=error.hint)]
    from agent_dev.sandbox.bwrap import BY_BWRAP, default_way

    way = "bubblewrap" if default_way(version) == BY_BWRAP else "the launcher"
    return [Finding("bubblewrap", f"{program} {'.'.join(map(str, version))}"), Finding("overlay", f"mounted by {way}")]


def _state(where: Here) -> Finding:
    place = where.store.path
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    try:
        with tempfile.TemporaryDirectory(prefix=".agent-dev-doctor-", dir=place) as folder:
            reason = probe.overlay(folder)
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
    cure = "set `state:` in config.yaml to a directory on ext4, xfs or btrfs" if reason else ""
    return Finding(
        "state directory",
        f"{where.store.path}: {reason or 'carries overlays, tried'}",
        _wrong_if(reason),
        cure=cure,
    )


def _rules(where: Here) -> Finding:
    try:
        rules = load.risk_rules(where.environ)
    except AgentDevError as error:
        return Finding("risk rules", error.message.splitlines()[0], State.WRONG, cure="mend that file")
    return Finding("risk rules", f"{len(rules)} can be read")


def _repository(where: Here) -> list[Finding]:
    """Say whether the repository's own settings count."""
    if not trust.is_there(where.root):
        return []
    said = trust.layer(where.store.path, where.root)[1]
    return [
        Finding(
            "settings of this repository", said or "count, exactly as you trusted them", State.LACKING if said else State.WELL
        )
    ]


def _terminal(where: Here) -> Finding:
    term = where.environ.get("TERM", "")
    if not os.isatty(0):
        return Finding("terminal", "none: the merge screen needs one; --all and --take do not", State.LACKING)
    return Finding(
        "terminal",
        term or "TERM is not set",
        _wrong_if(term in ("", "dumb")),
        cure="set TERM" if term in ("", "dumb") else "",
    )


def _profile(name: str, where: Here, options: Options) -> Finding:
    what = f"profile {name}"
    try:
        prepared = prepare(Request((name,), options.but(directory=where.cwd), where.environ))
    except CommandNotFound as error:
        return Finding(what, "its command is not there", State.LACKING, error.hint)
    except AgentDevError as error:
        return Finding(what, error.message, State.LACKING, error.hint)
    program = prepared.command[0]
    code, said = _try_inside(program, prepared.machine.bwrap, where.environ)
    place = locate(prepared)[1]
    if code in (NOT_STARTED, NOT_EXECUTABLE, NOT_FOUND):
        return Finding(what, f"{place} does not run inside: {said}", State.WRONG)
    return Finding(what, f"{place} runs inside" + (f": {said}" if code == 0 else ""))


def _try_inside(program: str, bwrap: str, environ: dict[str, str]) -> tuple[int, str]:
    """Run `PROGRAM --version` in a sandbox around an empty directory; return the exit code and the first line it said."""
    # Its root is not the repository, so it would trust programs from there that we do not; nor may it start there, where
    # an agent_dev.py would be taken for us.
    env = {**environ, "AGENT_DEV_BWRAP": bwrap, "PATH": os.defpath}
    with tempfile.TemporaryDirectory(prefix="agent-dev-doctor-") as empty:
        words = [sys.executable, "-P", "-m", "agent_dev", "-C", empty, "--no-merge", "--", program, "--version"]
        done = subprocess.run(
            words, env=env, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=_PATIENCE, cwd=empty
        )
    said = (done.stdout or done.stderr).decode("utf-8", "replace").strip().splitlines()
    return done.returncode, said[0] if said else ""
