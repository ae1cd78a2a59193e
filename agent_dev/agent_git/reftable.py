"""Conversion of an agent's reftable (`git refs migrate`) to files (decision 0023).

The tables (regular files only) are copied into a repository of ours, where the user's git reads them.
"""

import hashlib
import os
import tempfile

from agent_dev.agent_git import program, refs
from agent_dev.agent_git.repositories import AgentRepository
from agent_dev.errors import CommandFailed
from agent_dev.fs import read_regular
from agent_dev.git import bare, reftable
from agent_dev.git.bare import BareRepository

_MAX_SIZE = 16 << 20
_MAX_TABLES = 1000  # tables; git compacts them to a few
_EXTENSIONS = b"[extensions]\n\trefStorage = reftable\n"


def convert_to_files(source: AgentRepository, environ: dict[str, str]) -> str:
    """Return a directory with HEAD, refs and the stash's log as files; create it if the tables are new.

    Raises CommandFailed if git cannot read them.
    """
    table_list = read_regular.read_regular_file(f"{source.private_dir}/{refs.TABLES_LIST}", _MAX_SIZE)
    target = f"{source.session.folder}/git/reftable-{hashlib.sha256(table_list).hexdigest()[:16]}"
    if not os.path.isdir(target):
        _write(target, _read(source, table_list, environ))
    return target


def _read(source: AgentRepository, table_list: bytes, environ: dict[str, str]) -> dict[str, bytes]:
    with bare.temporary_directory(source.session.folder) as parent:
        repo = bare.create_linked(parent, program.find_git(source.record, environ), source.private_dir, source.stores)
        _copy_tables(repo, source.private_dir, table_list)
        found, packed = reftable.split_refs(_query(repo, "for-each-ref", "--include-root-refs", reftable.REF_FORMAT))
        head = repo.run("symbolic-ref", "-q", "HEAD")[1]
        args = ("log", "-g", "-z", "--date=raw", f"--format={reftable.REFLOG_FORMAT}", "refs/stash", "--")
        log = reftable.format_reflog(repo.run(*args)[1])
    ref_files = {name: data for name, data in found.items() if name.isascii() and name.replace("_", "").isalpha()}
    ref_files |= {"HEAD": b"ref: " + head} if head else {}
    if "HEAD" not in ref_files:  # a valid reftable has HEAD; git reports no error
        raise _read_error(repo, "HEAD is missing")
    return ref_files | {"packed-refs": reftable.format_packed_refs(packed)} | ({"logs/refs/stash": log} if log else {})


def _copy_tables(repo: BareRepository, folder: str, table_list: bytes) -> None:
    """Copy the agent's tables into a repository of ours."""
    os.mkdir(f"{repo.path}/reftable", 0o700)
    for name in map(os.fsdecode, table_list.split()[:_MAX_TABLES]):
        data = read_regular.read_regular_file(f"{folder}/reftable/{name}", _MAX_SIZE) if "/" not in name else b""
        if not data:
            raise _read_error(repo, f"{name} is not a reftable file")
        bare.write_new_file(f"{repo.path}/reftable/{name}", data)
    bare.write_new_file(f"{repo.path}/{refs.TABLES_LIST}", table_list)
    version = b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
    with open(f"{repo.path}/config", "wb") as file:
        file.write(version + _EXTENSIONS + (b"\tobjectFormat = sha256\n" if repo.is_sha256 else b""))


def _query(repo: BareRepository, *args: str) -> bytes:
    code, output, reason = repo.run(*args)
    if code:
        raise _read_error(repo, reason)
    return output


def _read_error(repo: BareRepository, cause: str) -> CommandFailed:
    reason = f"{repo.program} cannot read the agent's reftable: {cause}"
    return CommandFailed(program="git", reason=reason, hint="use git 2.45 or newer; the session is kept")


def _write(target: str, ref_files: dict[str, bytes]) -> None:
    folder = tempfile.mkdtemp(prefix="reftable-", dir=os.path.dirname(target))
    for name, data in ref_files.items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        bare.write_new_file(f"{folder}/{name}", data)
    try:
        os.rename(folder, target)
    except OSError:  # another command created it first
        if not os.path.isdir(target):
            raise
