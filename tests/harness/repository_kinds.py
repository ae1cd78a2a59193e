"""Repositories of every kind, created by git, for tests of invariants that hold in each."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_dev.overlay import lower_snapshot_walk
from tests.harness.repository import commit, git, repository

ROT13 = "tr a-z n-za-m"
LARGE = lower_snapshot_walk.MAX_CONVERTED_FILE + 1


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository. `blobs`: paths whose bytes must come from git's objects, not from a copy.

    `lost`: paths whose original bytes are lost by design once the user changed them.
    """

    root: Path
    blobs: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()


def files_of(root: Path) -> dict[str, bytes]:
    """Return all files except git's own."""
    found = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def make_indexes_newer(root: Path) -> None:
    """Make every index newer than its entries, as it is a moment after any command."""
    for path in root.parent.rglob("index"):
        if path.is_file():
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 10**10))


def make_files_older(root: Path) -> None:
    """Make every file older than the index will be, so that git does not read it again."""
    for name in files_of(root):
        os.utime(root / name, ns=(10**18, 10**18))


def plain(root: Path) -> Repository:
    """Create two commits, an executable, an empty file."""
    repository(root)
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "empty").touch()
    commit(root, "more")
    return Repository(root, frozenset(("a.txt", "sub/b.txt", "run", "empty")))


def packed(root: Path) -> Repository:
    """Pack every object."""
    created = plain(root)
    git(root, "gc", "-q")
    return created


def with_alternates(root: Path) -> Repository:
    """Borrow objects of another repository."""
    plain(root.with_name("lender"))
    git(root.parent, "clone", "-q", "--shared", "lender", root.name)
    return Repository(root, frozenset(("a.txt", "sub/b.txt", "run")))


def linked(root: Path) -> Repository:
    """Create a linked work tree."""
    plain(root.with_name("main"))
    git(root.with_name("main"), "worktree", "add", "-q", str(root), "-b", "other")
    return Repository(root, frozenset(("a.txt", "sub/b.txt", "run")))


def autocrlf(root: Path) -> Repository:
    """Convert line ends by configuration."""
    repository(root)
    git(root, "config", "core.autocrlf", "true")
    (root / "dos").write_bytes(b"one\r\ntwo\r\n")
    (root / "unix").write_bytes(b"one\ntwo\n")
    (root / "mixed").write_bytes(b"one\r\ntwo\nthree\r\n")
    (root / "odd").write_bytes(b"one\r\r\ntwo\r\n")
    (root / "no end").write_bytes(b"one\r\ntwo")
    (root / "binary").write_bytes(b"\0\r\n\xff\n")
    commit(root, "line ends")
    return Repository(root, frozenset(("dos", "unix", "odd", "no end", "binary")), lost=frozenset(("mixed",)))


def attributes(root: Path) -> Repository:
    """Convert line ends by attributes."""
    repository(root)
    (root / ".gitattributes").write_text("*.crlf eol=crlf\n*.auto text=auto\n*.lf eol=lf\n*.bin -text\n")
    for name in ("crlf", "auto", "lf", "bin"):
        (root / f"a.{name}").write_bytes(b"one\r\ntwo\r\n")
        (root / f"b.{name}").write_bytes(b"one\ntwo\n")
    commit(root, "attributes")
    for path in root.glob("*.crlf"):
        path.unlink()
    git(root, "checkout", "-q", "--", ".")
    assert (root / "b.crlf").read_bytes() == b"one\r\ntwo\r\n"
    return Repository(root, frozenset(f"{a}.{kind}" for a in "ab" for kind in ("crlf", "auto", "lf", "bin")))


def encoded(root: Path) -> Repository:
    """Convert encodings in the work tree, once without a change of size."""
    repository(root)
    (root / ".gitattributes").write_text("*.u16 working-tree-encoding=UTF-16LE\n*.host working-tree-encoding=IBM037\n")
    (root / "a.u16").write_bytes("grün\n".encode("utf-16-le"))
    (root / "a.host").write_bytes("HELLO".encode("cp037"))  # same size as its blob, other content
    commit(root, "encodings")
    assert git(root, "cat-file", "-p", ":a.host") == "HELLO"
    return Repository(root, frozenset((".gitattributes", "a.txt")))


def ident(root: Path) -> Repository:
    """Use `ident` attributes, whose ids git expands; once over another id of the same length."""
    repository(root)
    (root / "a.c").write_bytes(b"/* $Id: 0123456789012345678901234567890123456789 $ */\n")
    (root / "b.c").write_bytes(b"/* $Id$ */\n")
    commit(root, "before")
    (root / ".gitattributes").write_text("*.c ident\n")
    commit(root, "ident")
    for path in root.glob("*.c"):
        path.unlink()
    git(root, "checkout", "-q", "--", ".")
    assert b"0123456789" not in (root / "a.c").read_bytes()  # same size as its blob, other content
    return Repository(root, frozenset((".gitattributes", "a.txt")))


def filtered(root: Path) -> Repository:
    """Use a filter that keeps the size."""
    repository(root)
    (root / ".gitattributes").write_text("*.rot filter=rot\n")
    (root / "a.rot").write_bytes(b"hello")
    (root / "large.rot").write_bytes(b"x" * LARGE)
    make_files_older(root)
    git(root, "-c", f"filter.rot.clean={ROT13}", "add", "-A")
    git(root, "commit", "-q", "-m", "filters")
    assert git(root, "cat-file", "-p", ":a.rot") == "uryyb"
    return Repository(root, frozenset((".gitattributes", "a.txt")), lost=frozenset(("large.rot",)))


def large_files(root: Path) -> Repository:
    """Commit LFS pointers, with no LFS filter configured afterwards."""
    repository(root)
    (root / ".gitattributes").write_text("*.png filter=lfs diff=lfs merge=lfs -text\n")
    pointer = root.with_name("pointer")
    pointer.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 5\n")
    (root / "a.png").write_bytes(b"image")
    (root / "large.png").write_bytes(b"i" * LARGE)
    (root / "unfetched.png").write_bytes(pointer.read_bytes())
    make_files_older(root)
    git(root, "-c", f"filter.lfs.clean=cat >/dev/null; cat '{pointer}'", "add", "-A")
    git(root, "commit", "-q", "-m", "large files")
    return Repository(root, frozenset((".gitattributes",)), lost=frozenset(("large.png",)))


def assumed_unchanged(root: Path) -> Repository:
    """Edit files whose changes git is told to ignore."""
    plain(root)
    git(root, "update-index", "--assume-unchanged", "a.txt")
    git(root, "update-index", "--skip-worktree", "sub/b.txt")
    (root / "a.txt").write_bytes(b"MORE\n")
    (root / "sub/b.txt").write_bytes(b"TWO\n")
    return Repository(root, frozenset(("run",)))


def sparse(root: Path, *words: str) -> Repository:
    """Check out a work tree without `sub`."""
    plain(root)
    git(root, "sparse-checkout", "set", *words)
    assert not (root / "sub").exists()
    return Repository(root, frozenset(("a.txt", "run")))


def sparse_cone(root: Path) -> Repository:
    """Check out sparse directories (cone mode)."""
    return sparse(root, "--cone", "nothing")


def sparse_index(root: Path) -> Repository:
    """Check out sparse directories with a sparse index."""
    return sparse(root, "--cone", "--sparse-index", "nothing")


def sparse_patterns(root: Path) -> Repository:
    """Check out sparse patterns."""
    return sparse(root, "--no-cone", "/*", "!/sub")


def sparse_without_attributes(root: Path) -> Repository:
    """Leave `.gitattributes` out of the work tree; it applies from the index."""
    filtered(root)
    git(root, "sparse-checkout", "set", "--no-cone", "/*", "!/.gitattributes")
    assert not (root / ".gitattributes").exists()
    return Repository(root, lost=frozenset(("large.rot",)))


def split_index(root: Path) -> Repository:
    """Use a shared index with entries replaced, deleted and added."""
    plain(root)
    for number in range(200):
        (root / f"n{number}").write_bytes(b"%d" % number)
    commit(root, "many")
    git(root, "config", "splitIndex.maxPercentChange", "100")
    git(root, "update-index", "--split-index")
    for number in range(0, 150, 3):
        (root / f"n{number}").write_bytes(b"again %d" % number)
    git(root, "add", "n0", "n63", "n66", "n126")
    git(root, "rm", "-q", "--cached", "n1", "n64", "n65", "n199")
    (root / "added").write_bytes(b"added")
    git(root, "add", "added")
    assert list((root / ".git").glob("sharedindex.*"))
    clean = {f"n{number}" for number in range(200) if number % 3 or number >= 150} - {"n1", "n64", "n65", "n199"}
    return Repository(root, frozenset({*clean, "n0", "n63", "n66", "n126", "added", "a.txt", "run"}))


def submodule(root: Path) -> Repository:
    """Add a submodule with edits, new and ignored files."""
    plain(root.with_name("library"))
    repository(root)
    git(root, "submodule", "--quiet", "add", str(root.with_name("library")), "lib")
    commit(root, "library")
    (root / "lib/a.txt").write_bytes(b"edited")
    (root / "lib/new").write_bytes(b"new")
    (root / "lib/.gitignore").write_bytes(b"*.o\n")
    (root / "lib/x.o").write_bytes(b"object")
    return Repository(root, frozenset((".gitmodules", "a.txt", "lib/run", "lib/sub/b.txt")), lost=frozenset(("lib/x.o",)))


def nested(root: Path) -> Repository:
    """Nest repositories: with commits, without, broken, nested again, and as a bare gitlink."""
    repository(root)
    plain(root / "with")
    (root / "with/new").write_bytes(b"new")
    (root / "without").mkdir()
    git(root / "without", "init", "-q")
    (root / "without/x").write_bytes(b"x")
    (root / "broken").mkdir()
    (root / "broken/.git").write_text("gitdir: /nonexistent\n")
    (root / "broken/x").write_bytes(b"x")
    plain(root / "with/deeper")
    (root / "added").mkdir()
    repository(root / "added/gitlink")
    git(root, "add", "added/gitlink")
    return Repository(root, frozenset(("a.txt", "with/a.txt", "with/deeper/sub/b.txt", "added/gitlink/a.txt")))


def sha256(root: Path) -> Repository:
    """Use SHA-256 ids."""
    repository(root, "--object-format=sha256")
    return Repository(root, frozenset(("a.txt", "sub/b.txt")))


def unborn(root: Path) -> Repository:
    """Create no commit yet."""
    root.mkdir()
    git(root, "init", "-q")
    (root / "x").write_bytes(b"x")
    (root / "staged").write_bytes(b"staged")
    git(root, "add", "staged")
    return Repository(root, frozenset(("staged",)))


def without_git(root: Path) -> Repository:
    """Create no repository at all."""
    root.mkdir()
    (root / "x").write_bytes(b"x")
    return Repository(root)


def in_conflict(root: Path) -> Repository:
    """Stop a merge with a conflict."""
    plain(root)
    git(root, "checkout", "-q", "-b", "other", "HEAD~1")
    (root / "a.txt").write_text("theirs\n")
    commit(root, "theirs")
    git(root, "checkout", "-q", "-")
    (root / "a.txt").write_text("ours\n")
    commit(root, "ours")
    git(root, "merge", "other", check=False)
    assert b"<<<<" in (root / "a.txt").read_bytes()
    return Repository(root, frozenset(("sub/b.txt",)))


KINDS: dict[str, Callable[[Path], Repository]] = {
    "plain": plain,
    "packed": packed,
    "objects borrowed": with_alternates,
    "a linked work tree": linked,
    "autocrlf": autocrlf,
    "eol and text": attributes,
    "working-tree-encoding": encoded,
    "ident": ident,
    "a clean filter": filtered,
    "LFS": large_files,
    "assume-unchanged and skip-worktree": assumed_unchanged,
    "sparse, cone": sparse_cone,
    "sparse index": sparse_index,
    "sparse, patterns": sparse_patterns,
    "sparse, without its attributes": sparse_without_attributes,
    "split index": split_index,
    "submodule": submodule,
    "nested": nested,
    "sha256": sha256,
    "unborn HEAD": unborn,
    "no git": without_git,
    "in conflict": in_conflict,
}


def reftable(root: Path) -> Repository:
    """Store references in a reftable."""
    return Repository(repository(root, "--ref-format=reftable"), frozenset(("a.txt", "sub/b.txt")))


def _has_reftable() -> bool:
    with tempfile.TemporaryDirectory() as place:
        git(Path(place), "init", "-q", "--ref-format=reftable", check=False)
        return os.path.isdir(f"{place}/.git/reftable")


if _has_reftable():  # since git 2.45
    KINDS["reftable"] = reftable
