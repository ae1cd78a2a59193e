"""Ask the user's git which paths the rules of the real tree ignore: an agent's .gitignore hides nothing."""

import os

from agent_dev.git import repository
from agent_dev.linux import programs


def find_ignored(root: str, paths: list[bytes], untrusted: tuple[str, ...], environ: dict[str, str]) -> frozenset[bytes]:
    """Return the ignored paths among `paths`; none without a git outside the `untrusted` directories."""
    if not paths or not os.path.lexists(f"{root}/.git"):
        return frozenset()
    git = programs.find_program("git", environ, untrusted)
    if git is None:
        return frozenset()
    matching = _query(git, root, [path for path in paths if path], environ, ("--no-index",))
    return _query(git, root, sorted(matching), environ)  # tracked files are not ignored; each lookup in the index is slow


def _query(git: str, root: str, paths: list[bytes], environ: dict[str, str], options: tuple[str, ...] = ()) -> frozenset[bytes]:
    """Run `git check-ignore` for many paths; when git refuses one (beyond a link, in a submodule), bisect the list.

    A single path that git refuses counts as not ignored.
    """
    if not paths:
        return frozenset()
    stdin = b"".join(b"./" + path + b"\0" for path in paths)  # "./" keeps a leading colon from being pathspec magic
    code, output = repository.run_git(git, root, ("check-ignore", *options, "--stdin", "-z"), stdin, environ)
    if code in (0, 1):
        return frozenset(path.removeprefix(b"./") for path in output.split(b"\0")) - {b""}
    if len(paths) == 1:
        return frozenset()
    half = len(paths) // 2
    return _query(git, root, paths[:half], environ, options) | _query(git, root, paths[half:], environ, options)
