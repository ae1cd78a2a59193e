"""Which paths the user's own git ignores, by the rules of the real tree: what an agent wrote into a .gitignore hides nothing."""

import os

from agent_dev.host import machine, repo


def among(root: str, paths: list[bytes], environ: dict[str, str]) -> frozenset[bytes]:
    """Return the ignored ones among paths of a work tree; none where there is no git."""
    if not paths or not os.path.lexists(f"{root}/.git"):
        return frozenset()
    git = machine.program("git", environ, (root,))
    if git is None:
        return frozenset()
    question = b"".join(path + b"\0" for path in paths)
    _, told = repo.tell(git, root, ("check-ignore", "--stdin", "-z"), question, environ)
    return frozenset(told.split(b"\0")) - {b""}
