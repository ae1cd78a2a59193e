"""Refs in a reftable: git is asked for them, and an agent's private git dir has them as files (decision 0023).

Git reads reftables from 2.45 on; `--include-root-refs`, which is asked with, is as old.
"""

import os

from agent_dev.errors import Refused
from agent_dev.git import object_links as farm
from agent_dev.git import repository as repo
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.value import Value

FORMAT = "--format=%(objectname) %(symref) %(refname)"
ENTRY = "%H%x00%gd%x00%gn%x00%ge%x00%gs"  # of a reflog, with --date=raw
_HEAD = ("symbolic-ref", "-q", "HEAD")
_KEY = b"refstorage=reftable"


class Reader(Value):
    """The git that reads, and the environment it runs in."""

    program: str
    environ: tuple[tuple[str, str], ...]

    def start(self, git_dir: str, *words: str) -> repo.Asked:
        """Start git on a git dir of the user's."""
        return repo.ask(self.program, git_dir, ("--git-dir", git_dir, *words), dict(self.environ))


def refuse_unread(git_dir: str, program: str | None, environ: dict[str, str]) -> None:
    """Raise Refused for a reftable that the user's git cannot read."""
    hint = "git 2.45 or newer reads it; git refs migrate --ref-format=files (2.46) makes its refs files"
    if program is None:
        raise Refused(message=f"the refs of {git_dir} are in a reftable, and there is no git to read it", hint=hint)
    reader = Reader(program, tuple(environ.items()))
    refs, head = reader.start(git_dir, "for-each-ref", "--include-root-refs", FORMAT), reader.start(git_dir, *_HEAD)
    (code, said), (_, name) = repo.answer(refs), repo.answer(head)
    if code:
        raise Refused(message=f"the refs of {git_dir} are in a reftable, which {program} cannot read", hint=hint)
    if not name and "HEAD" not in parted(said)[0]:  # git does not complain of a broken one: it says that there are no refs
        broken = f"the refs of {git_dir} are in a reftable, and git finds none there, not even HEAD: it is broken"
        raise Refused(message=broken, hint="git fetch into a new clone brings back what is elsewhere; nothing was changed here")


def files(reader: Reader, git_dir: str) -> dict[str, bytes]:
    """Return by name what would stand in files: refs, HEADs, logs, also of linked work trees, and the configuration.

    Nothing for what this git cannot read. Logs are those that git needs: of HEAD, the stash and this branch.
    """
    every = _Asked(reader, git_dir)
    others = {entry.name: _Asked(reader, entry.path) for entry in farm.entries(f"{git_dir}/worktrees")}
    found, packed = every.told()
    if not (found or packed):
        return {}
    found["packed-refs"] = packed_file(packed)
    found["config"] = config(farm.read(f"{git_dir}/config"))
    for name, one in others.items():
        own, refs = one.told()
        own |= {ref: f"{value}\n".encode() for ref, value in refs.items() if ref not in packed}
        found |= {f"worktrees/{name}/{ref}": data for ref, data in own.items()}
    branch = os.fsdecode(found.get("HEAD", b"").removeprefix(b"ref:").strip())
    logs = {ref: _ask_log(reader, git_dir, ref) for ref in ("refs/stash", branch) if ref.startswith("refs/")}
    return found | {f"logs/{ref}": data for ref, one in logs.items() if (data := log_file(repo.answer(one)[1]))}


def _ask_log(reader: Reader, git_dir: str, ref: str) -> repo.Asked:
    return reader.start(git_dir, "log", "-g", "-z", "--date=raw", f"--format={ENTRY}", ref, "--")


class _Asked:
    """The questions that a git dir has been asked, at once: its refs, where an unborn HEAD leads, and where HEAD was."""

    def __init__(self, reader: Reader, git_dir: str) -> None:
        self.refs = reader.start(git_dir, "for-each-ref", "--include-root-refs", FORMAT)
        self.head = reader.start(git_dir, *_HEAD)
        self.log = _ask_log(reader, git_dir, "HEAD")

    def told(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return what stays a file, and the other refs; nothing where git stumbles."""
        code, said = repo.answer(self.refs)
        name, log = repo.answer(self.head)[1], log_file(repo.answer(self.log)[1])
        if code:
            return {}, {}
        found, packed = parted(said)
        return found | ({"HEAD": b"ref: " + name} if name else {}) | ({"logs/HEAD": log} if log else {}), packed


def parted(said: bytes) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return those that are files, symbolic ones and those outside refs/, and the others by name."""
    apart: dict[str, bytes] = {}
    plain: dict[str, str] = {}
    for row in said.split(b"\n"):
        value, target, name = row.split(b" ", 2) if row.count(b" ") > 1 else (b"", b"", b"")
        oid = parse_ref(value)
        if target:
            apart[os.fsdecode(name)] = b"ref: " + target + b"\n"
        elif oid is not None and not name.startswith(b"refs/"):
            apart[os.fsdecode(name)] = value + b"\n"
        elif oid is not None:
            plain[os.fsdecode(name)] = oid
    return apart, plain


def packed_file(refs: dict[str, str]) -> bytes:
    """Return refs as one file has them."""
    rows = "".join(f"{value} {name}\n" for name, value in sorted(refs.items(), key=lambda item: os.fsencode(item[0])))
    return os.fsencode("# pack-refs with: sorted \n" + rows)


def log_file(said: bytes) -> bytes:
    """Return a reflog as a file has it, the oldest entry first; git tells the newest first, and not what was before."""
    rows, before = [], b""
    for entry in reversed([one.split(b"\0") for one in _records(said)]):
        new, when, name, email, what = entry
        time = when.rpartition(b"@{")[2].removesuffix(b"}")
        rows.append(b"%s %s %s <%s> %s\t%s\n" % (before or b"0" * len(new), new, name, email, time, what))
        before = new
    return b"".join(rows)


def _records(said: bytes) -> list[bytes]:
    words = said.split(b"\0")[:-1]
    return [b"\0".join(words[at : at + 5]) for at in range(0, len(words) - 4, 5)]


def config(data: bytes) -> bytes:
    """Return a configuration without the word that refs are in a reftable."""
    kept = [line for line in data.split(b"\n") if line.translate(None, b" \t\r").lower() != _KEY]
    text = b"\n".join(kept)
    return text + b"\n[extensions]\n\trefStorage = files\n" if b"refstorage" in text.lower() else text
