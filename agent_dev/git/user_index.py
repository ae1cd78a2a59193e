"""The user's index, read and updated by a git that sees only a copy of it."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import chain

from agent_dev.fs import read_regular
from agent_dev.git import bare
from agent_dev.git.bare import BareRepository
from agent_dev.git.conversion import ATTRIBUTES, Conversion, find_conversion
from agent_dev.git.formats.commit_format import iterate_records
from agent_dev.git.formats.index_format import IndexEntry, IndexUnreadableError, parse_split_index
from agent_dev.git.formats.packed_blobs import Blob
from agent_dev.git.private_copy import copy_file
from agent_dev.git.updates import NO_ENTRY, IndexUpdate
from agent_dev.quick_dataclass import dataclass, replace

_MAX_SIZE = 1 << 20


class UserIndexEntry(bytes):
    """An index entry: its line of `git ls-files -s -v`, without the path. An import of 100,000 files has as many."""

    __slots__ = ()

    @property
    def blob(self) -> Blob:
        """The mode and the id."""
        _, mode, oid, _ = self.split(b" ")
        return int(mode, 8), oid.decode("ascii")

    @property
    def is_skip_worktree(self) -> bool:
        """True for skip-worktree: the file may be missing."""
        return self[:1] in (b"S", b"s")

    @property
    def is_assume_unchanged(self) -> bool:
        """True for assume-unchanged."""
        return self[:1].islower()

    @property
    def is_unmerged(self) -> bool:
        """True for a side of a merge conflict."""
        return not self.endswith(b" 0")


@dataclass(frozen=True, slots=True)
class IndexCopy:
    """A copy of an index in a repository of ours. `entries`: its entries at the requested paths."""

    repo: BareRepository
    path: str
    entries: Mapping[bytes, UserIndexEntry]
    has_attributes: bool = False

    def with_flagged_entries(self) -> "IndexCopy":
        """Return the copy with the entries that have a flag, which an update keeps: all entries need much memory."""
        flagged = {path: one for path, one in self.entries.items() if one.is_skip_worktree or one.is_assume_unchanged}
        return replace(self, entries=flagged)


def copy_index(repo: BareRepository, folder: str, paths: Collection[bytes], name: str = "index") -> IndexCopy:
    """Copy the index of a git dir. Raises OSError, or CommandFailed if git cannot read it."""
    copy = f"{repo.path}/{name}"
    if os.path.lexists(f"{folder}/index"):
        copy_file(f"{folder}/index", copy)
    for entry in os.scandir(folder):
        if entry.name.startswith("sharedindex.") and not os.path.lexists(f"{repo.path}/{entry.name}"):
            copy_file(entry.path, f"{repo.path}/{entry.name}")
    if not paths:
        return IndexCopy(repo, copy, {})
    output = repo.check_output("ls-files", "-s", "-v", "-z", env={"GIT_INDEX_FILE": copy})
    return IndexCopy(repo, copy, _parse_entries(output, paths), has_attributes=b".gitattributes\0" in output)


def _parse_entries(output: bytes, paths: Iterable[bytes]) -> dict[bytes, UserIndexEntry]:
    wanted = {path: path for path in paths}  # for their objects: equal ones would take 7 MB for 100,000
    found: dict[bytes, UserIndexEntry] = {}
    for row in iterate_records(output):
        head, _, path = row.partition(b"\t")
        if path in wanted and head:
            found[wanted[path]] = UserIndexEntry(head)
    return found


def update_index(copy: IndexCopy, moves: Sequence[IndexUpdate]) -> None:
    """Apply updates to a copy; a path keeps its flags. Raises CommandFailed."""
    repo, env = copy.repo, {"GIT_INDEX_FILE": copy.path}
    removals = (b"0 %b\t%b\0" % (repo.null_id.encode(), one.path) for one in moves if one.new == NO_ENTRY)
    additions = (b"%o %b\t%b\0" % (one.new[0], one.new[1].encode(), one.path) for one in moves if one.new != NO_ENTRY)
    args = ("-c", "core.splitIndex=false", "-c", "core.fsync=none", "update-index")  # this copy is made durable later
    rows = BytesIO()  # a list of 100,000 rows would need 12 MB more
    rows.writelines(chain(removals, additions))
    repo.check_output(*args, "-z", "--index-info", stdin=rows.getbuffer(), env=env)
    flagged = [(one.path, copy.entries[one.path]) for one in moves if one.new != NO_ENTRY and one.path in copy.entries]
    for flag, paths in (
        ("--skip-worktree", [path for path, entry in flagged if entry.is_skip_worktree]),
        ("--assume-unchanged", [path for path, entry in flagged if entry.is_assume_unchanged]),
    ):
        if paths:
            stdin = b"".join(path + b"\0" for path in paths)
            repo.check_output(*args, flag, "-z", "--stdin", stdin=stdin, env=env | {"GIT_WORK_TREE": f"{repo.path}/refs"})


def read_clean_entries(copy: IndexCopy) -> tuple[IndexEntry, ...]:
    """Return the entries that git found clean, last changed long enough before the index was written."""
    try:
        with open(copy.path, "rb") as file:
            data, written = file.read(), os.fstat(file.fileno()).st_mtime_ns
        entries = parse_split_index(data, 32 if copy.repo.is_sha256 else 20, partial(_read_shared, copy.repo.path))
        return tuple(one for one in entries if one.mtime < written)
    except (OSError, IndexUnreadableError):
        return ()


def _read_shared(folder: str, name: str) -> bytes:
    with open(f"{folder}/sharedindex.{name}", "rb") as file:
        return file.read()


def may_convert(copy: IndexCopy, common: str, paths: tuple[bytes, ...], config: Mapping[str, str]) -> bool:
    """Return whether any attribute or setting could convert a blob on checkout."""
    keys = ("core.autocrlf", "core.eol", "core.attributesfile")
    has_attributes_file = any(path.endswith(b".gitattributes") for path in paths)
    environ = dict(copy.repo.environ)
    default = f"{environ.get('XDG_CONFIG_HOME') or environ.get('HOME', '') + '/.config'}/git/attributes"
    attribute_files = (f"{common}/info/attributes", default)
    return (
        copy.has_attributes
        or has_attributes_file
        or any(key in config for key in keys)
        or any(map(os.path.lexists, attribute_files))
    )


def read_conversions(
    copy: IndexCopy, common: str, paths: tuple[bytes, ...], config: Mapping[str, str]
) -> dict[bytes, Conversion]:
    """Return the conversions of paths on checkout, by the attributes in a copy and the user's own."""
    if not paths:
        return {}
    own = read_regular.read_regular_file(f"{common}/info/attributes", _MAX_SIZE)
    if own and not os.path.lexists(f"{copy.repo.path}/info"):
        os.mkdir(f"{copy.repo.path}/info", 0o700)
        bare.write_new_file(f"{copy.repo.path}/info/attributes", own)
    environ = dict(copy.repo.environ)
    default = f"{environ.get('XDG_CONFIG_HOME') or environ.get('HOME', '') + '/.config'}/git/attributes"
    attributes_file = os.path.expanduser(config.get("core.attributesfile", "")) or (default if os.path.exists(default) else "")
    args = ("-c", f"core.attributesFile={attributes_file}") if attributes_file else ()
    output = copy.repo.check_output(
        *args,
        "check-attr",
        "--cached",
        "-z",
        "--stdin",
        *ATTRIBUTES,
        stdin=b"".join(path + b"\0" for path in paths),
        env={"GIT_INDEX_FILE": copy.path},
    )
    attributes: dict[bytes, dict[str, str]] = {}
    rows = output.split(b"\0")
    for path, name, value in zip(rows[::3], rows[1::3], rows[2::3], strict=False):
        attributes.setdefault(path, {})[os.fsdecode(name)] = os.fsdecode(value)
    return {path: find_conversion(attributes.get(path, {}), config) for path in paths}
