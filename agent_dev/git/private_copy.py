"""The agent's private git dir: a copy without locks; object stores are hard-linked (decision 0005).

The user's commits, fetches and prunes during a session disturb neither side, and no git on the host ever opens what the agent
writes into its copy.
"""

import os

from agent_dev.fs.rmtree import remove_tree
from agent_dev.git import loose_ref_cache, object_links, repository, secret_removal
from agent_dev.git.formats.ref_format import parse_packed_refs, parse_ref
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.git.loose_ref_cache import CachedRefs, RefScan
from agent_dev.paths import RUN, is_below
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SKIPPED = ("objects", "lfs", "annex", "agent-dev", "gc.pid", "packed-refs", "refs", "logs", "worktrees", "modules")
_OBSOLETE = ("branches",)  # directories that git creates but no longer fills: not copied if they are empty
_MANY_LOGS = 200  # above this, only the logs of HEAD and the current branch are copied
_MAX_MOVES = 10  # times that HEAD is copied
_MANY_REFS = 100  # above this, loose refs are packed
_LOOSE_ONLY = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")  # refs per work tree, which git never packs


class CopyRequest(Value):
    """Parameters of a copy: `source` is a git (common) dir, `copy` its copy on the host, `store_name` the name of the stores."""

    source: str
    copy: str
    links_dir: str  # a new directory for hard links
    store_name: str
    linked_git_dir: str = ""  # git dir of the linked work tree in use, below source/worktrees
    roots: tuple[str, ...] = ()  # visible directories; work trees in them are usable
    outside_prefix: str = "links"  # name prefix of link directories next to a store
    program: str = ""  # the git program, if refs are in a reftable
    environ: tuple[tuple[str, str], ...] = ()
    cache_dir: str = ""  # directory of the loose ref cache
    uses_links: bool = True  # else the source's own stores are shown; hard links would change ctimes

    @property
    def outside_list(self) -> str:
        """The file that lists link directories next to stores."""
        return f"{self.links_dir}.elsewhere"


class PrivateCopy:
    """The directories shown next to the copy, as pairs of a host path and a sandbox path: object stores and LFS objects.

    `removed_secrets`: names of files and settings that hold passwords or tokens and are not copied.
    """

    def __init__(self) -> None:
        self.removed_secrets: dict[str, None] = {}
        self.stores: list[tuple[str, str]] = []
        self.lfs_stores: list[tuple[str, str]] = []


def create_private_copy(request: CopyRequest, target: str) -> PrivateGitDir:
    """Create the private copy; `target` is its mount point in the sandbox, empty if it lies in an upper layer."""
    os.mkdir(request.copy, 0o755)
    os.makedirs(request.links_dir, 0o700, exist_ok=True)
    result = PrivateCopy()
    _copy_git_dir(request.source, request.copy, request, request.store_name, result)
    return PrivateGitDir(request.copy, target, tuple(result.stores), tuple(result.lfs_stores), tuple(result.removed_secrets))


def _copy_git_dir(source: str, copy: str, request: CopyRequest, name: str, result: PrivateCopy) -> None:
    ref_files = _read_reftable(source, request)
    skips_index = (
        source == request.source and request.linked_git_dir and not any(is_below(source, root) for root in request.roots)
    )
    for entry in object_links.list_directory(source):
        is_ref = entry.name in ref_files or (ref_files and entry.name == "reftable")
        if entry.name not in _SKIPPED and not is_ref and not (skips_index and _is_index(entry.name)):
            _copy_entry(entry, f"{copy}/{entry.name}", result)
    if ref_files:
        _write_refs(copy, ref_files, result)
    else:
        _copy_refs(source, copy, request, result)
        _copy_logs(source, copy, result)
    _copy_worktrees(source, copy, request, name, result)
    if not ref_files:
        for head in ("HEAD", *(f"worktrees/{one.name}/HEAD" for one in object_links.list_directory(f"{copy}/worktrees"))):
            _copy_moved_head(source, copy, head)
    _link_objects(source, copy, request, name, result)  # after everything that names objects
    _copy_modules(source, copy, request, f"{name}.m", result)


def _read_reftable(source: str, request: CopyRequest) -> dict[str, bytes]:
    """Return a reftable's refs as files by name; empty if refs are files already."""
    if not (request.program and repository.has_reftable(source)):
        return {}
    from agent_dev.git import reftable  # rarely needed; not imported at other starts

    return reftable.read_as_files(reftable.ReftableReader(request.program, request.environ), source)


def _write_refs(copy: str, files: dict[str, bytes], result: PrivateCopy) -> None:
    for name in ("heads", "tags"):
        os.makedirs(f"{copy}/refs/{name}", 0o755)
    for name, data in files.items():
        if _is_stash(name):
            result.removed_secrets[secret_removal.STASH] = None
        elif name == "packed-refs":
            _write(f"{copy}/{name}", _without_stash(data, result))
        else:
            _write(f"{copy}/{name}", _strip_secrets(name, data, result) if name.startswith("logs/") else data)


def _without_stash(data: bytes, result: PrivateCopy) -> bytes:
    """Return packed refs without the user's stash."""
    stripped = secret_removal.remove_stash(data)
    if stripped is not data:
        result.removed_secrets[secret_removal.STASH] = None
    return stripped


def _is_stash(name: str) -> bool:
    """Return whether a file is the user's stash or its log: work in progress outside the work tree."""
    return name in (secret_removal.STASH, f"logs/{secret_removal.STASH}")


def _strip_secrets(name: str, data: bytes, result: PrivateCopy) -> bytes:
    cleaned, removed = secret_removal.remove_secrets(name, data)
    result.removed_secrets |= dict.fromkeys(removed)
    return cleaned or b""


def _is_index(name: str) -> bool:
    return name == "index" or name.startswith("sharedindex.")


def _copy_modules(source: str, copy: str, request: CopyRequest, name: str, result: PrivateCopy) -> None:
    """Copy the git dirs of submodules, at any depth of names with slashes."""
    if not os.path.isdir(f"{source}/modules"):
        return
    os.mkdir(f"{copy}/modules", 0o755)
    pending = [
        f"modules/{entry.name}"
        for entry in object_links.list_directory(f"{source}/modules")
        if entry.is_dir(follow_symlinks=False)
    ]
    for number, path in enumerate(pending):
        os.mkdir(f"{copy}/{path}", 0o755)
        if os.path.isfile(f"{source}/{path}/HEAD"):
            _copy_git_dir(f"{source}/{path}", f"{copy}/{path}", request, f"{name}{number}", result)
        else:
            below = object_links.list_directory(f"{source}/{path}")
            pending += [f"{path}/{entry.name}" for entry in below if entry.is_dir(follow_symlinks=False)]


def _copy_entry(entry: os.DirEntry[str], copy: str, result: PrivateCopy) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), copy)
    elif entry.is_dir(follow_symlinks=False):
        entries = object_links.list_directory(entry.path)
        if entries or entry.name not in _OBSOLETE:
            os.mkdir(copy, 0o755)
        for below in entries:
            _copy_entry(below, f"{copy}/{below.name}", result)
    elif entry.is_file(follow_symlinks=False) and not entry.name.endswith((".lock", ".sample")):
        if _is_index(entry.name):
            copy_file(entry.path, copy)
        else:
            _copy_text(entry.path, copy, result)


def _copy_text(source: str, copy: str, result: PrivateCopy) -> None:
    """Copy a file without passwords and tokens; omit it if nothing else is in it."""
    fd = _open(source)
    if fd < 0:
        return
    try:
        data = _read(fd)
        cleaned, removed = secret_removal.remove_secrets(os.path.basename(source), data)
        result.removed_secrets |= dict.fromkeys(removed)
        if cleaned is not None:
            _create(copy, (cleaned,), os.fstat(fd))
    finally:
        os.close(fd)


def copy_file(source: str, copy: str) -> None:
    """Copy bytes, permissions and times: with a new mtime of the index, git would miss edits of the same second."""
    fd = _open(source)
    if fd < 0:
        return
    try:
        _create(copy, iter(lambda: os.read(fd, 1 << 20), b""), os.fstat(fd))
    finally:
        os.close(fd)


def _open(source: str) -> int:
    """Open a file to copy; return -1 if it is missing, such as a temporary file that git renamed."""
    try:
        return os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return -1


def _read(fd: int) -> bytes:
    return b"".join(iter(lambda: os.read(fd, 1 << 20), b""))


def _create(path: str, chunks: "Iterable[bytes]", source: os.stat_result) -> None:
    """Create a file with this content, and with permissions and times of its source."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 | source.st_mode & 0o777)
    try:
        for chunk in chunks:
            os.write(fd, chunk)
        os.utime(fd, ns=(source.st_atime_ns, source.st_mtime_ns))
    finally:
        os.close(fd)


def _copy_refs(source: str, copy: str, request: CopyRequest, result: PrivateCopy) -> None:
    """Write all refs as one packed-refs; symbolic refs and refs that git keeps loose stay files."""
    os.mkdir(f"{copy}/refs", 0o755)
    if os.path.isfile(f"{source}/refs/heads") or os.path.isdir(f"{source}/reftable"):
        _copy_entries(f"{source}/refs", f"{copy}/refs", result)
        return
    for name in ("heads", "tags"):
        os.mkdir(f"{copy}/refs/{name}", 0o755)
    scan = RefScan(source, request.cache_dir)
    refs = scan.load()
    if refs is None:
        refs = _read_refs(source, scan)
    else:
        refs.files.update(_current_branch(source, request))
    for name, data in refs.files.items():
        if name == secret_removal.STASH:
            result.removed_secrets[name] = None
        else:
            _write(f"{copy}/{name}", data)
    if packed := _without_stash(refs.packed, result):
        _write(f"{copy}/packed-refs", packed)


def _copy_moved_head(source: str, copy: str, head: str) -> None:
    """Copy a HEAD and its branch again if the user switched during the copy to a branch that is not in it."""
    for _ in range(_MAX_MOVES):
        copied = object_links.read_file(f"{copy}/{head}")
        branch = _branch_name(copied)
        if not branch or os.path.lexists(f"{copy}/{branch}") or _is_packed(copy, branch):
            return
        data = object_links.read_file(f"{source}/{branch}")
        # After the loose ref: one packed in between is found here.
        packed = parse_packed_refs(object_links.read_file(f"{source}/packed-refs")).get(branch)
        if data or packed:
            _write(f"{copy}/{branch}", data or f"{packed}\n".encode())
        elif object_links.read_file(f"{source}/{head}") == copied:
            return  # unborn
        else:
            os.unlink(f"{copy}/{head}")
            copy_file(f"{source}/{head}", f"{copy}/{head}")


def _branch_name(head: bytes) -> str:
    """Return the branch that the content of HEAD names, "" for none and for a name that leads out of the git dir."""
    name = os.fsdecode(head.removeprefix(b"ref:").strip())
    return name if name.startswith("refs/heads/") and ".." not in name else ""


def _is_packed(git_dir: str, ref: str) -> bool:
    return os.fsencode(f" {ref}\n") in object_links.read_file(f"{git_dir}/packed-refs")  # not parsed: there may be thousands


def _current_branch(source: str, request: CopyRequest) -> dict[str, bytes]:
    """Return the current branch if it is a loose ref: the one most likely edited by hand."""
    head = object_links.read_file(
        f"{request.linked_git_dir if request.linked_git_dir and source == request.source else source}/HEAD"
    )
    name = _branch_name(head)
    data = object_links.read_file(f"{source}/{name}") if name else b""
    return {name: data} if data else {}


def _read_refs(source: str, scan: RefScan) -> CachedRefs:
    """Read all refs: a few stay as they are, more become one packed-refs."""
    loose: dict[str, bytes] = {}
    _collect_refs(source, "refs", loose, scan)
    packed = object_links.read_file(f"{source}/packed-refs")  # after the loose refs: one packed in between is found here
    if len(loose) <= _MANY_REFS:
        return CachedRefs(packed, loose)
    refs = _pack(loose, packed)
    if len(loose) >= loose_ref_cache.MIN_LOOSE_REFS:
        scan.save(refs)
    return refs


def _pack(loose: dict[str, bytes], data: bytes) -> CachedRefs:
    """Return refs as one packed-refs, and those that stay files: symbolic, broken and per-work-tree refs."""
    loose_refs, packed = {}, parse_packed_refs(data)
    for name, content in loose.items():
        value = None if name.startswith(_LOOSE_ONLY) else parse_ref(content)
        if value is None:  # symbolic or broken; git rejects a packed-refs with such a line
            loose_refs[name] = content
        else:
            packed[name] = value
    lines = "".join(f"{value} {name}\n" for name, value in sorted(packed.items(), key=lambda item: os.fsencode(item[0])))
    return CachedRefs(os.fsencode("# pack-refs with: sorted \n" + lines), loose_refs)


def _copy_entries(source: str, copy: str, result: PrivateCopy) -> None:
    for entry in object_links.list_directory(source):
        if not os.path.lexists(f"{copy}/{entry.name}"):
            _copy_entry(entry, f"{copy}/{entry.name}", result)


def _collect_refs(source: str, name: str, found: dict[str, bytes], scan: RefScan) -> None:
    folder, files = f"{source}/{name}", []
    scan.record_times(name)
    for entry in object_links.list_directory(folder):
        if entry.is_dir(follow_symlinks=False):
            _collect_refs(source, f"{name}/{entry.name}", found, scan)
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(".lock"):
            files.append(entry.name)
    if files:
        found |= {f"{name}/{file}": data for file, data in object_links.read_small_files(folder, files).items()}


def _copy_logs(source: str, copy: str, result: PrivateCopy) -> None:
    if not os.path.isdir(f"{source}/logs"):
        return
    names = _list_files(f"{source}/logs", "logs", _MANY_LOGS + 1)
    if len(names) > _MANY_LOGS:
        branch = _branch_name(object_links.read_file(f"{source}/HEAD"))
        names = ["logs/HEAD", *([f"logs/{branch}"] if branch else [])]
    for name in names:
        data = b"" if _is_stash(name) else object_links.read_file(f"{source}/{name}")
        if data or (not _is_stash(name) and os.path.lexists(f"{source}/{name}")):
            _write(f"{copy}/{name}", _strip_secrets(name, data, result))


def _list_files(folder: str, name: str, limit: int) -> list[str]:
    """Return the names of at most `limit` files below a directory."""
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if len(found) >= limit:
                break
            below = f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                found += _list_files(entry.path, below, limit - len(found))
            elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(".lock"):
                found.append(below)
    return found


def _copy_worktrees(source: str, copy: str, request: CopyRequest, name: str, result: PrivateCopy) -> None:
    """Copy the git dirs of linked work trees; index and submodules only of those visible in the sandbox."""
    entries = [entry for entry in object_links.list_directory(f"{source}/worktrees") if entry.is_dir(follow_symlinks=False)]
    if entries:
        os.makedirs(f"{copy}/worktrees", 0o755, exist_ok=True)
    for number, entry in enumerate(entries):
        below, is_visible = f"{copy}/worktrees/{entry.name}", _is_visible(entry.path, request)
        has_refs = os.path.isdir(below)  # its refs came from a reftable
        os.makedirs(below, 0o755, exist_ok=True)
        for part in object_links.list_directory(entry.path):
            is_ref = has_refs and (part.name in ("refs", "reftable") or os.path.lexists(f"{below}/{part.name}"))
            if part.name != "modules" and not is_ref and (is_visible or not _is_index(part.name)):
                _copy_entry(part, f"{below}/{part.name}", result)
        if not _is_complete(below):
            remove_tree(below)
        elif is_visible:
            _copy_modules(entry.path, below, request, f"{name}.w{number}.m", result)


def _is_complete(git_dir: str) -> bool:
    """Return whether a linked work tree is complete: one that git is still creating or removing would break every command."""
    parts = [object_links.read_file(f"{git_dir}/{name}") for name in ("HEAD", "commondir", "gitdir")]
    return all(parts) and bool(parts[0].strip(b"0\n"))


def _is_visible(git_dir: str, request: CopyRequest) -> bool:
    """Return whether a linked work tree is in use, or visible in the sandbox."""
    if request.linked_git_dir and os.path.realpath(git_dir) == os.path.realpath(request.linked_git_dir):
        return True
    link = os.fsdecode(object_links.read_file(f"{git_dir}/gitdir")).strip()
    path = os.path.normpath(os.path.join(git_dir, link))
    return bool(link) and any(is_below(path, root) for root in request.roots)


def _list_stores(source: str, name: str) -> list[tuple[str, str]]:
    """Return the object stores of a git dir, its own first, each after the name that its hard links get."""
    stores = object_links.list_object_stores(os.path.realpath(f"{source}/objects"))
    return [(f"{name}.a{number}" if number else name, store) for number, store in enumerate(stores)]


def find_linked_stores(source: str, name: str) -> dict[str, str]:
    """Return the directories of which a copy has hard links, by the names of the links' directories; not those of submodules."""
    found = {}
    for store_name, store in _list_stores(source, name):
        found[store_name] = store
        found[f"{store_name}.lfs"] = _lfs_objects(os.path.dirname(store))
    return {one: path for one, path in found.items() if os.path.isdir(path)}


def _lfs_objects(git_dir: str) -> str:
    return f"{git_dir}/lfs/objects"


def _link_objects(source: str, copy: str, request: CopyRequest, name: str, result: PrivateCopy) -> None:
    """Give the copy an empty object store with hard-linked alternates, and LFS objects next to them."""
    os.makedirs(f"{copy}/objects/info")
    os.mkdir(f"{copy}/objects/pack")
    inside = []
    for store_name, store in _list_stores(source, name):
        inside.append(f"{RUN}/git/{store_name}/objects")
        if os.path.isdir(store):
            outside = (f"{request.outside_prefix}-{store_name}", request.outside_list)
            result.stores.append(
                (
                    object_links.link_store(store, f"{request.links_dir}/{store_name}", outside) if request.uses_links else store,
                    inside[-1],
                )
            )
            _show_lfs(os.path.dirname(store), request, store_name, result)
    _write(f"{copy}/objects/info/alternates", os.fsencode("".join(f"{store}\n" for store in inside)))


def _show_lfs(git_dir: str, request: CopyRequest, name: str, result: PrivateCopy) -> None:
    """Show LFS objects where git-lfs looks for those of an alternate (git-lfs: fs.go, ObjectReferencePaths)."""
    store = _lfs_objects(git_dir)
    if os.path.isdir(store):
        if request.uses_links:
            store = object_links.link_store(
                store, f"{request.links_dir}/{name}.lfs", (f"{request.outside_prefix}-{name}.lfs", request.outside_list)
            )
        result.lfs_stores.append((store, f"{RUN}/git/{name}/lfs/objects"))


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    os.write(fd, data)
    os.close(fd)
