"""What the agent committed in its private git dir, read without ever running git in anything it could write (DESIGN 7).

Refs are parsed here; objects are hard-linked, regular files only, into a skeleton of our own, and git reads that one.
"""

import os
import shutil
import subprocess
import tempfile

from agent_dev.core.commits import Commit, parse_log
from agent_dev.core.refs import parse_ref
from agent_dev.errors import CommandFailed
from agent_dev.host import debug, machine, refs, repo, store

_SECONDS = 20
_MANY_COMMITS = 1000
_LARGEST_OBJECT = 1 << 30


def made(session: store.Session, record: store.Record, environ: dict[str, str]) -> tuple[Commit, ...]:
    """Return the commits that the agent made, newest first. Raises CommandFailed when git cannot read them."""
    folder = refs.private_dir(session, record)
    if folder is None:
        return ()
    before, after = refs.remembered(session), refs.now(session, record)
    new = sorted({value for name, value in after.items() if before.get(name) != value and parse_ref(value.encode())})
    if not new:
        return ()
    stores = record.get("stores")
    program = machine.program("git", environ, store.untrusted(record))
    if program is None:
        raise CommandFailed(program="git", reason="it is not installed")
    skeleton = tempfile.mkdtemp(prefix="skeleton-", dir=session.folder)
    try:
        _build(skeleton, folder, tuple(str(outside) for outside, _ in stores))
        old = sorted({value for value in before.values() if parse_ref(value.encode())})
        return _log(program, skeleton, new, old, environ)
    finally:
        shutil.rmtree(skeleton, ignore_errors=True)


def _build(skeleton: str, folder: str, stores: tuple[str, ...]) -> None:
    """Make a bare repository of ours whose objects are the agent's new ones and the user's from the farm."""
    for name in ("objects/info", "objects/pack", "refs"):
        os.makedirs(f"{skeleton}/{name}")
    _write(f"{skeleton}/HEAD", b"ref: refs/heads/none\n")
    bits = 64 if os.path.isfile(f"{folder}/config") and b"sha256" in refs.regular(f"{folder}/config", 1 << 20).lower() else 40
    extension = (
        b"\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
        if bits == 64
        else b"\trepositoryformatversion = 0\n"
    )
    _write(f"{skeleton}/config", b"[core]\n\tbare = true\n" + extension)
    for entry in _listed(f"{folder}/objects") if refs.is_real(folder, "objects") else []:
        if entry.is_dir(follow_symlinks=False) and (entry.name == "pack" or len(entry.name) == 2):
            _link_regular(entry.path, f"{skeleton}/objects/{entry.name}")
    _write(f"{skeleton}/objects/info/alternates", os.fsencode("".join(f"{path}\n" for path in stores)))


def _listed(folder: str) -> list["os.DirEntry[str]"]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _link_regular(source: str, place: str) -> None:
    os.makedirs(place, exist_ok=True)
    for entry in _listed(source):
        if entry.is_file(follow_symlinks=False):
            try:
                os.link(entry.path, f"{place}/{entry.name}", follow_symlinks=False)
            except OSError:  # an object of too many links, or of another file system
                _write(f"{place}/{entry.name}", refs.regular(entry.path, _LARGEST_OBJECT))


def _write(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


def _log(program: str, skeleton: str, new: list[str], old: list[str], environ: dict[str, str]) -> tuple[Commit, ...]:
    argv = (
        "git",
        "--git-dir",
        skeleton,
        *repo.SAFE,
        "log",
        f"-{_MANY_COMMITS}",
        "-z",
        "--format=%H%n%s",
        "--ignore-missing",
        "--stdin",
    )
    question = "".join(f"{oid}\n" for oid in new) + "".join(f"^{oid}\n" for oid in old)
    env = repo.environment(environ) | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    debug.show(argv)
    try:
        done = subprocess.run(
            argv,
            executable=program,
            input=question.encode(),
            env=env,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(
            program="git log", reason=f"no answer in {_SECONDS} s; the session's objects are not as git makes them"
        ) from None
    if done.returncode:
        raise CommandFailed(
            program="git log",
            reason=(done.stderr.decode("utf-8", "replace").strip() or "no reason given").splitlines()[-1],
        )
    return parse_log(done.stdout)
