"""Refs that an agent moved into a reftable (`git refs migrate`), as the files that they would be (decision 0023).

The tables are copied, regular files only, into a repository of ours, and the user's git reads that one.
"""

import hashlib
import os
import tempfile

from agent_dev.commits.agent_git import commits, refs
from agent_dev.errors import CommandFailed
from agent_dev.git import bare, reftable
from agent_dev.git.bare import Bare
from agent_dev.session import store

_LARGEST = 16 << 20
_MOST = 1000  # tables; git itself keeps them few
_SECTION = b"[extensions]\n\trefStorage = reftable\n"


def files(session: store.Session, record: store.Record, folder: str, environ: dict[str, str]) -> str:
    """Return a directory of ours with HEAD, refs and the stash's log as files, made when these tables are met for the first time.

    Raises CommandFailed where git cannot read them.
    """
    listed = refs.regular(f"{folder}/{refs.TABLES}", _LARGEST)
    made = f"{session.folder}/git/told-{hashlib.sha256(listed).hexdigest()[:16]}"
    if not os.path.isdir(made):
        _write(made, _read(session, record, (folder, listed), environ))
    return made


def _read(session: store.Session, record: store.Record, tables: tuple[str, bytes], environ: dict[str, str]) -> dict[str, bytes]:
    stores = tuple(str(outside) for outside, _ in record["stores"])
    with bare.temporary(session.folder) as place:
        ours = bare.skeleton(place, commits.git_program(record, environ), tables[0], stores)
        _take_tables(ours, *tables)
        found, packed = reftable.parted(_ask(ours, "for-each-ref", "--include-root-refs", reftable.FORMAT))
        head = ours.run("symbolic-ref", "-q", "HEAD")[1]
        words = ("log", "-g", "-z", "--date=raw", f"--format={reftable.ENTRY}", "refs/stash", "--")
        log = reftable.log_file(ours.run(*words)[1])
    own = {name: data for name, data in found.items() if name.isascii() and name.replace("_", "").isalpha()}
    own |= {"HEAD": b"ref: " + head} if head else {}
    if "HEAD" not in own:  # every table has one; git itself only falls silent
        raise _unread(ours, "it says nothing")
    return own | {"packed-refs": reftable.packed_file(packed)} | ({"logs/refs/stash": log} if log else {})


def _take_tables(ours: Bare, folder: str, listed: bytes) -> None:
    """Let a repository of ours have the refs that the agent's has."""
    os.mkdir(f"{ours.path}/reftable", 0o700)
    for name in map(os.fsdecode, listed.split()[:_MOST]):
        data = refs.regular(f"{folder}/reftable/{name}", _LARGEST) if "/" not in name else b""
        if not data:
            raise _unread(ours, f"{name} is no table")
        bare.write(f"{ours.path}/reftable/{name}", data)
    bare.write(f"{ours.path}/{refs.TABLES}", listed)
    version = b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
    with open(f"{ours.path}/config", "wb") as file:
        file.write(version + _SECTION + (b"\tobjectFormat = sha256\n" if ours.is_sha256 else b""))


def _ask(ours: Bare, *words: str) -> bytes:
    code, said, why = ours.run(*words)
    if code:
        raise _unread(ours, why)
    return said


def _unread(ours: Bare, why: str) -> CommandFailed:
    reason = f"the agent moved its refs into a reftable, which {ours.program} cannot read: {why}"
    return CommandFailed(program="git", reason=reason, hint="git 2.45 or newer reads those that are whole; the session keeps it")


def _write(made: str, told: dict[str, bytes]) -> None:
    folder = tempfile.mkdtemp(prefix="told-", dir=os.path.dirname(made))
    for name, data in told.items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        bare.write(f"{folder}/{name}", data)
    try:
        os.rename(folder, made)
    except OSError:  # another command was as quick
        if not os.path.isdir(made):
            raise
