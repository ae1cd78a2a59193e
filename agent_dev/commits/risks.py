"""Risks of the commits that a merge would import, assessed before anything is changed."""

from collections.abc import Collection, Iterator, Mapping

from agent_dev.agent_git import refs
from agent_dev.commits import prefetch, report
from agent_dev.commits.assess import CommitRules, PathRisks
from agent_dev.commits.destinations import ImportContext, IncomingCommits
from agent_dev.commits.prefetch import diff_commits
from agent_dev.fs.entry import Key
from agent_dev.git import commit_reader
from agent_dev.git.formats import lfs_pointer
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.merge import escaping_links
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Risk
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.risk import commit_risks
from agent_dev.risk import load as risk_load
from agent_dev.session import store


@dataclass(frozen=True, slots=True)
class RiskyFile:
    """A file of a commit that needs review. `commit`: its id in the session, "" for the difference between first and last."""

    commit: str
    key: Key
    risks: tuple[Risk, ...]


def find_commit_risks(
    review: Review,
    root: int,
    commit: ParsedCommit,
    judged: Mapping[bytes, tuple[Risk, ...]],
    worktree_only: Collection[bytes],
) -> Iterator[tuple[bytes, tuple[Risk, ...]]]:
    """Yield a commit's risky paths: by its own files, and at `worktree_only` paths also by the session's work tree."""
    table = review.assess(Key(root, path) for path in worktree_only).by_key() if worktree_only else {}
    for file in commit.changed_files:
        change = table.get(Key(root, file.path)) if file.path in worktree_only else None
        risks = (*(change.risks if change is not None else ()), *judged.get(file.path, ()))
        if risks:
            yield file.path, tuple({risk.rule: risk for risk in risks}.values())


def find_risky_files(work: ImportContext, incoming: IncomingCommits) -> tuple[RiskyFile, ...]:
    """Return the risky files of commits, the oldest commit first, each path once per commit. Raises CommandFailed.

    The difference between the first and the last commit is assessed, too: a merge commit may add changes to its parents. An LFS
    content too large to be read is no risk: large files are what LFS is for.
    """
    commits = commit_reader.add_changed_files(work.repo, incoming.commits)
    if incoming.end:
        commits = (*commits, ParsedCommit("", changed_files=diff_commits(work.repo, incoming.start, incoming.end)))
    texts = report.read_risk_blobs(work.repo, commit_risks.inspected_blobs(tuple(reversed(commits))))
    rules, leaves = (
        risk_load.load_risk_rules(work.review.environ),
        escaping_links.checker_for_links(commit_risks.link_targets(commits, texts), work.review.real_trees[work.root]),
    )
    rows = []
    reported: set[bytes] = set()
    start = prefetch.resolve_head(refs.read_initial_refs(work.source))
    judged = _assess(work, incoming, commits, texts, report.commit_rules(work.repo, rules, leaves, start))
    for commit in commits:
        pointers = [
            file.path for file in commit.changed_files if lfs_pointer.parse_pointer(texts.get(file.new_oid, b"")) is not None
        ]
        for path, risks in find_commit_risks(work.review, work.root, commit, judged.get(commit.id, {}), pointers):
            relevant = tuple(risk for risk in risks if risk.rule != commit_risks.UNSEEN_RULE) if path in pointers else risks
            if relevant and (commit.id or path not in reported):
                reported.add(path)
                rows.append(RiskyFile(commit.id, Key(work.root, path), relevant))
    return tuple(rows)


def _assess(
    work: ImportContext,
    incoming: IncomingCommits,
    commits: tuple[ParsedCommit, ...],
    texts: Mapping[str, bytes],
    rules: CommitRules,
) -> dict[str, PathRisks]:
    """Return the risks by commit and path; those of the whole difference have the commit ""."""
    similarity = work.review.record.get("rename_similarity", store.DEFAULT_SIMILARITY)
    own = tuple(one for one in commits if one.id)
    found = rules.assess(work.repo, own, texts, commit_reader.find_renames(work.repo, own, similarity))
    for one in (one for one in commits if not one.id):
        parents = (incoming.start,) if incoming.start else ()
        whole = (replace(one, id=incoming.end, parents=parents),)
        renames = commit_reader.find_renames(work.repo, whole, similarity) if parents else {}
        found[""] = rules.assess(work.repo, whole, texts, renames).get(incoming.end, {})
    return found
