"""The agent's private git dir: a copy of everything but locks and object stores, which come as hard links (DESIGN 7).

The user's commits, fetches and prunes during a session then disturb neither side, and nothing that the agent writes into
its copy is ever opened by a git of the host's.
"""

import os

from agent_dev.core.plan import RUN, GitDir
from agent_dev.core.refs import packed_refs, parse_ref
from agent_dev.value import Value

_SKIPPED = ("objects", "lfs", "annex", "agent-dev", "gc.pid", "packed-refs", "refs", "logs", "worktrees", "modules")
_MANY_LOGS = 200  # past that only the logs that git needs for HEAD, the stash and this branch
_LOOSE_ONLY = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")  # per work tree: git never packs them


class Wish(Value):
    """What to copy and where: `source` a git (common) dir, `copy` its private twin on the host, `name` of the stores."""

    source: str
    copy: str
    farm: str  # a new directory for the hard links
    name: str
    linked: str = ""  # the git dir of the linked work tree in use, below source/worktrees


def make(wish: Wish, target: str) -> GitDir:
    """Make the private twin; `target` is where it is bound inside, empty when it lies in an upper."""
    os.mkdir(wish.copy, 0o755)
    os.mkdir(wish.farm, 0o700)
    stores: list[tuple[str, str]] = []
    _git_dir(wish.source, wish.copy, wish, wish.name, stores)
    return GitDir(source=wish.copy, target=target, stores=tuple(stores))


def _git_dir(source: str, copy: str, wish: Wish, name: str, stores: list[tuple[str, str]]) -> None:
    for entry in _entries(source):
        if entry.name not in _SKIPPED:
            _copy_entry(entry, f"{copy}/{entry.name}")
    _copy_refs(source, copy)
    _copy_logs(source, copy)
    _link_objects(source, copy, f"{wish.farm}/{name}", f"{RUN}/objects/{name}", stores)
    _copy_worktrees(source, copy, wish.linked)
    if os.path.isdir(f"{source}/modules"):
        _modules(f"{source}/modules", f"{copy}/modules", wish, f"{name}.m", stores)


def _modules(source: str, copy: str, wish: Wish, name: str, stores: list[tuple[str, str]]) -> None:
    os.mkdir(copy, 0o755)
    for number, entry in enumerate(_entries(source)):
        if entry.is_dir(follow_symlinks=False):
            below = f"{copy}/{entry.name}"
            if os.path.isfile(f"{entry.path}/HEAD"):
                os.mkdir(below, 0o755)
                _git_dir(entry.path, below, wish, f"{name}{number}", stores)
            else:
                _modules(entry.path, below, wish, f"{name}{number}.", stores)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _copy_entry(entry: os.DirEntry[str], copy: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), copy)
    elif entry.is_dir(follow_symlinks=False):
        os.mkdir(copy, 0o755)
        for below in _entries(entry.path):
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


def _copy_refs(source: str, copy: str) -> None:
    """Write all refs as one packed-refs; symbolic ones and those that git keeps loose stay files."""
    packed = packed_refs(_read(f"{source}/packed-refs"))
    os.mkdir(f"{copy}/refs", 0o755)
    if os.path.isfile(f"{source}/refs/heads") or os.path.isdir(f"{source}/reftable"):
        _copy_entries(f"{source}/refs", f"{copy}/refs")
        return
    for name in ("heads", "tags"):
        os.mkdir(f"{copy}/refs/{name}", 0o755)
    loose: dict[str, bytes] = {}
    _collect(f"{source}/refs", "refs", loose)
    for name, data in loose.items():
        value = None if name.startswith(_LOOSE_ONLY) else parse_ref(data)
        if value is None:  # symbolic, or broken: git warns of one broken file, but reads no packed-refs with such a line
            _write(f"{copy}/{name}", data)
        else:
            packed[name] = value
    if packed:
        lines = "".join(f"{value} {name}\n" for name, value in sorted(packed.items(), key=lambda item: os.fsencode(item[0])))
        _write(f"{copy}/packed-refs", os.fsencode("# pack-refs with: sorted \n" + lines))


def _copy_entries(source: str, copy: str) -> None:
    for entry in _entries(source):
        if not os.path.lexists(f"{copy}/{entry.name}"):
            _copy_entry(entry, f"{copy}/{entry.name}")


def _collect(folder: str, name: str, found: dict[str, bytes]) -> None:
    for entry in _entries(folder):
        below = f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            _collect(entry.path, below, found)
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(".lock"):
            found[below] = _read(entry.path)


def _copy_logs(source: str, copy: str) -> None:
    if not os.path.isdir(f"{source}/logs"):
        return
    names: dict[str, bytes] = {}
    _collect(f"{source}/logs", "logs", names)
    if len(names) > _MANY_LOGS:
        head = _read(f"{source}/HEAD").removeprefix(b"ref:").strip()
        wanted = ("logs/HEAD", "logs/refs/stash", "logs/" + os.fsdecode(head))
        names = {name: data for name, data in names.items() if name in wanted}
    for name, data in names.items():
        _write(f"{copy}/{name}", data)


def _copy_worktrees(source: str, copy: str, linked: str) -> None:
    """Copy what linked work trees there are, and the index only of the one in use: others' are not seen inside."""
    entries = _entries(f"{source}/worktrees")
    if entries:
        os.mkdir(f"{copy}/worktrees", 0o755)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            continue
        below = f"{copy}/worktrees/{entry.name}"
        os.mkdir(below, 0o755)
        for part in _entries(entry.path):
            if part.name != "index" or os.path.realpath(entry.path) == os.path.realpath(linked or "/nonexistent"):
                _copy_entry(part, f"{below}/{part.name}")


def _link_objects(source: str, copy: str, farm: str, inside: str, stores: list[tuple[str, str]]) -> None:
    """Give the copy an empty store whose alternate is a farm of hard links, which the user's gc cannot empty."""
    os.makedirs(f"{copy}/objects/info")
    os.mkdir(f"{copy}/objects/pack")
    found = enumerate(_object_stores(os.path.realpath(f"{source}/objects")))
    places = [(place, f"{inside}.a{number}" if number else inside) for number, place in found]
    for number, (place, shown) in enumerate(places):
        if os.path.isdir(place):
            stores.append((_farmed(place, f"{farm}.{number}"), shown))
    _write(f"{copy}/objects/info/alternates", os.fsencode("".join(f"{shown}\n" for _, shown in places)))


def _object_stores(first: str) -> list[str]:
    """Return an object store and all that it borrows from, through others too."""
    stores = [first]
    for store in stores:
        for line in _read(f"{store}/info/alternates").split(b"\n"):
            other = os.path.normpath(os.path.join(store, os.fsdecode(line)))
            if line and not line.startswith(b"#") and other not in stores:
                stores.append(other)
    return stores


def _farmed(store: str, farm: str) -> str:
    """Return a directory of hard links to a store's files; the store itself where links cannot be made."""
    os.mkdir(farm, 0o700)
    try:
        for entry in _entries(store):
            if entry.is_dir(follow_symlinks=False):
                _link_folder(entry.path, f"{farm}/{entry.name}")
    except OSError:
        return store  # another file system, or objects of another owner
    return farm


def _link_folder(source: str, farm: str) -> None:
    os.mkdir(farm, 0o700)
    for entry in _entries(source):
        if entry.name == "alternates":
            continue
        if entry.is_dir(follow_symlinks=False):
            _link_folder(entry.path, f"{farm}/{entry.name}")
        elif entry.is_file(follow_symlinks=False):
            try:
                os.link(entry.path, f"{farm}/{entry.name}", follow_symlinks=False)
            except FileNotFoundError:
                continue  # a temporary file of a running git


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    data = b""
    while piece := os.read(fd, 1 << 20):
        data += piece
    os.close(fd)
    return data


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    os.write(fd, data)
    os.close(fd)
