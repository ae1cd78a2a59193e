"""The agent's private git dir: a copy of everything but locks and object stores, which come as hard links (decision 0005).

The user's commits, fetches and prunes during a session then disturb neither side, and nothing that the agent writes into
its copy is ever opened by a git of the host's.
"""

import os

from agent_dev.fs.rmtree import remove_tree
from agent_dev.git import loose_ref_cache as kept_refs
from agent_dev.git import object_links as farm
from agent_dev.git import repository as repo
from agent_dev.git.formats.ref_format import packed_refs, parse_ref
from agent_dev.git.loose_ref_cache import Kept, Look
from agent_dev.sandbox.plan import RUN, GitDir, is_below
from agent_dev.value import Value

_SKIPPED = ("objects", "lfs", "annex", "agent-dev", "gc.pid", "packed-refs", "refs", "logs", "worktrees", "modules")
_MANY_LOGS = 200  # past that only the logs that git needs for HEAD, the stash and this branch
_MANY_REFS = 100  # past that loose refs are packed, else they are copied as they are
_LOOSE_ONLY = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")  # per work tree: git never packs them


class Wish(Value):
    """What to copy and where: `source` a git (common) dir, `copy` its private twin on the host, `name` of the stores."""

    source: str
    copy: str
    farm: str  # a new directory for the hard links
    name: str
    linked: str = ""  # the git dir of the linked work tree in use, below source/worktrees
    roots: tuple[str, ...] = ()  # what is seen inside: work trees that lie there are usable, too
    beside: str = "farm"  # what a farm is called that must lie beside a store
    git: str = ""  # the user's, where refs are in a reftable
    environ: tuple[tuple[str, str], ...] = ()
    cache: str = ""  # where refs by the thousand are kept for the next start

    @property
    def note(self) -> str:
        """The file that lists such farms."""
        return f"{self.farm}.elsewhere"


class Found:
    """What is shown inside beside the copy, in pairs of (on the host, inside): object stores, and LFS objects."""

    def __init__(self) -> None:
        self.stores: list[tuple[str, str]] = []
        self.large: list[tuple[str, str]] = []


def make(wish: Wish, target: str) -> GitDir:
    """Make the private twin; `target` is where it is bound inside, empty when it lies in an upper."""
    os.mkdir(wish.copy, 0o755)
    os.makedirs(wish.farm, 0o700, exist_ok=True)
    found = Found()
    _git_dir(wish.source, wish.copy, wish, wish.name, found)
    return GitDir(source=wish.copy, target=target, stores=tuple(found.stores), large=tuple(found.large))


def _git_dir(source: str, copy: str, wish: Wish, name: str, found: Found) -> None:
    told = _told(source, wish)
    is_unseen = source == wish.source and wish.linked and not any(is_below(source, root) for root in wish.roots)
    for entry in farm.entries(source):
        is_told = entry.name in told or (told and entry.name == "reftable")
        if entry.name not in _SKIPPED and not is_told and not (is_unseen and _is_index(entry.name)):
            _copy_entry(entry, f"{copy}/{entry.name}")
    if told:
        _write_refs(copy, told)
    else:
        _copy_refs(source, copy, wish)
        _copy_logs(source, copy)
    _copy_worktrees(source, copy, wish, name, found)
    _link_objects(source, copy, wish, name, found)  # after all that names objects
    _modules(source, copy, wish, f"{name}.m", found)


def _told(source: str, wish: Wish) -> dict[str, bytes]:
    """Return the files that a git dir would have if its refs were files; nothing where they are."""
    if not (wish.git and repo.has_reftable(source)):
        return {}
    from agent_dev.git import reftable  # few have one: other starts need nothing of it

    return reftable.files(reftable.Reader(wish.git, wish.environ), source)


def _write_refs(copy: str, files: dict[str, bytes]) -> None:
    for name in ("heads", "tags"):
        os.makedirs(f"{copy}/refs/{name}", 0o755)
    for name, data in files.items():
        _write(f"{copy}/{name}", data)


def _is_index(name: str) -> bool:
    return name == "index" or name.startswith("sharedindex.")


def _modules(source: str, copy: str, wish: Wish, name: str, found: Found) -> None:
    """Make twins of the git dirs of submodules, at any depth of names with slashes."""
    if not os.path.isdir(f"{source}/modules"):
        return
    os.mkdir(f"{copy}/modules", 0o755)
    waiting = [f"modules/{entry.name}" for entry in farm.entries(f"{source}/modules") if entry.is_dir(follow_symlinks=False)]
    for number, path in enumerate(waiting):
        os.mkdir(f"{copy}/{path}", 0o755)
        if os.path.isfile(f"{source}/{path}/HEAD"):
            _git_dir(f"{source}/{path}", f"{copy}/{path}", wish, f"{name}{number}", found)
        else:
            below = farm.entries(f"{source}/{path}")
            waiting += [f"{path}/{entry.name}" for entry in below if entry.is_dir(follow_symlinks=False)]


def _copy_entry(entry: os.DirEntry[str], copy: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), copy)
    elif entry.is_dir(follow_symlinks=False):
        os.mkdir(copy, 0o755)
        for below in farm.entries(entry.path):
            _copy_entry(below, f"{copy}/{below.name}")
    elif entry.is_file(follow_symlinks=False) and not entry.name.endswith((".lock", ".sample")):
        copy_file(entry.path, copy)


def copy_file(source: str, copy: str) -> None:
    """Copy bytes, permissions and times: an index with a new mtime would make git miss same-second edits."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return  # git renamed a temporary file meanwhile
    try:
        found = os.fstat(fd)
        out = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 | found.st_mode & 0o777)
        try:
            while piece := os.read(fd, 1 << 20):
                os.write(out, piece)
            os.utime(out, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(out)
    finally:
        os.close(fd)


def _copy_refs(source: str, copy: str, wish: Wish) -> None:
    """Write all refs as one packed-refs; symbolic ones and those that git keeps loose stay files."""
    os.mkdir(f"{copy}/refs", 0o755)
    if os.path.isfile(f"{source}/refs/heads") or os.path.isdir(f"{source}/reftable"):
        _copy_entries(f"{source}/refs", f"{copy}/refs")
        return
    for name in ("heads", "tags"):
        os.mkdir(f"{copy}/refs/{name}", 0o755)
    look = Look(source, wish.cache)
    kept = look.known()
    if kept is None:
        kept = _read_refs(source, look)
    else:
        kept.apart.update(_current(source, wish))
    for name, data in kept.apart.items():
        _write(f"{copy}/{name}", data)
    if kept.packed:
        _write(f"{copy}/packed-refs", kept.packed)


def _current(source: str, wish: Wish) -> dict[str, bytes]:
    """Return the current branch where it is a file: of all refs the likeliest that somebody writes by hand."""
    head = farm.read(f"{wish.linked if wish.linked and source == wish.source else source}/HEAD")
    name = os.fsdecode(head.removeprefix(b"ref:").strip())
    data = farm.read(f"{source}/{name}") if name.startswith("refs/heads/") and ".." not in name else b""
    return {name: data} if data else {}


def _read_refs(source: str, look: Look) -> Kept:
    """Read all refs: a few stay as they are, more become one packed-refs."""
    loose: dict[str, bytes] = {}
    _collect(source, "refs", loose, look)
    packed = farm.read(f"{source}/packed-refs")  # after them: what is packed meanwhile is in both, or here
    if len(loose) <= _MANY_REFS:
        return Kept(packed, loose)
    kept = _pack(loose, packed)
    if len(loose) >= kept_refs.FEWEST:
        look.keep(kept)
    return kept


def _pack(loose: dict[str, bytes], data: bytes) -> Kept:
    """Return refs as one packed-refs, and those that stay files: symbolic ones, and those that git keeps loose."""
    left, packed = {}, packed_refs(data)
    for name, text in loose.items():
        value = None if name.startswith(_LOOSE_ONLY) else parse_ref(text)
        if value is None:  # symbolic, or broken: git warns of one broken file, but reads no packed-refs with such a line
            left[name] = text
        else:
            packed[name] = value
    lines = "".join(f"{value} {name}\n" for name, value in sorted(packed.items(), key=lambda item: os.fsencode(item[0])))
    return Kept(os.fsencode("# pack-refs with: sorted \n" + lines), left)


def _copy_entries(source: str, copy: str) -> None:
    for entry in farm.entries(source):
        if not os.path.lexists(f"{copy}/{entry.name}"):
            _copy_entry(entry, f"{copy}/{entry.name}")


def _collect(source: str, name: str, found: dict[str, bytes], look: Look) -> None:
    folder, files = f"{source}/{name}", []
    look.see(name)
    for entry in farm.entries(folder):
        if entry.is_dir(follow_symlinks=False):
            _collect(source, f"{name}/{entry.name}", found, look)
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(".lock"):
            files.append(entry.name)
    if files:
        found |= {f"{name}/{file}": data for file, data in farm.read_files(folder, files).items()}


def _copy_logs(source: str, copy: str) -> None:
    if not os.path.isdir(f"{source}/logs"):
        return
    names = _names(f"{source}/logs", "logs", _MANY_LOGS + 1)
    if len(names) > _MANY_LOGS:
        head = farm.read(f"{source}/HEAD").removeprefix(b"ref:").strip()
        names = ["logs/HEAD", "logs/refs/stash", "logs/" + os.fsdecode(head)]
    for name in names:
        data = farm.read(f"{source}/{name}")
        if data or os.path.lexists(f"{source}/{name}"):
            _write(f"{copy}/{name}", data)


def _names(folder: str, name: str, most: int) -> list[str]:
    """Return the names of files below a directory, no more than so many."""
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if len(found) >= most:
                break
            below = f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                found += _names(entry.path, below, most - len(found))
            elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(".lock"):
                found.append(below)
    return found


def _copy_worktrees(source: str, copy: str, wish: Wish, name: str, found: Found) -> None:
    """Copy what linked work trees there are; the index and the submodules only of those that are seen inside."""
    entries = [entry for entry in farm.entries(f"{source}/worktrees") if entry.is_dir(follow_symlinks=False)]
    if entries:
        os.makedirs(f"{copy}/worktrees", 0o755, exist_ok=True)
    for number, entry in enumerate(entries):
        below, is_seen = f"{copy}/worktrees/{entry.name}", _is_seen(entry.path, wish)
        is_told = os.path.isdir(below)  # its refs are no files
        os.makedirs(below, 0o755, exist_ok=True)
        for part in farm.entries(entry.path):
            is_ref = is_told and (part.name in ("refs", "reftable") or os.path.lexists(f"{below}/{part.name}"))
            if part.name != "modules" and not is_ref and (is_seen or not _is_index(part.name)):
                _copy_entry(part, f"{below}/{part.name}")
        if not _is_whole(below):
            remove_tree(below)
        elif is_seen:
            _modules(entry.path, below, wish, f"{name}.w{number}.m", found)


def _is_whole(git_dir: str) -> bool:
    """Whether a linked work tree is not one that the user's git is just making or removing: half of one stops every command."""
    parts = [farm.read(f"{git_dir}/{name}") for name in ("HEAD", "commondir", "gitdir")]
    return all(parts) and bool(parts[0].strip(b"0\n"))


def _is_seen(git_dir: str, wish: Wish) -> bool:
    """Whether a linked work tree is the one in use, or lies in the root."""
    if wish.linked and os.path.realpath(git_dir) == os.path.realpath(wish.linked):
        return True
    link = os.fsdecode(farm.read(f"{git_dir}/gitdir")).strip()
    place = os.path.normpath(os.path.join(git_dir, link))
    return bool(link) and any(is_below(place, root) for root in wish.roots)


def _link_objects(source: str, copy: str, wish: Wish, name: str, found: Found) -> None:
    """Give the copy an empty store whose alternates are farms of hard links, and its large files beside them."""
    os.makedirs(f"{copy}/objects/info")
    os.mkdir(f"{copy}/objects/pack")
    shown = []
    for number, place in enumerate(farm.object_stores(os.path.realpath(f"{source}/objects"))):
        full = f"{name}.a{number}" if number else name
        shown.append(f"{RUN}/git/{full}/objects")
        if os.path.isdir(place):
            found.stores.append((farm.grow(place, f"{wish.farm}/{full}", (f"{wish.beside}-{full}", wish.note)), shown[-1]))
            _show_large(os.path.dirname(place), wish, full, found)
    _write(f"{copy}/objects/info/alternates", os.fsencode("".join(f"{place}\n" for place in shown)))


def _show_large(git_dir: str, wish: Wish, name: str, found: Found) -> None:
    """Show LFS objects where git-lfs looks for those of an alternate (git-lfs: fs.go, ObjectReferencePaths)."""
    if os.path.isdir(f"{git_dir}/lfs/objects"):
        place = farm.grow(f"{git_dir}/lfs/objects", f"{wish.farm}/{name}.lfs", (f"{wish.beside}-{name}.lfs", wish.note))
        found.large.append((place, f"{RUN}/git/{name}/lfs/objects"))


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    os.write(fd, data)
    os.close(fd)
