"""Create new commits from the agent's, in quarantine: rebase, merge, squash, trailers, the user's signature."""

import os
import zlib
from collections.abc import Mapping, Sequence

from agent_dev.diff.merge3 import ConflictSide
from agent_dev.errors import CannotImport
from agent_dev.git import commit_message, commit_reader, merge_tree_conflict, user_index
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import CommitIdentity, ParsedCommit
from agent_dev.git.formats.packed_blobs import Blob
from agent_dev.git.merge_tree_conflict import (
    DIRECTORY,
    NO_BLOB,
    ConflictResolutions,
    MergeTreeResult,
    PathConflict,
    has_conflict_markers,
)
from agent_dev.git.updates import IndexUpdate
from agent_dev.linux import programs
from agent_dev.quick_dataclass import dataclass, field, replace

_SIGNERS = {"openpgp": ("gpg.program", "gpg"), "ssh": ("gpg.ssh.program", "ssh-keygen"), "x509": ("gpg.x509.program", "gpgsm")}


class ConflictError(Exception):
    """Conflicting changes: their paths, and the subject of the agent's commit."""

    def __init__(self, result: MergeTreeResult, subject: str) -> None:
        super().__init__(subject)
        self.paths, self.conflicts, self.subject = result.paths, result.conflicts, subject


@dataclass(frozen=True, slots=True)
class CommitMaker:
    """Settings for new commits: repository, author and committer (`Name <email> seconds zone`), trailers, signing.

    `signing`: git's signing configuration, empty if the user does not sign; `environ`: the user's. `resolutions`: those of known
    conflicts.
    """

    repo: BareRepository
    author: bytes
    committer: bytes
    trailers: tuple[tuple[str, str], ...] = ()
    signing: tuple[tuple[str, str], ...] = ()
    environ: Mapping[str, str] | None = None
    resolutions: ConflictResolutions = field(default_factory=dict)

    @property
    def rewrites_all(self) -> bool:
        """Return whether every commit changes, even if its parent does not."""
        return bool(self.trailers or self.signing)


def read_signing_config(
    config: Mapping[str, str], environ: dict[str, str], untrusted: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Return the configuration with which git signs for the user; empty if the user does not sign.

    The program is the user's, never one in a directory that an agent can write to. Raises CannotImport if it is not found.
    """
    if config.get("commit.gpgsign", "false").lower() not in ("true", "yes", "on", "1"):
        return ()
    format_name = config.get("gpg.format", "openpgp")
    key, default = _SIGNERS.get(format_name, _SIGNERS["openpgp"])
    name = config.get(key) or config.get(f"gpg.{format_name}.program") or default
    program = programs.find_program(os.path.expanduser(name), environ, untrusted)
    if program is None:
        message = f"commit.gpgSign is set, but {name} was not found"
        raise CannotImport(message=message, hint="git config commit.gpgSign false")
    settings = [(name, value) for name, value in config.items() if name.startswith("gpg.") or name == "user.signingkey"]
    return (*settings, (key, program))


def rebase(maker: CommitMaker, picks: Sequence[ParsedCommit], onto: str) -> str:
    """Rebase commits, the oldest first, onto another one; return the last. Raises ConflictError.

    Changes that `onto` contains already are skipped.
    """
    tip, tree = onto, _tree_of(maker.repo, onto)
    for commit in picks:
        parent = commit.parents[0] if commit.parents else ""
        parent_tree = _tree_of(maker.repo, parent) if parent else ""
        new = commit.tree if parent_tree == tree else _cherry_pick(maker, commit, parent_tree, tree)
        if new == tree and commit.tree != parent_tree:
            continue
        tip = _recreate(maker, new, (tip,), commit)
        tree = new
    return tip


def rewrite(maker: CommitMaker, commits: Sequence[ParsedCommit]) -> str:
    """Recreate commits on the same parents; return the last."""
    new_ids: dict[str, str] = {}
    for commit in commits:
        new_ids[commit.id] = _recreate(
            maker, commit.tree, tuple(new_ids.get(parent, parent) for parent in commit.parents), commit
        )
    return new_ids[commits[-1].id]


def create_merge(maker: CommitMaker, current: str, tip: str, message: bytes) -> str:
    """Create a merge commit of two commits, by the user. Raises ConflictError."""
    tree = _merge_trees(maker, current, tip, "the merge")
    return write_commit(maker, tree, (current, tip), maker.author, commit_message.add_trailers(message, maker.trailers))


def create_squash(maker: CommitMaker, tree: str, parent: str, message: bytes) -> str:
    """Create one commit of a tree, by the user."""
    return write_commit(
        maker, tree, (parent,) if parent else (), maker.author, commit_message.add_trailers(message, maker.trailers)
    )


def _tree_of(repo: BareRepository, commit: str) -> str:
    return commit_reader.read_commits(repo, [commit])[0].tree


def _cherry_pick(maker: CommitMaker, commit: ParsedCommit, parent_tree: str, tree: str) -> str:
    """Return the tree of a cherry-pick; temporary commits give merge-tree its merge base."""
    nobody = b"agent-dev <agent-dev> 0 +0000"
    plain = CommitMaker(maker.repo, nobody, nobody)
    base = write_commit(plain, parent_tree or _empty_tree(maker.repo), (), nobody, b"")
    yours = write_commit(plain, tree, (base,), nobody, b"yours")
    agent = write_commit(plain, commit.tree, (base,), nobody, b"theirs")
    return _merge_trees(maker, yours, agent, commit.subject)


def _empty_tree(repo: BareRepository) -> str:
    return repo.check_output("hash-object", "-t", "tree", "-w", "--stdin").decode().strip()


def _merge_trees(maker: CommitMaker, yours: str, agent: str, subject: str) -> str:
    args = ("merge-tree", "--write-tree", "-z", "--messages", "--allow-unrelated-histories", yours, agent)
    code, output, reason = maker.repo.run(*args)
    if code not in (0, 1):
        raise CannotImport(message=f"git merge-tree failed: {reason}", hint="git 2.38 or newer is required")
    if not code:
        return output.partition(b"\0")[0].decode("ascii").strip()
    conflicts = _complete(maker.repo, merge_tree_conflict.parse_merge_tree(output), yours, agent)
    if not conflicts.conflicts or not maker.resolutions.keys() >= set(conflicts.conflicts):
        raise ConflictError(conflicts, subject)
    return _resolve(maker, conflicts)


def _complete(repo: BareRepository, merge: MergeTreeResult, yours: str, agent: str) -> MergeTreeResult:
    """Add the trees of directories in conflict, and replace blobs that contain git's markers by each side's own file.

    No conflict can be resolved without them: in a renamed directory, the file is elsewhere.
    """
    marked = {oid for oid in merge.maybe_marked if has_conflict_markers(repo.check_output("cat-file", "blob", oid))}
    conflicts = []
    for conflict in merge.conflicts:
        sides = [
            _side_blob(repo, commit, conflict.path, side, marked)
            for commit, side in ((yours, conflict.yours), (agent, conflict.agent))
        ]
        if any(side is None for side in sides):
            return replace(merge, conflicts=())
        is_own = not marked.isdisjoint((conflict.yours[1], conflict.agent[1]))
        conflicts.append(replace(conflict, yours=sides[0] or NO_BLOB, agent=sides[1] or NO_BLOB, is_rename_rename=is_own))
    return replace(merge, conflicts=tuple(conflicts))


def _side_blob(repo: BareRepository, commit: str, path: bytes, side: Blob, marked: set[str]) -> Blob | None:
    """Return a side's own blob if git reported a directory or a merged file; None if the side has no such path."""
    if side[0] != DIRECTORY and side[1] not in marked:
        return side
    fields = repo.check_output("ls-tree", "-z", commit, "--", os.fsdecode(path)).split(b"\t")[0].split(b" ")
    mode, oid = (int(fields[0], 8), fields[2].decode("ascii")) if len(fields) == 3 else (side[0], "")
    return (mode, oid) if oid or mode == DIRECTORY else None


def _resolve(maker: CommitMaker, merge: MergeTreeResult) -> str:
    """Return the tree with resolutions instead of git's markers."""
    copy = user_index.IndexCopy(maker.repo, f"{maker.repo.path}/resolved", {})
    env = {"GIT_INDEX_FILE": copy.path}
    maker.repo.check_output("read-tree", merge.tree, env=env)
    existing = frozenset(maker.repo.check_output("ls-files", "-z", env=env).split(b"\0"))
    changes: dict[bytes, Blob] = {}
    for conflict in merge.conflicts:
        changes |= merge_tree_conflict.resolve_paths(conflict, _resolution_blob(maker, conflict), existing)
    user_index.update_index(copy, tuple(IndexUpdate(path, NO_BLOB, blob) for path, blob in changes.items()))
    return maker.repo.check_output("write-tree", env=env).decode("ascii").strip()


def _resolution_blob(maker: CommitMaker, conflict: PathConflict) -> ConflictSide | Blob:
    resolution = maker.resolutions[conflict]
    if isinstance(resolution, bytes):
        return conflict.mode, maker.repo.check_output("hash-object", "-w", "--stdin", stdin=resolution).decode("ascii").strip()
    return resolution


def _recreate(maker: CommitMaker, tree: str, parents: tuple[str, ...], commit: ParsedCommit) -> str:
    encoding = next((value for name, value in commit.headers if name == b"encoding"), b"")
    author = next((value for name, value in commit.headers if name == b"author"), format_person(commit.author))
    message = commit_message.add_trailers(commit.message, maker.trailers)
    return write_commit(maker, tree, parents, author, message, encoding)


def format_person(one: CommitIdentity) -> bytes:
    """Format a person for a commit header."""
    return f"{one.name} <{one.email}> {one.time} {one.zone}".encode("utf-8", "surrogateescape")


def write_commit(
    maker: CommitMaker, tree: str, parents: tuple[str, ...], author: bytes, message: bytes, encoding: bytes = b""
) -> str:
    """Write a commit into the quarantine and return its id."""
    if maker.signing:
        return _write_signed(maker, tree, parents, author, message)
    data = commit_message.format_commit(tree, parents, author, maker.committer, message, encoding)
    oid = commit_reader.commit_id(data, is_sha256=maker.repo.is_sha256)
    folder = f"{maker.repo.path}/objects/{oid[:2]}"
    os.makedirs(folder, 0o700, exist_ok=True)
    if not os.path.exists(f"{folder}/{oid[2:]}"):
        with open(f"{folder}/{oid[2:]}", "wb") as file:
            file.write(zlib.compress(b"commit %d\0" % len(data) + data, 1))
    return oid


def _write_signed(maker: CommitMaker, tree: str, parents: tuple[str, ...], author: bytes, message: bytes) -> str:
    config = [option for key, value in maker.signing for option in ("-c", f"{key}={value}")]
    env = {name: value for name, value in (maker.environ or {}).items() if not name.startswith("GIT_")}
    for role, line in (("AUTHOR", author), ("COMMITTER", maker.committer)):
        identity, _, stamp = line.rpartition(b"> ")
        name, _, email = identity.partition(b" <")
        seconds, _, zone = stamp.partition(b" ")
        env |= {
            f"GIT_{role}_NAME": os.fsdecode(name),
            f"GIT_{role}_EMAIL": os.fsdecode(email),
            f"GIT_{role}_DATE": f"@{os.fsdecode(seconds)} {os.fsdecode(zone)}",
        }
    parent_options = [option for parent in parents for option in ("-p", parent)]
    code, output, reason = maker.repo.run(*config, "commit-tree", "-S", *parent_options, "-F", "-", tree, stdin=message, env=env)
    if code:
        hint = "to import unsigned commits: git config commit.gpgSign false"
        raise CannotImport(message=f"cannot sign the commit: {reason}", hint=hint)
    return output.decode("ascii").strip()
