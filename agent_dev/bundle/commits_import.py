"""Create the private git directory of an imported session: a private copy, as for a run, with the agent's commits and refs."""

import os
from collections.abc import Mapping
from typing import Any

from agent_dev.agent_git import current_refs, refs
from agent_dev.agent_git.repositories import AgentRepository
from agent_dev.bundle.manifest import require
from agent_dev.errors import BadBundle
from agent_dev.fs import cache
from agent_dev.fs.rmtree import remove_tree
from agent_dev.git import bare, config_file, private_copy
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.git.object_links import read_file
from agent_dev.git.repository import WorkTreeGitDir
from agent_dev.quick_dataclass import dataclass
from agent_dev.run import private_git
from agent_dev.session import store

_REF_FOLDERS = ("", "heads", "tags")


@dataclass(frozen=True, slots=True)
class RootGit:
    """A root of an imported session and its git directory."""

    number: int
    path: str
    git: WorkTreeGitDir


def copy_git_dir(
    session: store.Session, root: RootGit, roots: tuple[str, ...], program: str, environ: dict[str, str]
) -> PrivateGitDir:
    """Create the private copy of a root's git directory. Raises OSError, UnusableStateDirectory."""
    os.makedirs(f"{session.folder}/git", 0o700, exist_ok=True)
    upper = session.root(root.number, root.path).upper
    copy = f"{upper}/.git" if root.git.inside else f"{session.folder}/git/{root.number}"
    request = private_copy.CopyRequest(
        source=root.git.common,
        copy=copy,
        links_dir=f"{session.folder}/objects",
        store_name=str(root.number),
        linked_git_dir=root.git.folder if root.git.is_linked else "",
        roots=roots,
        outside_prefix=session.id,
        program=program,
        environ=tuple(environ.items()),
        cache_dir=cache.folder(environ),
    )
    made = private_copy.create_private_copy(request, "" if root.git.inside else root.git.common)
    if root.git.inside:
        private_git.make_opaque(copy, session)
    return made


@dataclass(frozen=True, slots=True)
class CommitsImport:
    """The commits of a repository: their row of the manifest, the file with the pack ("" for none), and the path of git."""

    value: dict[str, Any]
    pack: str
    program: str


def import_commits(source: AgentRepository | None, wanted: CommitsImport, environ: dict[str, str]) -> None:
    """Add the agent's objects and refs to a private git directory, and record its initial refs.

    The index becomes that of the agent's HEAD: with the user's, the next commit of a resumed agent would revert its earlier ones.
    Raises BadBundle.
    """
    if wanted.value["before"] == wanted.value["after"]:
        return
    if source is None:
        raise BadBundle(reason="it has commits, but this directory is not a git repository")
    folder = source.private_dir
    is_sha256 = config_file.is_sha256(read_file(f"{source.common}/config"))
    require(is_sha256 == (wanted.value["format"] == "sha256"), "its object format differs from that of this repository")
    here = current_refs.read_refs(source, environ)
    before, after = here | wanted.value["before"], dict(here)
    for name in wanted.value["before"]:
        after.pop(name, None)
    after |= wanted.value["after"]
    for values in (before, after):
        _check_nesting(values)
    head = f"{folder}/worktrees/{source.linked_name}" if source.linked_name else folder
    stores = (*source.stores, f"{source.common}/objects")
    with bare.temporary_directory(source.session.folder) as place:
        checked = bare.create(f"{place}/checked", wanted.program, is_sha256=is_sha256, stores=stores)
        _take_objects(checked, wanted, f"{folder}/objects/pack", f"{head}/index", _head_commit(after))
    _write_refs(folder, head, before)
    refs.record_refs(source)
    _write_refs(folder, head, after)


def _check_nesting(values: Mapping[str, str]) -> None:
    """Raise BadBundle if one ref's name is a directory of another's."""
    for name in values:
        parts = name.split("/")
        above = next((one for number in range(2, len(parts)) if (one := "/".join(parts[:number])) in values), "")
        require(not above, f"its ref {name[:80]} conflicts with {above[:80]}")


def _take_objects(checked: bare.BareRepository, wanted: CommitsImport, packs: str, index: str, tip: str) -> None:
    """Check the pack in a temporary repository, then move it, and the index of the commit `tip`, to their places."""
    if wanted.pack:
        with open(wanted.pack, "rb") as file:
            words = ("-c", "core.fsync=none", "index-pack", "--stdin", "--fix-thin", "--strict")
            code, _, reason = checked.run(*words, stdin=file.read(), seconds=bare.IMPORT_SECONDS)
        require(not code, f"git does not accept its commits ({reason}); is this a clone of the same repository?")
    _require_objects(checked, wanted.value["after"])
    if tip:
        new_index = f"{checked.path}/index"
        code, _, reason = checked.run("read-tree", tip, env={"GIT_INDEX_FILE": new_index})
        require(not code, f"its commits are incomplete ({reason})")
        os.rename(new_index, index)
    for name in os.listdir(f"{checked.path}/objects/pack"):
        os.rename(f"{checked.path}/objects/pack/{name}", f"{packs}/{name}")


def _require_objects(repo: bare.BareRepository, values: Mapping[str, str]) -> None:
    """Raise BadBundle unless every ref of the agent points to an object that exists."""
    ids = sorted({value for value in values.values() if not value.startswith("ref: ")})
    if ids:
        answer = repo.check_output("cat-file", "--batch-check", stdin="".join(f"{oid}\n" for oid in ids).encode())
        missing = [line.split()[0].decode("ascii", "replace") for line in answer.splitlines() if line.endswith(b"missing")]
        require(
            not missing,
            f"commit {missing[:1]} is not in this repository; fetch it first, or import into a clone of the same repository",
        )


def _head_commit(values: Mapping[str, str]) -> str:
    head = values.get("HEAD", "")
    return values.get(head.removeprefix("ref: "), "") if head.startswith("ref: ") else head


def _write_refs(folder: str, head: str, values: Mapping[str, str]) -> None:
    """Write all refs to one packed-refs file, and HEAD."""
    remove_tree(f"{folder}/refs")
    for name in _REF_FOLDERS:
        os.mkdir(f"{folder}/refs/{name}", 0o755)
    rows = sorted((os.fsencode(name), value) for name, value in values.items() if name != "HEAD")
    lines = [b"%b %b\n" % (value.encode("ascii"), name) for name, value in rows]
    _replace(f"{folder}/packed-refs", b"# pack-refs with: sorted \n" + b"".join(lines))
    if "HEAD" in values:
        _replace(f"{head}/HEAD", os.fsencode(values["HEAD"]) + b"\n")


def _replace(path: str, data: bytes) -> None:
    with open(f"{path}.new", "wb") as file:
        file.write(data)
    os.rename(f"{path}.new", path)
