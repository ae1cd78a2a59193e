"""Ask the user's git which paths the rules of the real tree ignore: an agent's .gitignore hides nothing."""

import os
from bisect import bisect_left

from agent_dev.fs.entry import parents_of
from agent_dev.git import repository
from agent_dev.linux import programs

_FEW = 50  # at most this many directories are passed to git, which compares each file with each of them


def find_ignored(root: str, paths: list[bytes], untrusted: tuple[str, ...], environ: dict[str, str]) -> frozenset[bytes]:
    """Return the ignored paths among `paths`; none without a git outside the `untrusted` directories."""
    if not paths or not os.path.lexists(f"{root}/.git"):
        return frozenset()
    git = programs.find_program("git", environ, untrusted)
    if git is None:
        return frozenset()
    matching = _matching(git, root, [path for path in paths if path], environ)
    return matching - _tracked(git, root, matching, environ)


def _tracked(git: str, root: str, paths: frozenset[bytes], environ: dict[str, str]) -> frozenset[bytes]:
    """Return the paths that are tracked, contain a tracked file, or are below one, such as a submodule. All if git fails.

    `git check-ignore` with the index compares each path with all of it: half a second for 5,000 of each.
    """
    tops = {path.partition(b"/")[0] for path in paths}
    if not tops:
        return frozenset()
    below = map(os.fsdecode, sorted(tops)) if len(tops) <= _FEW else ()
    code, output = repository.run_git(git, root, ("--literal-pathspecs", "ls-files", "-z", "--", *below), b"", environ)
    if code:
        return paths
    known = sorted(output.split(b"\0")[:-1])
    names = frozenset(known)

    def is_tracked(path: bytes) -> bool:
        inside = path + b"/"
        at = bisect_left(known, inside)
        has_tracked = at < len(known) and known[at].startswith(inside)
        return has_tracked or path in names or not names.isdisjoint(parents_of(path))

    return frozenset(filter(is_tracked, paths))


def _matching(git: str, root: str, paths: list[bytes], environ: dict[str, str]) -> frozenset[bytes]:
    """Return the paths that match the rules; when git refuses one (beyond a link), bisect the list.

    A single path that git refuses counts as not ignored.
    """
    if not paths:
        return frozenset()
    stdin = b"".join(b"./" + path + b"\0" for path in paths)  # "./" keeps a leading colon from being pathspec magic
    code, output = repository.run_git(git, root, ("check-ignore", "--no-index", "--stdin", "-z"), stdin, environ)
    if code in (0, 1):
        return frozenset(path.removeprefix(b"./") for path in output.split(b"\0")) - {b""}
    if len(paths) == 1:
        return frozenset()
    half = len(paths) // 2
    return _matching(git, root, paths[:half], environ) | _matching(git, root, paths[half:], environ)
