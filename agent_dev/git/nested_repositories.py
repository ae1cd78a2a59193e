"""Find the git repositories below a directory, and disable those that an agent created.

Git opens a directory as a repository if it contains `HEAD` and, itself or through `commondir`, `objects` and `refs` (setup.c,
is_git_directory). `.git` leads git there: it is that directory, a file that names it, or a link. Without `HEAD` it is no
repository, so renaming that one file disables it, whatever its settings and hooks are.
"""

import os
import stat
from contextlib import ExitStack, suppress

from agent_dev.fs import durable, walk
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import TOO_DEEP, Entry, FileType
from agent_dev.linux import syscalls
from agent_dev.value import Value

DIRECTORY, FILE, LINK = "directory", "file", "link"
DISABLED_SUFFIX = b".agent-dev"  # suffix of renamed files
_GIT = b".git"
_GIT_DIR_NAMES = frozenset((b"head", b"objects", b"refs", b"commondir"))
_MAX_SIZE = 1 << 16


class NestedRepository(Value):
    """An entry that leads git to a repository. `path` is a git directory (`.git` or bare), or a `.git` that is a file or a link.

    `target`: the content of the file or the target of the link.
    """

    path: str
    kind: str
    inode: int
    target: str = ""


class DisabledRepository(Value):
    """A renamed entry: its path before, and its new name."""

    path: str
    new_name: str


def find_repositories(root: str, *, skip: tuple[bytes, ...] = ()) -> tuple[NestedRepository, ...]:
    """Return the repositories below a directory, except those inside another one's git directory. `skip`: names at the top."""
    tree = Tree(root)
    try:
        found = sorted(_search(tree, skip, []), key=lambda one: one.path)
    finally:
        tree.close()
    folders = {one.path for one in found if one.kind == DIRECTORY}
    return tuple(one for one in found if not _is_within(one.path, folders))


def disable_new_repositories(
    root: str, known: tuple[NestedRepository, ...], *, skip: tuple[bytes, ...] = ()
) -> tuple[tuple[DisabledRepository, ...], tuple[str, ...]]:
    """Disable each repository below a directory that is not `known`; a known one may have moved.

    Return the renamed entries, and the paths that could not be read or renamed, with reasons. No program of the agent may be
    running.
    """
    known_ids = {(one.kind, one.inode, one.target) for one in known}
    disabled: list[DisabledRepository] = []
    problems: list[str] = []
    with ExitStack() as stack:
        tree = Tree(root)
        stack.callback(tree.close)
        found = _search_all(tree, skip, problems, stack)
        users = {one.path for one in found if (one.kind, one.inode, one.target) in known_ids}
        for one in found:
            if one.path in users or _is_within(one.path, users):
                continue
            try:
                disabled.append(_rename(tree, one))
            except OSError as error:
                problems.append(f"{one.path}: {error.strerror}")
    return tuple(disabled), tuple(problems)


def find_unmoved(root: str, known: tuple[NestedRepository, ...]) -> tuple[NestedRepository, ...]:
    """Return the known repositories that are still in place."""
    tree = Tree(root)
    try:
        return tuple(one for one in known if _is_unmoved(tree, one))
    finally:
        tree.close()


def _is_unmoved(tree: Tree, one: NestedRepository) -> bool:
    path = os.fsencode(one.path)
    entry = tree.entry_at(path, attributes=False)
    if entry is None or entry.inode != one.inode:
        return False
    return entry.type is FileType.DIRECTORY if one.kind == DIRECTORY else _pointer(tree, path, entry) == one


def _is_within(path: str, folders: set[str]) -> bool:
    above = path.rpartition("/")[0]
    while above:
        if above in folders:
            return True
        above = above.rpartition("/")[0]
    return False


def _search(tree: Tree, skip: tuple[bytes, ...], problems: list[str]) -> list[NestedRepository]:
    shapes: dict[bytes, set[bytes]] = {}
    found: list[NestedRepository] = []
    for one in walk.walk(tree.path, skip=skip, attributes=False, problems=problems):
        folder, _, name = one.path.rpartition(b"/")
        lower_name = name.lower()
        if one.is_too_deep:
            problems.append(f"{os.fsdecode(one.path)}: {TOO_DEEP} searched")
        if lower_name in _GIT_DIR_NAMES:
            shapes.setdefault(folder, set()).add(lower_name)
        elif lower_name == _GIT and one.entry.type in (FileType.FILE, FileType.SYMLINK):
            found.append(_pointer(tree, one.path, one.entry))
    for folder, names in shapes.items():
        if b"head" in names and (b"commondir" in names or names >= {b"objects", b"refs"}):
            inode = os.fstat(tree.directory(folder)).st_ino
            found.append(NestedRepository(os.fsdecode(folder), DIRECTORY, inode))
    return found


def _pointer(tree: Tree, path: bytes, entry: Entry) -> NestedRepository:
    if entry.type is FileType.SYMLINK:
        return NestedRepository(os.fsdecode(path), LINK, entry.inode, os.fsdecode(entry.target))
    content = b""
    with suppress(OSError):  # unreadable for us, so git cannot follow it either
        content = tree.read(path, _MAX_SIZE) or b""
    return NestedRepository(os.fsdecode(path), FILE, entry.inode, os.fsdecode(content))


def _search_all(tree: Tree, skip: tuple[bytes, ...], problems: list[str], stack: ExitStack) -> list[NestedRepository]:
    """Find all repositories; unreadable directories are made readable until `stack` closes."""
    attempted: set[str] = set()
    while True:
        unreadable: list[str] = []
        found = _search(tree, skip, unreadable)
        new = {problem.rpartition(": ")[0] for problem in unreadable} - attempted
        if not sum(_make_readable(tree, os.fsencode(path), stack) for path in new):
            problems += unreadable
            return found
        attempted |= new
        tree.close_directories()


def _make_readable(tree: Tree, path: bytes, stack: ExitStack) -> bool:
    """Make a directory readable until `stack` closes; return False if it is not ours."""
    try:
        fd = syscalls.open_below(tree.fd, path, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY)
    except OSError:
        return False
    stack.callback(os.close, fd)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    try:
        os.chmod(f"/proc/self/fd/{fd}", mode | 0o700)
    except OSError:
        return False
    stack.callback(os.chmod, f"/proc/self/fd/{fd}", mode)
    return True


def _rename(tree: Tree, one: NestedRepository) -> DisabledRepository:
    """Rename the `HEAD` of a git directory, or a `.git` that leads to one."""
    path = os.fsencode(one.path)
    folder, _, name = (path, b"", b"HEAD") if one.kind == DIRECTORY else path.rpartition(b"/")
    folder_fd = tree.directory(folder)
    if one.kind == DIRECTORY:
        name = next(found for found in map(os.fsencode, _list_names(folder_fd)) if found.lower() == b"head")
    mode = stat.S_IMODE(os.fstat(folder_fd).st_mode)
    folder_path = f"/proc/self/fd/{folder_fd}"
    if mode & 0o300 != 0o300:
        os.chmod(folder_path, mode | 0o300)
    try:
        new = _free_name(folder_fd, name)
        durable.rename_new(folder_fd, name, folder_fd, new)
    finally:
        if mode & 0o300 != 0o300:
            os.chmod(folder_path, mode)
    return DisabledRepository(os.fsdecode(folder + b"/" + name if folder else name), os.fsdecode(new))


def _list_names(folder_fd: int) -> list[str]:
    fd = os.open(f"/proc/self/fd/{folder_fd}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _free_name(folder_fd: int, name: bytes) -> bytes:
    existing = set(map(os.fsencode, _list_names(folder_fd)))
    names = (name + DISABLED_SUFFIX + suffix for suffix in (b"", *(b"-%d" % number for number in range(2, 1 << 16))))
    return next(one for one in names if one not in existing)
