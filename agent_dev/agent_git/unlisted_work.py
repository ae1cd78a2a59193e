"""Work in a session's git directories that is not among its commits: in submodules, or reachable from a reflog only."""

from collections.abc import Iterable

from agent_dev.overlay.labels import format_count
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store

_LISTED = "log --all --reflog"


@dataclass(frozen=True, slots=True)
class UnlistedWork:
    """Work in one git directory that you do not have. `path`: the submodule, "" for the repository itself.

    `commits`: on its branches, tags or HEAD; `unreferenced`: only in a reflog, counted if there are no others; `stashes`:
    stash entries; `refs`: changed branches and tags; `problem`: why it cannot be read, else "".
    """

    root: str
    path: str
    commits: int = 0
    unreferenced: int = 0
    stashes: int = 0
    refs: int = 0
    problem: str = ""
    git_dir: str = ""  # the agent's git directory, if no sandbox can show it: the agent worked in the real tree

    @property
    def has_content(self) -> bool:
        """True if it has commits or stashes, which only the session has."""
        return bool(self.commits or self.unreferenced or self.stashes or self.problem)

    def describe(self, session: str) -> str:
        """Return one line, with the command that lists it."""
        from shlex import quote  # deferred: imports re, and few agents commit

        place = f"submodule {self.path}" if self.path else "the repository"
        if self.problem:
            return f"{place} cannot be read: {self.problem}"
        parts = [format_count(self.commits, "commit")] if self.commits else []
        parts += [f"{format_count(self.unreferenced, 'commit')} on no branch"] if self.unreferenced else []
        parts += ["1 stash" if self.stashes == 1 else f"{self.stashes:,} stashes"] if self.stashes else []
        parts = parts or [format_count(self.refs, "changed ref")]
        where = f"-C {quote(self.path)} " if self.path else ""
        if self.git_dir:
            return f"{place} has {', '.join(parts)} (in {self.git_dir})"
        return f"{place} has {', '.join(parts)} (agent-dev exec {session} -- git {where}{_LISTED})"


def describe_all(found: Iterable[UnlistedWork], record: store.Record, session: store.Session) -> tuple[str, ...]:
    """Return the lines about a session's work."""
    name = str(record.get("name") or session.id)
    return tuple(one.describe(name) for one in found)
