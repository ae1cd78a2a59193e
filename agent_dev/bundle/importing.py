"""Import a bundle as a session of this repository, which is reviewed, merged and resumed like any other.

The manifest and the free space are checked before anything is written. Everything is written to the folder of a new session,
which has no record until it is complete and durable: if this process is killed, the next command removes the folder.
"""

import os
import resource
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from agent_dev.agent_git import refs
from agent_dev.agent_git.program import find_git
from agent_dev.agent_git.repositories import find_repository
from agent_dev.bundle import archive, base_builder, commits_import, content_places, manifest_json
from agent_dev.bundle import manifest as manifests
from agent_dev.bundle.archive import ArchiveReader, Source
from agent_dev.bundle.content_places import ContentPlaces
from agent_dev.bundle.manifest import ContentUses
from agent_dev.bundle.upper_builder import UpperBuilder
from agent_dev.errors import BadBundle, CommandFailed, Refused
from agent_dev.fs import durable
from agent_dev.git import repository
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.overlay.labels import format_count, format_size
from agent_dev.quick_dataclass import dataclass
from agent_dev.run import private_git
from agent_dev.sandbox import plan
from agent_dev.session import removal, store
from agent_dev.session.sessions import CommandContext

_ENTRY_SIZE = 8192  # maximum size on disk of an entry without its content, in bytes
Row = dict[str, Any]
FindSigner = Callable[[bytes, bytes], str]


@dataclass(frozen=True, slots=True)
class OpenBundle:
    """A bundle whose manifest has been read and checked. `signer`: the principal, or "" for an unsigned bundle."""

    reader: ArchiveReader
    manifest: dict[str, Any]
    uses: ContentUses
    size: int
    signer: str
    _next: bytes  # the header after the manifest and the signature

    @property
    def host(self) -> str:
        """The host on which it claims to have been created."""
        return str(self.manifest["made"]["host"])

    @property
    def disk_size(self) -> int:
        """The maximum number of bytes that an import needs on disk."""
        entries = sum(len(root["entries"]) for root in self.manifest["roots"])
        logs = sum(row["size"] for row in self.manifest["logs"].values())
        packs = sum(row["size"] for row in self.manifest["git"])
        contents = content_places.size_on_disk(self.manifest["blobs"], self.uses)
        return int(contents + 2 * packs + logs + self.size + entries * _ENTRY_SIZE)

    def read_members(self, places: ContentPlaces | None) -> None:
        """Read and check the other members, and write each to its place unless `places` is None. Raises BadBundle, OSError."""
        block = self._next
        for name, size, digest in _members(self.manifest):
            if places is None:
                self.reader.member(name, size, digest, lambda _: None, block)
            else:
                file_name = _file_name(name)
                fd = places.create(file_name)
                try:
                    self.reader.member(name, size, digest, lambda piece, fd=fd: durable.write(fd, piece), block)  # type: ignore[misc]
                    places.finish(file_name, fd)
                finally:
                    os.close(fd)
            block = b""
        self.reader.end(block)


def _members(manifest: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Return the members that follow the manifest, in order: name, size, SHA-256."""
    logs = manifest["logs"]
    members = [(archive.pack_name(row["root"]), row["size"], row["digest"]) for row in manifest["git"] if row["size"]]
    members += [(archive.log_name(name), logs[name]["size"], logs[name]["digest"]) for name in manifests.LOGS if name in logs]
    return members + [(archive.blob_name(digest), size, digest) for digest, size in sorted(manifest["blobs"].items())]


def _file_name(member: str) -> str:
    """Return the name of the file to which a member is written; it is fixed or a digest, never a path."""
    return member.rpartition("/")[2]


def open_bundle(source: Source, find_signer: FindSigner) -> OpenBundle:
    """Read a bundle up to its manifest and signature, and check both. `find_signer` gets the signed bytes and the signature.

    Raises BadBundle.
    """
    reader = ArchiveReader(source)
    data = reader.first(archive.MANIFEST, archive.MAX_MANIFEST)
    try:
        value = manifest_json.loads(data)
    except (ValueError, MemoryError):
        raise BadBundle(reason="its manifest is damaged") from None
    uses = manifests.check_manifest(value)
    if not manifest_json.is_canonical(data, value):
        raise BadBundle(reason="its manifest is not in canonical form")
    signature, block = reader.signature()
    return OpenBundle(reader, value, uses, len(data), find_signer(data, signature) if signature else "", block)


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """Parameters of an import: the session's name, and the directories of additional roots in the bundle's order."""

    name: str = ""
    further_roots: tuple[str, ...] = ()
    max_size: int = 0  # bytes on disk; 0: the free space


def import_bundle(bundle: OpenBundle, context: CommandContext, request: ImportRequest) -> store.Session:
    """Create an unlocked, waiting session from a bundle. Raises AgentDevError; nothing is left in that case."""
    roots = _roots(bundle, context, request)
    _require_space(bundle, context.store, request)
    session = store.create_session(context.store)
    try:
        _fill(session, bundle, context, request, roots)
    except OSError as error:
        removal.remove_incomplete(context.store, session)
        raise _as_refusal(error) from None
    except BaseException:
        removal.remove_incomplete(context.store, session)
        raise
    finally:
        store.unlock_session(session)
    return session.replace(lock=-1)


def _as_refusal(error: OSError) -> Refused:
    return Refused(message=f"the bundle cannot be imported: {error.strerror}; nothing was changed", hint="agent-dev clean")


def _roots(bundle: OpenBundle, context: CommandContext, request: ImportRequest) -> tuple[str, ...]:
    """Return the local directories of the bundle's roots. Raises Refused."""
    wanted = bundle.manifest["roots"]
    if len(wanted) != 1 + len(request.further_roots):
        names = ", ".join(str(root["name"]) for root in wanted[1:])
        options = "--overlay DIRECTORY " * (len(wanted) - 1)
        hint = f"agent-dev {options}import FILE" + (f", with your directory for {names}" if names else ", without --overlay")
        raise Refused(message=f"the bundle has {format_count(len(wanted), 'root')}", hint=hint)
    roots = (context.root, *map(os.path.realpath, request.further_roots))
    for path in roots[1:]:
        if not os.path.isdir(path):
            raise Refused(message=f"--overlay {path} is not a directory")
    repository.refuse_embedded_git_dir(repository.SessionLocation(context.root, repository.find_git_dir(context.root)))
    return roots


def _require_space(bundle: OpenBundle, place: store.Store, request: ImportRequest) -> None:
    folder = place.path
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    limit = min(request.max_size or free, free)
    if bundle.disk_size > limit:
        kind = "are free" if limit == free else "are allowed"
        raise Refused(
            message=f"the bundle needs {format_size(bundle.disk_size)}, but {format_size(limit)} {kind}", hint="agent-dev clean"
        )
    entries = sum(len(root["entries"]) for root in bundle.manifest["roots"]) + len(bundle.manifest["blobs"])
    if found.f_files and entries > found.f_favail:
        raise Refused(message=f"the bundle needs {entries} inodes, but {found.f_favail} are free", hint="agent-dev clean")


def _fill(
    session: store.Session, bundle: OpenBundle, context: CommandContext, request: ImportRequest, roots: tuple[str, ...]
) -> None:
    value, blobs = bundle.manifest, f"{session.folder}/{removal.IMPORT}"
    os.mkdir(blobs, 0o700)
    git_dirs = list(map(repository.find_git_dir, roots))
    _write_contents(session, bundle, roots, blobs)
    record = _record(bundle, context, request, roots)
    try:
        program = find_git(record, context.environ)
    except CommandFailed:
        if any(git_dirs):
            raise
        program = ""
    stores = tuple((path, f"{git.common}/objects" if git else "") for path, git in zip(roots, git_dirs, strict=True))
    base = base_builder.BaseRequest(session.lower_snapshot, blobs, program, stores)
    base_builder.write_base(base, value["roots"], value["blobs"])
    copies = tuple(
        commits_import.copy_git_dir(session, commits_import.RootGit(number, path, git), roots, program, context.environ)
        for number, (path, git) in enumerate(zip(roots, git_dirs, strict=True))
        if git is not None and git.common not in {other.common for other in git_dirs[:number] if other}
    )
    _record_git(record, git_dirs[0], copies, session, roots)
    refs.record_initial_refs(session, record)
    for row in value["git"]:
        pack = f"{blobs}/{archive.pack_name(row['root'])}"
        commits = commits_import.CommitsImport(row, pack if os.path.exists(pack) else "", program)
        commits_import.import_commits(find_repository(session, record, row["root"]), commits, context.environ)
    _take_logs(session, blobs, value["logs"])
    for name in os.listdir(blobs):
        os.unlink(f"{blobs}/{name}")
    removal.remove_work_directories(session)
    durable.sync_file_system_of(session.folder)
    store.write_record(session, record, is_durable=True)
    store.sync_record(session)
    os.rmdir(blobs)  # until now, it marks an incomplete import


def _write_contents(session: store.Session, bundle: OpenBundle, roots: tuple[str, ...], folder: str) -> None:
    """Read the rest of a bundle: build the upper layers, and write contents of base versions, packs and logs."""
    os.makedirs(f"{session.lower_snapshot}/content", 0o700)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    max_open = (limit if limit != resource.RLIM_INFINITY else 1024) // 4 // len(roots)
    with ExitStack() as stack:
        builders = []
        for number, (path, root) in enumerate(zip(roots, bundle.manifest["roots"], strict=True)):
            builder = UpperBuilder(store.add_root(session, number, path).upper, root["entries"], max_open)
            stack.callback(builder.close)
            builder.create_all_but_files()
            builders.append(builder)
        places = ContentPlaces(bundle.uses, folder, session.lower_snapshot, tuple(builders))
        bundle.read_members(places)
        for builder in builders:
            builder.copy_files(folder, places.written)
            builder.finish_directories()


def _record(bundle: OpenBundle, context: CommandContext, request: ImportRequest, roots: tuple[str, ...]) -> store.Record:
    value, user_home = bundle.manifest, context.environ.get("HOME", "")
    home = os.path.realpath(plan.agent_home_path(context.profile, user_home, context.root))
    options: dict[str, object] = {"merge": True} | ({"overlay": list(roots[1:])} if roots[1:] else {})
    record: store.Record = {
        **store.BLANK,
        **value["session"],
        "state": store.WAITING,
        "name": request.name,
        "root": roots[0],
        "roots": list(roots),
        "cwd": roots[0],
        "options": options,
        "agent_home": home,
        "homes": home,
        "launched": time.time_ns(),
        "imported": {"host": bundle.host, "signer": bundle.signer, "left_out": value["left_out"]},
    }
    if "task" in value:
        record["imported"]["task"] = value["task"]["id"]
    return record


def _record_git(
    record: store.Record,
    git: repository.WorkTreeGitDir | None,
    copies: tuple[PrivateGitDir, ...],
    session: store.Session,
    roots: tuple[str, ...],
) -> None:
    """Add to a record what a run records about its git directories."""
    places = tuple(session.root(number, path) for number, path in enumerate(roots))
    git_dirs = private_git.find_git_dirs(git, roots[1:])
    record.update(private_git.record_fields(git_dirs, copies, places, is_direct=False))  # type: ignore[typeddict-item]


def _take_logs(session: store.Session, blobs: str, logs: dict[str, Any]) -> None:
    """Move the logs into the session. Like those of a local run, they are verified when they are read."""
    for name in logs:
        os.rename(f"{blobs}/{name}.jsonl", f"{session.folder}/{name}.jsonl")
