"""Refs in a reftable, read through git; an agent's private git dir has them as files (decision 0023).

Git reads reftables from 2.45 on, the version that introduced `--include-root-refs`.
"""

import os

from agent_dev.errors import Refused
from agent_dev.git import object_links, repository
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.value import Value

REF_FORMAT = "--format=%(objectname) %(symref) %(refname)"
REFLOG_FORMAT = "%H%x00%gd%x00%gn%x00%ge%x00%gs"  # a reflog entry, with --date=raw
_HEAD_QUERY = ("symbolic-ref", "-q", "HEAD")
_SETTING = b"refstorage=reftable"


class ReftableReader(Value):
    """The git program that reads a reftable, and its environment."""

    program: str
    environ: tuple[tuple[str, str], ...]

    def start(self, git_dir: str, *words: str) -> repository.StartedGit:
        """Start git on one of the user's git dirs."""
        return repository.start_git(self.program, git_dir, ("--git-dir", git_dir, *words), dict(self.environ))


def check_readable(git_dir: str, program: str | None, environ: dict[str, str]) -> None:
    """Raise Refused for a reftable that the user's git cannot read."""
    hint = "use git 2.45 or newer, or convert the refs: git refs migrate --ref-format=files (2.46)"
    if program is None:
        raise Refused(message=f"cannot read the reftable of {git_dir}: git is not installed", hint=hint)
    reader = ReftableReader(program, tuple(environ.items()))
    refs, head = reader.start(git_dir, "for-each-ref", "--include-root-refs", REF_FORMAT), reader.start(git_dir, *_HEAD_QUERY)
    (code, output), (_, head_name) = repository.finish_git(refs), repository.finish_git(head)
    if code:
        raise Refused(message=f"{program} cannot read the reftable of {git_dir}", hint=hint)
    if not head_name and "HEAD" not in split_refs(output)[0]:  # git reports no error for a broken one, only no refs
        broken = f"the reftable of {git_dir} is broken: git finds no refs in it, not even HEAD"
        raise Refused(message=broken, hint="nothing was changed; git fetch into a new clone restores the refs of your remotes")


def read_as_files(reader: ReftableReader, git_dir: str) -> dict[str, bytes]:
    """Return refs, HEADs, logs (also of linked work trees) and the configuration as files by name.

    Empty if this git cannot read them. Only the logs of HEAD, the stash and the current branch are included.
    """
    main = _Queries(reader, git_dir)
    worktrees = {entry.name: _Queries(reader, entry.path) for entry in object_links.list_directory(f"{git_dir}/worktrees")}
    found, packed = main.results()
    if not (found or packed):
        return {}
    found["packed-refs"] = format_packed_refs(packed)
    found["config"] = remove_reftable_setting(object_links.read_file(f"{git_dir}/config"))
    for name, one in worktrees.items():
        own, refs = one.results()
        own |= {ref: f"{value}\n".encode() for ref, value in refs.items() if ref not in packed}
        found |= {f"worktrees/{name}/{ref}": data for ref, data in own.items()}
    branch = os.fsdecode(found.get("HEAD", b"").removeprefix(b"ref:").strip())
    logs = {ref: _query_log(reader, git_dir, ref) for ref in ("refs/stash", branch) if ref.startswith("refs/")}
    return found | {f"logs/{ref}": data for ref, one in logs.items() if (data := format_reflog(repository.finish_git(one)[1]))}


def _query_log(reader: ReftableReader, git_dir: str, ref: str) -> repository.StartedGit:
    return reader.start(git_dir, "log", "-g", "-z", "--date=raw", f"--format={REFLOG_FORMAT}", ref, "--")


class _Queries:
    """Queries of a git dir that run in parallel: its refs, the target of an unborn HEAD, and HEAD's log."""

    def __init__(self, reader: ReftableReader, git_dir: str) -> None:
        self.refs = reader.start(git_dir, "for-each-ref", "--include-root-refs", REF_FORMAT)
        self.head = reader.start(git_dir, *_HEAD_QUERY)
        self.log = _query_log(reader, git_dir, "HEAD")

    def results(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return the refs that stay files, and the other refs; nothing if git fails."""
        code, output = repository.finish_git(self.refs)
        name, log = repository.finish_git(self.head)[1], format_reflog(repository.finish_git(self.log)[1])
        if code:
            return {}, {}
        found, packed = split_refs(output)
        if name and "HEAD" not in found:  # unborn; else the listing has HEAD and refs of one moment
            found["HEAD"] = b"ref: " + name
        return found | ({"logs/HEAD": log} if log else {}), packed


def split_refs(output: bytes) -> tuple[dict[str, bytes], dict[str, str]]:
    """Split refs into files by name (symbolic refs and refs outside refs/) and ids by name."""
    files: dict[str, bytes] = {}
    plain: dict[str, str] = {}
    for row in output.split(b"\n"):
        value, target, name = row.split(b" ", 2) if row.count(b" ") > 1 else (b"", b"", b"")
        oid = parse_ref(value)
        if target:
            files[os.fsdecode(name)] = b"ref: " + target + b"\n"
        elif oid is not None and not name.startswith(b"refs/"):
            files[os.fsdecode(name)] = value + b"\n"
        elif oid is not None:
            plain[os.fsdecode(name)] = oid
    return files, plain


def format_packed_refs(refs: dict[str, str]) -> bytes:
    """Return refs in packed-refs format."""
    rows = "".join(f"{value} {name}\n" for name, value in sorted(refs.items(), key=lambda item: os.fsencode(item[0])))
    return os.fsencode("# pack-refs with: sorted \n" + rows)


def format_reflog(output: bytes) -> bytes:
    """Return a reflog in file format, the oldest entry first; git prints the newest first, without the previous ids."""
    rows, previous = [], b""
    for entry in reversed([record.split(b"\0") for record in _records(output)]):
        new, selector, name, email, message = entry
        time = selector.rpartition(b"@{")[2].removesuffix(b"}")
        rows.append(b"%s %s %s <%s> %s\t%s\n" % (previous or b"0" * len(new), new, name, email, time, message))
        previous = new
    return b"".join(rows)


def _records(output: bytes) -> list[bytes]:
    fields = output.split(b"\0")[:-1]
    return [b"\0".join(fields[start : start + 5]) for start in range(0, len(fields) - 4, 5)]


def remove_reftable_setting(data: bytes) -> bytes:
    """Return a configuration without the setting that refs are in a reftable."""
    lines = [line for line in data.split(b"\n") if line.translate(None, b" \t\r").lower() != _SETTING]
    text = b"\n".join(lines)
    return text + b"\n[extensions]\n\trefStorage = files\n" if b"refstorage" in text.lower() else text
