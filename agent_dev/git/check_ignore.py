"""Which paths the user's own git ignores, by the rules of the real tree: what an agent wrote into a .gitignore hides nothing."""

import os

from agent_dev.git import repository as repo
from agent_dev.sandbox import machine


def among(root: str, paths: list[bytes], untrusted: tuple[str, ...], environ: dict[str, str]) -> frozenset[bytes]:
    """Return the ignored ones among paths of a work tree; none where there is no git, or only one in an `untrusted` place."""
    if not paths or not os.path.lexists(f"{root}/.git"):
        return frozenset()
    git = machine.program("git", environ, untrusted)
    if git is None:
        return frozenset()
    by_rule = _ask(git, root, [path for path in paths if path], environ, ("--no-index",))
    return _ask(git, root, sorted(by_rule), environ)  # what is tracked is not ignored; git compares each with all of its index


def _ask(git: str, root: str, paths: list[bytes], environ: dict[str, str], how: tuple[str, ...] = ()) -> frozenset[bytes]:
    """Ask of many paths at once; when git refuses one of them (beyond a link, in a submodule), of halves.

    What git will not answer for at all lies beyond a link or in a submodule of the user's: it is shown like any other.
    """
    if not paths:
        return frozenset()
    question = b"".join(b"./" + path + b"\0" for path in paths)  # so that a name with a colon is no pathspec's magic
    code, told = repo.tell(git, root, ("check-ignore", *how, "--stdin", "-z"), question, environ)
    if code in (0, 1):
        return frozenset(path.removeprefix(b"./") for path in told.split(b"\0")) - {b""}
    if len(paths) == 1:
        return frozenset()
    half = len(paths) // 2
    return _ask(git, root, paths[:half], environ, how) | _ask(git, root, paths[half:], environ, how)
