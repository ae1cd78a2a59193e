"""Risks of a commit: the rules for files, and updated submodules."""

from collections.abc import Callable, Iterable, Mapping

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git.formats.commit_format import ParsedCommit, TreeChange
from agent_dev.overlay.changes import Change, ChangeKind, Risk
from agent_dev.overlay.symlinks import escapes_root
from agent_dev.quick_dataclass import dataclass
from agent_dev.risk import deletions
from agent_dev.risk.content import MAX_INSPECTED_SIZE
from agent_dev.risk.risk_rules import LeavesRoot, Origin, RiskRule, find_risks

GITLINK, _SYMLINK = 0o160000, 0o120000
SUBMODULE_MOVED = Risk(
    "submodule-moved",
    "The next update of the submodule checks out another commit; what is built or run from it changes.",
    "the commits between the two, and their branch",
)
UNSEEN_RULE = "unseen"  # the rule's name; it does not stop an import because of a Git LFS object, whose pointer states the size

Texts = Mapping[str, bytes]  # blobs by id, as far as they are inspected


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """The file that a commit renamed or copied to another path: a path, mode and blob of the parent. `data`: if inspected."""

    path: bytes
    mode: int
    oid: str
    data: bytes | None = None


def risks_of_commit(
    commit: ParsedCommit,
    rules: tuple[RiskRule, ...],
    texts: Texts,
    leaves: LeavesRoot = escapes_root,
    origin_of: Callable[[bytes], FileOrigin | None] = lambda _: None,
) -> dict[bytes, tuple[Risk, ...]]:
    """Return the risks of a commit's files by path, without files that have none; a file not in `texts` counts as too large.

    `origin_of`: of a renamed or copied file, by its new path; its data is used at once.
    """
    assessed = ((one.path, _risks(one, rules, texts, leaves, origin_of(one.path))) for one in commit.changed_files)
    found = {path: risks for path, risks in assessed if risks}
    deleted = [one for one in commit.changed_files if not one.new_mode or one.kind == ChangeKind.RETYPED]
    stems = deletions.changed_stems((one.path for one in commit.changed_files if one.new_mode), (one.path for one in deleted))
    for one in deleted:
        harmless = {deletions.UNRESTORABLE_RULE}  # the parent commit has the file
        if not deletions.is_test_of(one.path, stems):
            harmless.add(deletions.TEST_RULE)
        found[one.path] = tuple(risk for risk in found.get(one.path, ()) if risk.rule not in harmless)
    return {path: risks for path, risks in found.items() if risks}


def link_targets(commits: Iterable[ParsedCommit], texts: Texts) -> dict[bytes, set[bytes | None]]:
    """Return the symlink targets that commits set, by path; None for anything other than a symlink."""
    changed = [one for commit in commits for one in commit.changed_files]
    found: dict[bytes, set[bytes | None]] = {one.path: set() for one in changed if one.new_mode == _SYMLINK}
    for one in changed if found else ():
        if one.path in found:
            found[one.path].add(texts.get(one.new_oid, b"") if one.new_mode == _SYMLINK else None)
    return found


def _risks(
    one: TreeChange, rules: tuple[RiskRule, ...], texts: Texts, leaves: LeavesRoot, source: FileOrigin | None
) -> tuple[Risk, ...]:
    if one.new_mode == GITLINK:
        return (SUBMODULE_MOVED,)
    if one.old_mode == GITLINK and not one.new_mode:
        return ()  # updates no longer check out anything from it
    if one.path == b".gitmodules" and texts.get(one.new_oid) == b"" and one.old_mode != _SYMLINK != one.new_mode:
        return ()  # empty, as `git rm` of the last submodule leaves it
    before = _entry(0 if one.old_mode == GITLINK else one.old_mode, texts.get(one.old_oid))
    after = _entry(one.new_mode, texts.get(one.new_oid))
    data = texts.get(one.new_oid, b"") if after is not None and after.type is FileType.FILE else b""
    change = Change(Key(0, one.path), ChangeKind(one.kind), before, after)
    return find_risks(change, rules, data, _origin(source) or (lambda: texts.get(one.old_oid, b"")), leaves=leaves)


def _origin(source: FileOrigin | None) -> Origin | None:
    entry = _entry(source.mode, source.data) if source is not None else None
    return Origin(source.path, entry, lambda: source.data or b"") if source is not None and entry is not None else None


def _entry(mode: int, data: bytes | None) -> Entry | None:
    if not mode:
        return None
    size = MAX_INSPECTED_SIZE + 1 if data is None else len(data)
    if mode == _SYMLINK:
        return Entry(FileType.SYMLINK, 0o777, size, target=data or b"")
    return Entry(FileType.FILE, mode & 0o777, size)


def inspected_blobs(commits: tuple[ParsedCommit, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the blobs that rules inspect, in pairs per file: the new and the old one."""
    pairs = {
        tuple(oid for mode, oid in ((one.new_mode, one.new_oid), (one.old_mode, one.old_oid)) if mode): None
        for commit in commits
        for one in commit.changed_files
        if one.new_mode and GITLINK not in (one.new_mode, one.old_mode)
    }
    return tuple(pairs)
