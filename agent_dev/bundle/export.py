"""Write an ended session to a bundle: files, base versions, commits, logs. The same session always produces the same bytes."""

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from agent_dev import __version__
from agent_dev.agent_git import commits, current_refs, refs
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.bundle import archive, manifest, manifest_json, rows
from agent_dev.bundle.archive import Target
from agent_dev.bundle.rows import Contents, FileContent, RootReader
from agent_dev.errors import AgentDevError, Refused
from agent_dev.fs import dir_tree, walk
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import CorruptUpperError
from agent_dev.fs.read_regular import read_regular_file
from agent_dev.git import repository, secret_removal
from agent_dev.git.bare import IMPORT_SECONDS, BareRepository
from agent_dev.git.object_links import list_directory
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.quick_dataclass import dataclass
from agent_dev.sanitize import visible
from agent_dev.session import store, uppers

STASH = secret_removal.STASH


@dataclass(frozen=True, slots=True)
class Collected:
    """The parts of a bundle: the manifest, the commits by root and the logs as bytes, and the locations of the files."""

    manifest: bytes
    left_out: tuple[str, ...]
    packs: dict[int, bytes]
    logs: dict[str, bytes]
    sources: dict[str, FileContent]

    @property
    def size(self) -> int:
        """The size of the bundle in bytes, without the signature."""
        sizes = [len(self.manifest), *map(len, self.packs.values()), *map(len, self.logs.values())]
        sizes += [one.size for one in self.sources.values()]
        return sum(archive.BLOCK + size + -size % archive.BLOCK for size in sizes) + len(archive.END)


class SessionExport:
    """The export of an ended, locked session. `close` restores the modes of directories that were made readable."""

    def __init__(self, session: store.Session, record: store.Record, environ: dict[str, str]) -> None:
        """Open the session's upper layers. Raises OSError, MissingRoot, or Refused for a session that cannot be bundled."""
        if store.is_direct(record) or record.get("is_restore"):
            raise Refused(message="a session of direct mode cannot be bundled", hint="agent-dev merge --export DIR")
        store.require_roots(session, record)
        self._session, self._record, self._environ = session, record, environ
        store.make_uppers_accessible(session, len(record["roots"]))
        self._uppers = uppers.open_trees(session, len(record["roots"]))

    def close(self) -> None:
        """Close the upper layers."""
        uppers.close_trees(self._session, self._uppers)

    def collect(self, task: dict[str, Any] | None = None, version: int = manifest.VERSIONS.newest) -> Collected:
        """Read everything except the content of large files. Raises AgentDevError, OSError.

        `task`: the session's task; `version`: one of `manifest.VERSIONS`.
        """
        contents = Contents()
        left_out: list[str] = []
        roots = self._roots(contents, left_out)
        packs, git = self._repositories(left_out)
        logs = {name: data for name in manifest.LOGS if (data := self._log(name))}
        value = {
            "format": manifest.FORMAT,
            "version": version,
            "made": {"host": os.uname().nodename[:300], "program": __version__},
            "session": {name: self._record[name] for name in manifest.SESSION_FIELDS if name in self._record},  # type: ignore[literal-required]
            "roots": roots,
            "git": git,
            "logs": {name: {"size": len(data), "digest": hashlib.sha256(data).hexdigest()} for name, data in logs.items()},
            "blobs": {digest: contents.sources[digest].size for digest in sorted(contents.sources)},
            "left_out": list(dict.fromkeys(left_out)),
            **({"task": task} if task is not None else {}),
        }
        try:
            manifest.check_manifest(value)
        except AgentDevError as error:
            raise Refused(
                message=f"session {store.session_name(self._session)} cannot be bundled: {error.values['reason']}"
            ) from None
        return Collected(manifest_json.dumps(value), tuple(dict.fromkeys(left_out)), packs, logs, contents.sources)

    def write(self, collected: Collected, signature: bytes, target: Target) -> None:
        """Write the bundle. Raises OSError, or Refused if a file has changed since `collect`."""
        archive.write_member(target, archive.MANIFEST, collected.manifest)
        if signature:
            archive.write_member(target, archive.SIGNATURE, signature)
        for root, pack in collected.packs.items():
            archive.write_member(target, archive.pack_name(root), pack)
        for name in manifest.LOGS:
            if name in collected.logs:
                archive.write_member(target, archive.log_name(name), collected.logs[name])
        for digest in sorted(collected.sources):
            self._write_content(target, digest, collected.sources[digest])
        target.write(archive.END)

    def _write_content(self, target: Target, digest: str, source: FileContent) -> None:
        if source.data is not None:
            archive.write_member(target, archive.blob_name(digest), source.data)
            return
        fd = (
            os.open(source.stored, os.O_RDONLY | os.O_CLOEXEC)
            if source.stored
            else self._uppers[source.root].open(source.path, os.O_RDONLY)
        )
        try:
            archive.write_stream(target, archive.blob_name(digest), source.size, _verified(fd, digest, source.size))
        finally:
            os.close(fd)

    def _roots(self, contents: Contents, left_out: list[str]) -> list[rows.Row]:
        base = LowerSnapshot(self._session.lower_snapshot)
        try:
            return [self._root(number, base, contents, left_out) for number in range(len(self._uppers))]
        except CorruptUpperError as error:
            raise Refused(message=f"session {store.session_name(self._session)}: {error}") from None
        finally:
            base.close()

    def _root(self, number: int, base: LowerSnapshot, contents: Contents, left_out: list[str]) -> rows.Row:
        upper, path = self._uppers[number], self._record["roots"][number]
        skip = (b".git",) if refs.has_private_git_dir(self._record, number) else ()
        problems: list[str] = []
        found = list(walk.walk(upper.path, skip=skip, problems=problems, opened=upper.unlocked))
        if problems:
            raise Refused(message=f"cannot read {visible(problems[0])}")
        kept = [one for one in found if b".git" not in one.path.lower().split(b"/")]
        if len(kept) < len(found):
            left_out.append("git directories that the agent created")
        if any(one.entry.links > 1 and one.entry.type == "file" for one in kept):
            left_out.append("hard links: each name becomes a separate file")
        git = repository.find_git_dir(path) if os.path.isdir(path) else None
        real = Tree(path, is_reviewed=True)
        try:
            reader = RootReader(number, upper, real, base, f"{git.common}/objects" if git else "", contents)
            return {
                "name": os.path.basename(path)[:300],
                "entries": reader.upper_rows(kept),
                "base": reader.base_rows(kept),
                "complete": base.is_complete,
            }
        finally:
            real.close()

    def _log(self, name: str) -> bytes:
        return read_regular_file(f"{self._session.folder}/{name}.jsonl", manifest.MAX_LOG)

    def _repositories(self, left_out: list[str]) -> tuple[dict[int, bytes], list[dict[str, Any]]]:
        """Return the packs of the agent's new objects by root, and the rows of the repositories."""
        packs, found = {}, []
        for source in list_repositories(self._session, self._record):
            pack, row = self._commits(source, left_out)
            found.append(row)
            if pack:
                packs[source.root] = pack
        return packs, found

    def _commits(self, source: AgentRepository, left_out: list[str]) -> tuple[bytes, dict[str, Any]]:
        """Return a pack of the agent's new objects in a repository, and its refs before and after."""
        before, after = refs.read_initial_refs(source), current_refs.read_refs(source, self._environ)
        left_out += _left_out_of_git(source.private_dir, before.get(STASH, "") != after.get(STASH, ""))
        moved = {name for name in {*before, *after} - {"HEAD", STASH} if before.get(name) != after.get(name)}
        branches = {side.get("HEAD", "").removeprefix("ref: ") for side in (before, after)}
        named = {"HEAD", *branches, *moved}
        tips = sorted({after[name] for name in moved if name in after} | _detached(after))
        with commits.open_agent_objects(source, self._environ) as repo:
            pack = _pack(repo, tips, sorted({value for value in before.values() if not value.startswith("ref: ")}))
            kind = "sha256" if repo.is_sha256 else "sha1"
        return pack, {
            "root": source.root,
            "format": kind,
            "before": {name: value for name, value in before.items() if name in named and value},
            "after": {name: value for name, value in after.items() if name in named and value},
            "size": len(pack),
            "digest": hashlib.sha256(pack).hexdigest(),
        }


def _detached(values: dict[str, str]) -> set[str]:
    head = values.get("HEAD", "")
    return {head} if head and not head.startswith("ref: ") else set()


def _pack(repo: BareRepository, tips: list[str], known: list[str]) -> bytes:
    """Return a thin pack of the objects that are reachable from the tips but not from the known commits; b"" for none."""
    if not tips:
        return b""
    stdin = "".join(f"{oid}\n" for oid in tips) + "".join(f"^{oid}\n" for oid in known)
    words = ("-c", "pack.threads=1", "pack-objects", "--revs", "--stdout", "-q", "--thin", "--delta-base-offset")
    pack = repo.check_output(*words, stdin=stdin.encode(), seconds=IMPORT_SECONDS)
    return pack if int.from_bytes(pack[8:12], "big") else b""


def _left_out_of_git(folder: str, has_stash: bool) -> Iterator[str]:  # noqa: FBT001
    if has_stash:
        yield "the agent's stash"
    if os.path.isdir(f"{folder}/lfs/objects") and os.listdir(f"{folder}/lfs/objects"):
        yield "LFS objects that the agent added"
    modules = (f"{folder}/modules", *(f"{one.path}/modules" for one in list_directory(f"{folder}/worktrees")))
    if any(_has_objects(top) for one in modules for top, _, _ in os.walk(one)):
        yield "commits in submodules"


def _has_objects(top: str) -> bool:
    if os.path.basename(top) != "objects":
        return False
    return any(len(name) == 2 for name in os.listdir(top)) or bool(os.path.isdir(f"{top}/pack") and os.listdir(f"{top}/pack"))


def _verified(fd: int, digest: str, size: int) -> Iterator[bytes]:
    """Yield a file's bytes. Raises Refused if they differ from those that were read before."""
    seen, left = hashlib.sha256(), size
    while left and (piece := os.read(fd, min(dir_tree.CHUNK_SIZE, left))):
        seen.update(piece)
        left -= len(piece)
        yield piece
    if left or seen.hexdigest() != digest:
        raise Refused(message="a file of the session changed while it was read")
