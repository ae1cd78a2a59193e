"""Where tasks run: ssh hosts or an engine of `config.yaml`; the scripts and arguments with which GNU parallel reaches them."""

import re
import shlex
from typing import assert_never

from agent_dev.errors import UsageError
from agent_dev.quick_dataclass import dataclass

MAX_SHARED = 10  # tasks at a time on one connection, as many as sshd permits by default
ENGINE_JOBS = 16  # jobs at a time without --jobs; the engine's own queue limits them further
_HOST = re.compile(r"(?:[A-Za-z0-9_.][A-Za-z0-9_.-]*@)?[A-Za-z0-9_.][A-Za-z0-9_.-]*", re.ASCII).fullmatch
_SSH = (
    *("-a", "-x", "-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
_SHARED_PATH = "ControlPath=./%C"  # in the attempt's directory; without a connection there, ssh makes one


@dataclass(frozen=True, slots=True)
class SshHosts:
    """Hosts that are reached by ssh, in the order given."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine of `config.yaml`: a command that runs another one on a machine that it selects, such as `srun`."""

    name: str
    words: tuple[str, ...]


Places = SshHosts | Engine


def parse_places(text: str, engines: tuple[tuple[str, str], ...]) -> Places:
    """Return the places that `--on` names. Raises UsageError."""
    known = dict(engines)
    if text in known:
        return Engine(text, tuple(shlex.split(known[text])))
    names = tuple(text.split(","))
    mixed = [name for name in names if name in known]
    if mixed:
        raise UsageError(message=f"--on {text}: engine {mixed[0]} cannot be combined with others", hint=f"--on {mixed[0]}")
    wrong = [name for name in names if not _HOST(name)]
    if wrong or len(set(names)) < len(names):
        what = f"{wrong[0]!r} is not a host" if wrong else "a host is named twice"
        raise UsageError(message=f"--on {text}: {what}", hint="--on build1,build2, or an engine of config.yaml")
    return SshHosts(names)


def place_names(places: Places) -> tuple[str, ...]:
    """Return the names of the hosts, or the engine's name."""
    match places:
        case SshHosts():
            return places.names
        case Engine():
            return (places.name,)
        case _:
            assert_never(places)


def remote_argv(place: Places, name: str, worker: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the local command that runs agent-dev with arguments on a host or engine."""
    words = (*shlex.split(worker), *arguments)
    match place:
        case SshHosts():
            return ("ssh", *_SSH, "--", name, shlex.join(words))
        case Engine():
            return (*place.words, *words)
        case _:
            assert_never(place)


def connection_argv(name: str) -> tuple[str, ...]:
    """Return the command that opens a connection to a host, which all of its tasks use; it ends five minutes after the last one.

    A handshake for each task takes half as much processor time as an empty task.
    """
    return ("ssh", *_SSH, "-o", "ControlMaster=yes", "-o", "ControlPersist=300", "-o", _SHARED_PATH, "--", name, "true")


def job_script(places: Places, worker: str, limit: int) -> str:
    """Return a script, run in the attempt's directory: it notes the start of a job.

    For hosts it is the ssh program of GNU parallel. What a task writes ends after `limit` bytes, by a pipe, since RLIMIT_FSIZE
    would end the connection, which others use. For an engine the script sends the repository to a machine that lacks it
    (status 75), and fails if there is no whole bundle.
    """
    note = '#!/bin/sh\nprintf "%s %s\\n" "$PARALLEL_SEQ" "$PARALLEL_SSHLOGIN" >>starts\n'
    match places:
        case SshHosts():
            ssh = shlex.join(("ssh", *_SSH, "-o", "ControlMaster=no", "-o", _SHARED_PATH))
            return (
                f'{note}code="out/$PARALLEL_SEQ.code"\n'
                f'{{ {{ {ssh} "$@" 3>&-; echo $? >"$code"; }} 2>&1 >&3 |\n'
                # What follows is read, too: a pipe that nobody reads would block the task.
                f"{{ head -c {limit} >&2; cat >/dev/null; }} 3>&-; }} 3>&1 | head -c {limit}\n"
                'exit "$(cat "$code")"\n'
            )
        case Engine():
            command = shlex.join((*places.words, *shlex.split(worker), "work"))
            return (
                f"{note}read -r ticket\n"
                f"printf '%s\\n' \"$ticket\" | {command}\n"
                "code=$?\n"
                "if [ $code -eq 75 ]; then\n"
                f"{{ printf '%s\\n' \"$ticket\"; cat ../pack; }} | {command}\n"
                "code=$?\nfi\n[ $code -eq 0 ] || exit $code\n"
                # srun exits with 0 if a node failed: a bundle ends with 1024 zero bytes
                'file="out/$PARALLEL_SEQ"\n'
                '[ -s "$file" ] && [ -z "$(tail -c 1024 "$file" | tr -d "\\0")" ] || exit 74\n'
            )
        case _:
            assert_never(places)


def parallel_argv(places: Places, jobs: dict[str, int], retries: int, worker: str) -> tuple[str, ...]:
    """Return the arguments of GNU parallel, which reads a ticket per line from stdin. `jobs`: at a time, by place."""
    shared: tuple[str, ...] = ("--plain", "--will-cite", "--pipe", "-N1", "--files", "--joblog", "joblog", "--results", "out/{#}")
    shared = (*shared, "--retries", str(retries + 1))
    match places:
        case SshHosts():
            logins = ",".join(f"{jobs[name]}/{name}" for name in places.names if name in jobs)
            return (*shared, "--sshdelay", "0.05", "--ssh", "./job", "-S", logins, shlex.join((*shlex.split(worker), "work")))
        case Engine():
            return (*shared, "-j", str(jobs[places.name]), "./job")
        case _:
            assert_never(places)


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job in the log of GNU parallel: its number in the attempt, its host, its exit code."""

    number: int
    host: str
    code: int


def parse_job_end(line: str) -> JobEnd | None:
    """Return the end of a job, or None for the header of the log and for other lines."""
    fields = line.split("\t", 8)
    if len(fields) < 9 or not fields[0].isdigit():
        return None
    is_failed = fields[6] != "0" or fields[7] != "0"
    code = int(fields[6]) if fields[6].isdigit() else 0
    return JobEnd(int(fields[0]), fields[1], code or int(is_failed))


def parse_start(line: str) -> tuple[int, str] | None:
    """Return the number of a job that started and its host ("": an engine's), or None."""
    number, _, host = line.partition(" ")
    return (int(number), "" if host == ":" else host.rpartition("/")[2]) if number.isdigit() else None
