"""Find what an agent missed during a run: paths and programs that exist only on the host, and commands that were denied."""

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from marshal import loads

from agent_dev.config.learned_profile import Learned
from agent_dev.paths import RUN, is_below
from agent_dev.run import show, why
from agent_dev.run.request import HOSTS_SUFFIX, PreparedRun
from agent_dev.sandbox import plan
from agent_dev.sandbox.credentials import CREDENTIAL_PATHS

_OWN = ("/proc", "/dev", "/sys", "/tmp", "/var/tmp", RUN)  # every sandbox has its own


def read_findings(path: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the paths and the denied commands that the supervisor recorded; none if the agent never started."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return (), ()
    paths, commands = loads(data)  # noqa: S302  (our supervisor wrote it, outside the sandbox)
    return paths, commands


def find_missing(prepared: PreparedRun, environ: dict[str, str], findings: str) -> Learned:
    """Return what a run looked for and did not find."""
    looked_for, denied = read_findings(findings)
    paths = tuple(dict.fromkeys(os.path.normpath(path) for path in looked_for if "\0" not in path))
    missing = tuple(_missing_paths(paths, prepared, environ))
    secrets = tuple(path for path in missing if _is_secret(path, prepared.machine.home))
    return Learned(
        paths=tuple(path for path in missing if path not in secrets),
        secrets=secrets,
        programs=tuple(_missing_programs(paths, prepared, environ)),
        commands=tuple(dict.fromkeys(shlex.join(argv) for argv in denied)),
        hosts=_read_hosts(findings + HOSTS_SUFFIX),
    )


def _read_hosts(path: str) -> tuple[str, ...] | None:
    """Return the rules for the hosts that a run with `net: learn` reached; None for another network."""
    try:
        with open(path, encoding="utf-8") as file:
            return tuple(file.read().splitlines())
    except FileNotFoundError:
        return None


def _missing_paths(paths: Iterable[str], prepared: PreparedRun, environ: dict[str, str]) -> Iterator[str]:
    """Yield the paths that exist on the host but not inside."""
    spec = show.preview_spec(prepared, environ)
    home, root, system = prepared.machine.home, prepared.location.root, prepared.machine.system
    for path in paths:
        is_shown = any(is_below(path, folder) for folder in (*system, root)) or any(is_below(one, path) for one in (home, root))
        is_own = any(is_below(path, folder) for folder in _OWN) and not is_below(path, home)
        if is_shown or is_own or is_below(path, prepared.agent_home) or not os.path.lexists(path):
            continue
        if why.explain_path(path, prepared, spec).state == why.HIDDEN:
            yield path


def _is_secret(path: str, home: str) -> bool:
    return any(is_below(path, f"{home}/{one}".rstrip("/")) for one in CREDENTIAL_PATHS)


def _missing_programs(paths: Iterable[str], prepared: PreparedRun, environ: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and path of each program that the agent looked for in every directory of PATH, and that only the host has."""
    spec = show.preview_spec(prepared, environ)
    folders = plan.inside_path(prepared.settings.profile, prepared.machine.home)
    names = dict.fromkeys(name for folder, _, name in (path.rpartition("/") for path in paths) if folder in folders)
    for name in names:
        found = shutil.which(name, path=environ.get("PATH", ""))
        is_inside = any(_is_seen(f"{os.path.realpath(folder)}/{name}", prepared, spec) for folder in folders)
        if found and not is_inside and why.explain_path(os.path.abspath(found), prepared, spec).state == why.HIDDEN:
            yield name, os.path.abspath(found)


def _is_seen(path: str, prepared: PreparedRun, spec: plan.SessionSpec) -> bool:
    found = why.explain_path(path, prepared, spec)
    return found.state in (why.VISIBLE, why.WRITABLE) and not found.text.endswith(why.ABSENT)
