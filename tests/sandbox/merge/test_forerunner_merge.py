"""A merge loses and destroys nothing, and writes through no symlink. The section comments describe defects of the forerunner."""

import hashlib
import os
import resource
from collections.abc import Callable

import pytest

from tests.sandbox.merge.forerunner_world import Done, World, picture

BIG = 300_000
GENEROUS = 5.0  # seconds of CPU time, which a busy machine stretches only a little


# 1. New and changed symlinks, FIFOs and empty directories were never offered, and stayed in the upper.


def test_new_symlinks_fifos_and_empty_directories_are_offered_and_merged(world: World) -> None:
    before = picture(world.repo)
    world.agent("umask 022; ln -s src/a good; ln -s nowhere dangling; mkfifo pipe; mkdir -p empty/deep; chmod 750 empty")
    assert world.kinds() == {
        "dangling": ("added", "symlink"),
        "empty/deep": ("added", "dir"),
        "good": ("added", "symlink"),
        "pipe": ("added", "fifo"),
    }
    world.merge_all()
    assert picture(world.repo) == before | {
        b"dangling": ("symlink", 0, b"nowhere"),
        b"empty": ("dir", 0o750, b""),
        b"empty/deep": ("dir", 0o755, b""),
        b"good": ("symlink", 0, b"src/a"),
        b"pipe": ("fifo", 0o644, b""),
    }


def test_changed_symlinks_are_offered_and_merged(world: World) -> None:
    (world.repo / "link").symlink_to("src/a")
    (world.repo / "file").symlink_to("src/a")
    world.commit("links")
    world.agent("ln -sfn src/b link; rm file; mkfifo file")
    assert world.kinds() == {"file": ("retyped", "fifo"), "link": ("edited", "symlink")}
    world.merge_all()
    assert os.readlink(world.repo / "link") == "src/b"
    assert picture(world.repo)[b"file"][0] == "fifo"


def test_a_merged_session_leaves_nothing_behind(world: World) -> None:
    world.agent("ln -s src/a link; mkfifo pipe; mkdir empty; rm src/b")
    world.merge_all()
    assert world.sessions() == []
    uppers = [path for path in (world.state / "sessions").glob("*/roots/*/upper/*") if path.name != ".git"]
    assert uppers == []


# 2. A change of the mode alone was dropped as NOTMODIFIED.


def test_a_mode_change_alone_is_offered_and_merged(world: World) -> None:
    world.agent("chmod 751 README; chmod 600 src/a; chmod 700 src")
    assert {path: kind for path, (kind, _) in world.kinds().items()} == dict.fromkeys(("README", "src", "src/a"), "metadata")
    world.merge_all()
    seen = picture(world.repo)
    assert seen[b"README"] == ("file", 0o751, b"hello\n")
    assert seen[b"src/a"] == ("file", 0o600, b"a\n")
    assert seen[b"src"][1] == 0o700


def test_a_file_rewritten_with_the_same_bytes_is_not_offered(world: World) -> None:
    world.agent("cp README copy; cat copy >README; rm copy; touch src/a")
    assert world.sessions() == []


# 3. After `rm -rf dir` and "yes to all", the deletion was reported, but not made, and then forgotten.


def test_all_removes_a_removed_directory(world: World) -> None:
    world.agent("rm -rf src")
    assert world.kinds() == {"src/a": ("deleted", "file"), "src/b": ("deleted", "file")}
    world.merge_all()
    assert set(picture(world.repo)) == {b"README"}


def test_a_removed_directory_is_removed_by_its_name(world: World) -> None:
    world.agent("rm -rf src")
    world.merge("--take", "src")
    assert set(picture(world.repo)) == {b"README"}


def test_an_unselected_deletion_is_not_forgotten(world: World) -> None:
    world.agent("rm -rf src; echo new >new")
    assert world.merge("--take", "new")["applied"] == ["new"]
    assert set(world.kinds()) == {"src/a", "src/b"}
    world.merge("--take", "src/a")
    assert set(picture(world.repo)) == {b"README", b"new", b"src", b"src/b"}
    world.merge("--take", "src/b")
    assert set(picture(world.repo)) == {b"README", b"new"}


# 4. A directory that was removed and recreated kept its old files.


def test_a_recreated_directory_keeps_no_old_files(world: World) -> None:
    world.agent("rm -rf src; mkdir src; echo new >src/new")
    assert world.kinds() == {"src/a": ("deleted", "file"), "src/b": ("deleted", "file"), "src/new": ("added", "file")}
    world.merge_all()
    assert set(picture(world.repo)) == {b"README", b"src", b"src/new"}


def test_a_recreated_directory_can_be_applied_in_parts(world: World) -> None:
    world.agent("rm -rf src; mkdir src; echo new >src/new")
    world.merge("--take", "src/new")
    assert set(picture(world.repo)) == {b"README", b"src", b"src/a", b"src/b", b"src/new"}
    assert set(world.kinds()) == {"src/a", "src/b"}
    world.merge_all()
    assert set(picture(world.repo)) == {b"README", b"src", b"src/new"}


# 5. If a file became a directory, or a copy failed, "Accepted" was printed and the agent's only copy was deleted.

RETYPES = {
    "a file becomes a directory": ("rm README; mkdir README", "README/big"),
    "a directory becomes a file": ("rm -r src", "src"),
    "a file is edited": ("true", "README"),
    "a file is new": ("mkdir -p new/deep", "new/deep/big"),
}


def _fill(script: str, path: str) -> str:
    return f"{script}; head -c {BIG} /dev/urandom >{path}; sha256sum <{path} | cut -d' ' -f1"


@pytest.mark.parametrize(("script", "path"), RETYPES.values(), ids=RETYPES)
def test_type_changes_are_merged(world: World, script: str, path: str) -> None:
    digest = world.agent(_fill(script, path)).out.strip()
    world.merge_all()
    assert hashlib.sha256((world.repo / path).read_bytes()).hexdigest() == digest


def _with_small_files_only() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (BIG // 2, BIG // 2))


@pytest.mark.parametrize(("script", "path"), RETYPES.values(), ids=RETYPES)
def test_a_failed_copy_changes_nothing_and_keeps_the_agents_version(world: World, script: str, path: str) -> None:
    before = picture(world.repo)
    # A file with a second hard link is copied; others are moved.
    digest = world.agent(f"{_fill(script, path)}; ln {path} twin").out.strip()
    failed = world.run("merge", "--all", "--include-risky", code=1, before=_with_small_files_only)
    assert "nothing was changed" in failed.err
    assert "merged" not in failed.out
    assert picture(world.repo) == before
    world.merge_all()
    assert hashlib.sha256((world.repo / path).read_bytes()).hexdigest() == digest


def test_a_directory_whose_path_is_occupied_is_a_conflict_and_waits(world: World) -> None:
    world.agent("mkdir new; echo deep >new/deep")
    world.put({"new": "the user's\n"})
    assert world.merge_all(code=1)["applied"] == []
    assert world.read("new") == "the user's\n"
    (world.repo / "new").unlink()
    world.merge_all()
    assert world.read("new/deep") == "deep\n"


# 6. A file of the agent with the name `.wh.README` deleted README.


@pytest.mark.parametrize("name", [".wh.README", "src/.wh.a", "src/.wh..wh..opq", ".wh.src"])
def test_a_name_that_looks_like_a_whiteout_deletes_nothing(world: World, name: str) -> None:
    before = picture(world.repo)
    world.agent(f"umask 022; echo harmless >{name}")
    world.merge_all()
    assert picture(world.repo) == before | {name.encode(): ("file", 0o644, b"harmless\n")}


# 7. If a symlink in the repository became a file, the merge wrote through it, to outside the repository.


def test_a_symlink_that_became_a_file_is_not_written_through(world: World) -> None:
    world.put({"target": "precious\n"}, world.outside)
    (world.repo / "link").symlink_to(world.outside / "target")
    world.commit("link")
    world.agent("rm link; echo planted >link")
    world.merge_all()
    assert (world.outside / "target").read_text() == "precious\n"
    assert picture(world.repo)[b"link"][::2] == ("file", b"planted\n")


def test_a_symlink_that_became_a_directory_is_not_written_through(world: World) -> None:
    world.put({"target": "precious\n"}, world.outside)
    (world.repo / "link").symlink_to(world.outside)
    world.commit("link")
    world.agent("rm link; mkdir link; echo planted >link/target; echo planted >link/more")
    world.merge_all()
    assert {path: seen[2] for path, seen in picture(world.outside).items()} == {b"target": b"precious\n"}
    assert world.read("link/target") == "planted\n"


def test_a_directory_that_the_user_replaced_by_a_symlink_is_not_followed(world: World) -> None:
    world.put({"a": "precious\n"}, world.outside)
    world.agent("echo planted >src/a; echo planted >src/new")
    for name in ("a", "b"):
        (world.repo / "src" / name).unlink()
    (world.repo / "src").rmdir()
    (world.repo / "src").symlink_to(world.outside)
    assert world.merge_all(code=1)["applied"] == []
    assert {path: seen[2] for path, seen in picture(world.outside).items()} == {b"a": b"precious\n"}


# 8. At the end of stdin, the prompt was repeated forever: 95 MB in 20 seconds.


@pytest.mark.parametrize("words", [("merge",), ("--", "sh", "-c", "echo more >more"), ("resume", "--", "true")])
def test_end_of_file_on_stdin_ends_the_prompt(world: World, words: tuple[str, ...]) -> None:
    world.agent("for n in 1 2 3; do echo $n >new$n; done")
    before = picture(world.repo)
    done = world.run(*words, code=None)
    assert len(done.out) + len(done.err) < 4000
    assert picture(world.repo) == before


# 9. Unusual names were mangled (%) or printed unescaped, so that they could imitate other output.

STRANGE = [b"100%s%n%d", b"two\nlines", b"back\\nslash", b"\x1b[31mred\x1b[2J", b"re\rturn", b"-rf", b" blank ", b"'\"$(id)`"]
STRANGE += [b"not-\xff-utf8", "right\u202eto-left".encode(), b"bell\x07\x08\x7f", b"*?[a]", "\u00e9t\u00e9".encode(), b"#;&|<>"]


def _make_strange(world: World) -> Done:
    return world.run("--", "sh", "-euc", 'umask 022; for name; do printf %s "$name" >"./$name"; done', "sh", *STRANGE)


def _is_harmless(reported: str) -> bool:
    return all(letter == "\n" or letter.isprintable() for letter in reported)


def test_unusual_names_are_escaped(world: World) -> None:
    shown = [_make_strange(world).err]
    everything = ("merge", "--all", "--include-risky")
    shown += [world.run(*words).out for words in (("status",), ("diff", "--stat"), (*everything, "--dry-run"))]
    shown += [world.run(*everything).out]
    assert all(map(_is_harmless, shown))
    assert [sum("added" in line for line in reported.splitlines()) for reported in shown] == [len(STRANGE)] * len(shown)


def test_unusual_names_are_merged_byte_by_byte(world: World) -> None:
    before = picture(world.repo)
    _make_strange(world)
    world.merge_all()
    assert picture(world.repo) == before | {name: ("file", 0o644, name) for name in STRANGE}


def test_unusual_names_survive_json_and_take(world: World) -> None:
    _make_strange(world)
    assert {os.fsencode(path) for path in world.changes()} == set(STRANGE)
    for name in STRANGE[::3]:
        assert [os.fsencode(path) for path in world.merge(b"--take=" + name)["applied"]] == [name]
        assert (world.repo / os.fsdecode(name)).read_bytes() == name


# 10. 3,000 new files took 34.5 seconds, 3,000 ignored ones 11.4: one process was started for each.


def _seconds(act: Callable[[], object]) -> float:
    """Return the CPU time of the programs that `act` runs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    act()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


MANY = "mkdir {0}; n=0; while [ $n -lt 3000 ]; do echo $n >{0}/$n; n=$((n+1)); done"


def test_three_thousand_new_files_are_merged_quickly(world: World) -> None:
    assert _seconds(lambda: world.agent(MANY.format("many"))) < GENEROUS
    assert _seconds(lambda: world.merge("--all")) < GENEROUS
    assert sorted(int(path.read_text()) for path in (world.repo / "many").iterdir()) == list(range(3000))


def test_three_thousand_ignored_files_are_recognized_quickly(world: World) -> None:
    world.put({".gitignore": "build/\n"})
    world.commit("ignore")
    assert _seconds(lambda: world.agent(MANY.format("build"))) < GENEROUS
    assert _seconds(lambda: world.merge("--all")) < GENEROUS
    assert not (world.repo / "build").exists()
    assert _seconds(lambda: world.merge("--take", "build")) < GENEROUS
    assert len(list((world.repo / "build").iterdir())) == 3000
