"""The repositories of a session: for each, the user's git directory and the agent's private copy of it."""

import os

from agent_dev.session import store
from agent_dev.value import Value


class AgentRepository(Value):
    """A repository of a session. `root`: the number of the root that is its work tree; git directories as in `GitRecord`.

    `module`: of a submodule, the path of its git directory below that of its superproject, such as `modules/lib`.
    """

    session: store.Session
    record: store.Record
    root: int
    folder: str
    common: str
    inside: bool
    module: str = ""

    @property
    def path(self) -> str:
        """The path of its work tree."""
        return self.record["roots"][self.root]

    @property
    def private_dir(self) -> str:
        """The agent's private (common) git directory."""
        upper = self.session.root(self.root, "").upper
        top = f"{upper}/.git" if self.inside else f"{self.session.folder}/git/{self.root}"
        return f"{top}/{self.module}" if self.module else top

    @property
    def stores(self) -> tuple[str, ...]:
        """The object stores on the host that the agent's git directory borrows from."""
        return tuple(outside for outside, _ in select_stores(self.record["stores"], self))

    @property
    def linked_name(self) -> str:
        """The name of the linked work tree in use, "" for none."""
        return os.path.basename(self.folder) if self.folder != self.common else ""

    def state_file(self, name: str) -> str:
        """Return the path of a file of ours about its refs."""
        suffix = f".{self.root}" if self.root else ""
        if self.module:
            return f"{self.session.folder}/git/submodules{suffix}/{self.module}/{name}"
        return f"{self.session.folder}/git/{name}{suffix}"


def list_repositories(session: store.Session, record: store.Record) -> tuple[AgentRepository, ...]:
    """Return the repositories of a session, in the order of its roots."""
    return tuple(AgentRepository(session, record, **one) for one in record["git"])


def find_repository(session: store.Session, record: store.Record, root: int) -> AgentRepository | None:
    """Return the repository of a root, or None."""
    return next((one for one in list_repositories(session, record) if one.root == root), None)


def select_stores(stores: list[list[str]], source: AgentRepository) -> list[list[str]]:
    """Return the object stores of a record that belong to no other repository; their names begin with the number of a root."""
    others = {str(git["root"]) for git in source.record["git"]} - {str(source.root)}
    return [pair for pair in stores if _root_number(pair[1]) not in others]


def _root_number(inside: str) -> str:
    name = os.path.basename(inside.removesuffix("/objects").removesuffix("/lfs"))
    return name.partition(".")[0]
