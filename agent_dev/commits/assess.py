"""Risks of commits by the rules; a file that a commit renamed or copied is compared with its origin."""

from collections.abc import Callable, Mapping
from functools import partial

from agent_dev.errors import CommandFailed
from agent_dev.git import commit_reader
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.overlay.changes import Risk
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.risk.commit_risks import FileOrigin, Texts, risks_of_commit
from agent_dev.risk.risk_rules import LeavesRoot, RiskRule

PathRisks = dict[bytes, tuple[Risk, ...]]
Renames = Mapping[str, Mapping[bytes, bytes]]
_MAX_COPYING_COMMITS = 50  # commits in which copies are searched, which reads a whole tree each


@dataclass(frozen=True, slots=True)
class CommitRules:
    """The rules. `read`: reads blobs by id, without those that cannot be read or are too large.

    `list_initial`: returns modes and ids of the files in the commit at which the session started. Only these count as origins:
    a file that another commit of the agent added may be as risky as its copy, and may not be imported.
    """

    rules: tuple[RiskRule, ...]
    leaves: LeavesRoot
    read: Callable[[tuple[tuple[str, ...], ...]], Mapping[str, bytes]]
    list_initial: Callable[[list[bytes]], Mapping[bytes, tuple[int, str] | None]]

    def assess(
        self, repo: BareRepository, commits: tuple[ParsedCommit, ...], texts: Texts, renames: Renames
    ) -> dict[str, PathRisks]:
        """Return the risks of commits, by id and path. `texts`: their blobs; `renames`: old paths by new ones, by commit."""
        found = {one.id: risks_of_commit(one, self.rules, texts, self.leaves) for one in commits}
        origins = self._initial(_origins(repo, commits, found, renames))
        unknown = {side.oid: None for sides in origins.values() for side in sides.values() if side.oid not in texts}
        others = self.read(tuple((oid,) for oid in unknown)) if unknown else {}
        for one in commits:
            sides = origins.get(one.id, {})
            if sides:
                origin_of = partial(_origin_with_data, sides, texts, others)
                found[one.id] = risks_of_commit(one, self.rules, texts, self.leaves, origin_of)
        return {oid: risks for oid, risks in found.items() if risks}

    def _initial(self, origins: dict[str, dict[bytes, FileOrigin]]) -> dict[str, dict[bytes, FileOrigin]]:
        paths = {side.path: None for sides in origins.values() for side in sides.values()}
        initial = self.list_initial(list(paths)) if paths else {}
        return {
            oid: {path: side for path, side in sides.items() if initial.get(side.path) == (side.mode, side.oid)}
            for oid, sides in origins.items()
        }


def _origin_with_data(
    sides: Mapping[bytes, FileOrigin], texts: Texts, others: Mapping[str, bytes], path: bytes
) -> FileOrigin | None:
    """Return the origin of a file with its data, when the rules need it: those of 10,000 renamed files need 18 MB."""
    side = sides.get(path)
    return replace(side, data=texts.get(side.oid, others.get(side.oid))) if side is not None else None


def _origins(
    repo: BareRepository, commits: tuple[ParsedCommit, ...], risky: Mapping[str, PathRisks], renames: Renames
) -> dict[str, dict[bytes, FileOrigin]]:
    """Return the origins of risky new files, by commit and path."""
    found: dict[str, dict[bytes, FileOrigin]] = {}
    rest = []
    for commit in commits:
        new = [one for one in commit.changed_files if not one.old_mode and one.path in risky[commit.id]]
        old_paths = renames.get(commit.id, {})
        sources = frozenset(old_paths[one.path] for one in new if one.path in old_paths)
        table = {one.path: one for one in commit.changed_files if one.path in sources} if sources else {}
        old = {one.path: table.get(old_paths.get(one.path, b"")) for one in new}
        known = {path: FileOrigin(one.path, one.old_mode, one.old_oid) for path, one in old.items() if one is not None}
        if known:
            found[commit.id] = known
        if len(known) < len(new):
            rest.append(commit)
    try:
        copies = commit_reader.find_copies(repo, tuple(rest[:_MAX_COPYING_COMMITS]))
    except CommandFailed:
        copies = {}  # the risks stay
    for commit in rest:
        same = {one.path: FileOrigin(one.old_path, one.old_mode, one.oid) for one in copies.get(commit.id, ())}
        if same:
            found[commit.id] = same | found.get(commit.id, {})
    return found
