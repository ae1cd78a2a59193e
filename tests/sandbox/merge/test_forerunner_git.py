"""The user's git directory and concurrent changes are preserved. The section comments describe defects of the forerunner."""

import pytest

from tests.sandbox.merge.forerunner_world import World, picture

# 11. Hooks were offered like any file; one commit was 17 raw files to answer; a concurrent commit of the host was lost.

PLANTS = {
    "a hook": "printf '#!/bin/sh\\ntouch $OUT/executed\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "a hook in a new directory of hooks": "rm -rf .git/hooks; mkdir .git/hooks; echo >.git/hooks/post-checkout",
    "a setting": "git config core.fsmonitor 'touch $OUT/executed'; git config core.hooksPath hooks",
    "attributes": "mkdir -p .git/info; echo '* filter=x' >.git/info/attributes",
    "excludes": "mkdir -p .git/info; echo '*' >.git/info/exclude",
    "a hook of a submodule": "mkdir -p .git/modules/m/hooks; echo >.git/modules/m/hooks/pre-commit",
    "another git dir": "rm -rf .git; git init -q; git commit -qm planted --allow-empty",
    "a file in place of the git dir": "mv .git elsewhere; echo 'gitdir: elsewhere' >.git",
    "an embedded git dir": "git init -q src; git -C src config core.fsmonitor 'touch $OUT/executed'",
}


@pytest.mark.parametrize("script", PLANTS.values(), ids=PLANTS)
def test_nothing_planted_in_the_git_directory_is_applied(world: World, script: str) -> None:
    before = picture(world.repo / ".git", without="")
    world.agent(f"OUT={world.outside}\n{script}\necho new >new")
    world.merge_all(code=int(script == PLANTS["an embedded git dir"]))  # of all these, only this one is a change, and left
    assert world.read("new") == "new\n"
    assert picture(world.repo / ".git", without="") == before
    assert not (world.repo / "src" / ".git").exists()
    world.git("status")
    world.git("commit", "--quiet", "--allow-empty", "-m", "next")
    assert not (world.outside / "executed").exists()


def test_a_commit_is_offered_as_a_commit_and_not_as_its_files(world: World) -> None:
    before = picture(world.repo / ".git", without="")
    world.agent("echo new >new; git add new; git commit -qm 'Add new'")
    status = world.status()
    assert [change["path"] for change in status["changes"]] == ["new"]
    assert [commit["subject"] for commit in status["commits"]] == ["Add new"]
    world.merge_all()
    assert picture(world.repo / ".git", without="") == before
    assert world.git("status", "--porcelain") == "?? new\n"


def test_a_concurrent_commit_of_the_user_stays_with_its_file_tracked(world: World) -> None:
    with world.inside() as agent:
        agent.do("echo agent >agent; git add agent; git commit -qm agent")
        world.put({"mine": "user\n"})
        world.commit("user's own")
        head = world.git("rev-parse", "HEAD")
        agent.do("echo more >>agent; git commit -qam more")
    world.merge_all()
    assert world.git("rev-parse", "HEAD") == head
    assert world.git("ls-files").split() == ["README", "mine", "src/a", "src/b"]
    assert (world.read("mine"), world.read("agent")) == ("user\n", "agent\nmore\n")
    assert world.git("status", "--porcelain") == "?? agent\n"
    world.git("fsck", "--strict")


def test_concurrent_git_inside_and_outside_corrupts_nothing(world: World) -> None:
    with world.inside() as agent:
        for turn in range(5):
            world.put({"mine": f"{turn}\n"})
            (world.repo / ".git" / "index.lock").touch()
            agent.do(f"git status; echo {turn} >agent; git add agent; git commit -qm agent")
            (world.repo / ".git" / "index.lock").unlink()
            world.commit(f"user's {turn}")
        agent.do("git fsck --strict; test $(git rev-list --count HEAD) = 6")
    world.git("fsck", "--strict")
    assert world.git("rev-list", "--count", "HEAD") == "6\n"


# 11. The user's edits during a session were overwritten silently.


def test_a_concurrent_edit_of_the_user_is_a_conflict_and_is_kept(world: World) -> None:
    with world.inside() as agent:
        agent.wait_for_clock()
        agent.do("echo agent >README; echo agent >src/a")
        world.put({"README": "user\n"})
    assert world.changes()["README"]["conflict"]
    merged = world.merge_all(code=1)
    assert [one["path"] for one in merged["conflicts"]] == ["README"]
    assert (world.read("README"), world.read("src/a")) == ("user\n", "agent\n")


@pytest.mark.parametrize("script", ["echo agent >README", "rm README", "ln -sf src/a README", "rm README; mkdir README"])
def test_an_edit_of_the_user_right_after_the_start_is_kept(world: World, script: str) -> None:
    with world.inside() as agent:
        world.put({"README": "user\n"})
        agent.do(script)
    world.merge_all(code=1)
    assert world.read("README") == "user\n"


def test_a_conflict_is_explained(world: World) -> None:
    with world.inside() as agent:
        agent.wait_for_clock()
        agent.do("echo agent >README")
        world.put({"README": "user\n"})
    done = world.run("merge", "--all", code=1)
    assert "conflict: README" in done.out


def test_an_atomic_merge_applies_nothing_if_there_is_a_conflict(world: World) -> None:
    with world.inside() as agent:
        agent.wait_for_clock()
        agent.do("echo agent >README; echo agent >src/a")
        world.put({"README": "user\n"})
    before = picture(world.repo)
    world.merge("--all", "--atomic", code=1)
    assert picture(world.repo) == before


def test_a_later_edit_of_the_user_is_a_conflict_too(world: World) -> None:
    world.agent("echo agent >README")
    world.put({"README": "user\n"})
    world.merge_all(code=1)
    assert world.read("README") == "user\n"


def test_a_file_of_the_user_with_the_name_of_a_new_one_is_kept(world: World) -> None:
    with world.inside() as agent:
        agent.wait_for_clock()
        agent.do("echo agent >new")
        world.put({"new": "user\n"})
    world.merge_all(code=1)
    assert world.read("new") == "user\n"


def test_a_file_that_the_user_edited_is_not_deleted(world: World) -> None:
    with world.inside() as agent:
        agent.wait_for_clock()
        agent.do("rm -r src")
        world.put({"src/a": "user\n"})
    world.merge_all(code=1)
    assert world.read("src/a") == "user\n"
    assert not (world.repo / "src" / "b").exists()


def test_a_file_that_the_user_removed_is_not_restored(world: World) -> None:
    with world.inside() as agent:
        agent.wait_for_clock()
        agent.do("echo agent >README")
        (world.repo / "README").unlink()
    world.merge_all(code=1)
    assert not (world.repo / "README").exists()


def test_an_unselected_change_neither_hides_nor_overwrites_later_user_edits(world: World) -> None:
    world.agent("echo agent >README; echo agent >src/a")
    world.merge("--take", "src/a")
    world.put({"README": "user\n"})
    assert world.agent("cat README", "--name", "next").out == "user\n"
    first = [one["session"] for one in world.sessions()]
    world.merge_all(*first, code=1)
    assert world.read("README") == "user\n"


def test_an_edit_of_the_user_is_visible_inside_and_not_offered(world: World) -> None:
    with world.inside() as agent:
        agent.do("echo agent >new")
        world.put({"later": "user\n"})
        assert agent.do("cat later") == "user\n"
    assert set(world.changes()) == {"new"}


# 11. Two sessions in one repository saw each other's files, and both offered the changes of both.


def test_concurrent_sessions_do_not_see_each_others_files(world: World) -> None:
    with world.inside("--name", "one") as one, world.inside("--name", "two") as two:
        one.do("echo one >one; echo one >README")
        two.do("test ! -e one; echo two >two; echo two >src/a")
        assert one.do("cat README; ls") == "one\nREADME\none\nsrc\n"
        assert two.do("cat README; ls") == "hello\nREADME\nsrc\ntwo\n"
    assert set(world.changes("one")) == {"README", "one"}
    assert set(world.changes("two")) == {"src/a", "two"}
    world.merge_all("one")
    world.merge_all("two")
    assert (world.read("README"), world.read("src/a")) == ("one\n", "two\n")


def test_a_merge_does_not_affect_another_running_session(world: World) -> None:
    world.agent("echo first >first", "--name", "first")
    with world.inside("--name", "second") as second:
        second.do("echo second >second")
        world.merge_all("first")
        assert world.read("first") == "first\n"
        second.do("cat second; echo more >>second")
    assert set(world.changes("second")) == {"second"}


# The list was unsorted, showed no content of deleted or new files, and asked about each file as a whole.


def test_the_list_is_sorted(world: World) -> None:
    world.agent("for n in z m a B 10 9; do echo >$n; mkdir d$n; echo >d$n/f; done; rm src/a")
    paths = [change["path"] for change in world.status()["changes"]]
    assert paths == sorted(paths)
    assert len(paths) == 13
    lines = [line.split()[2] for line in world.run("status").out.splitlines()[1:-1]]
    assert lines == paths


def test_deletions_are_shown_with_the_deleted_content(world: World) -> None:
    world.agent("rm README")
    assert "deleted  README" in world.run("status").out
    assert "-hello" in world.run("diff").out.splitlines()


def test_new_files_are_shown_with_their_content(world: World) -> None:
    world.agent("echo 'new content' >new")
    assert "+new content" in world.run("diff").out.splitlines()


def test_binary_files_are_reported_and_merged_byte_by_byte(world: World) -> None:
    world.agent("printf 'PNG\\000\\377\\376\\r\\n' >picture")
    assert world.changes()["picture"]["binary"]
    world.run("diff")
    world.merge_all()
    assert (world.repo / "picture").read_bytes() == b"PNG\0\xff\xfe\r\n"


def test_a_whole_directory_is_selected_by_its_name(world: World) -> None:
    world.agent("mkdir -p new/deep; echo 1 >new/1; echo 2 >new/deep/2; echo agent >README")
    assert world.merge("--take", "new")["applied"] == ["new/1", "new/deep/2"]
    assert world.read("README") == "hello\n"


def test_files_replaced_by_a_merge_are_kept(world: World) -> None:
    world.agent("echo agent >README; rm src/a")
    world.merge_all()
    kept = {path.read_text() for path in (world.state / "merges").glob("*/stage-0/*")}
    assert kept == {"hello\n", "a\n"}


# Files that run later were accepted like any other, or discarded without asking (`.claude`); the host's .gitignore decided.

RUNS_LATER = (
    ".idea/x.xml",
    ".vscode/tasks.json",
    ".envrc",
    "package.json",
    ".github/workflows/ci.yml",
    ".gitmodules",
    ".gitattributes",
)


def test_files_that_run_later_are_marked_and_not_applied_by_all(world: World) -> None:
    world.agent(f"for n in {' '.join(RUNS_LATER)}; do mkdir -p $(dirname $n); echo x >$n; done; echo plain >plain")
    assert all(change["risks"] for path, change in world.changes().items() if path != "plain")
    assert world.merge("--all")["applied"] == ["plain"]
    assert set(picture(world.repo)) == {b"README", b"plain", b"src", b"src/a", b"src/b"}
    assert world.merge("--take", ".envrc")["applied"] == [".envrc"]


def test_files_below_dot_claude_are_offered_with_their_risk(world: World) -> None:
    world.agent("mkdir -p .claude/skills/s; echo x >.claude/skills/s/SKILL.md; echo {} >.claude/settings.local.json")
    assert {path for path, change in world.changes().items() if change["risks"]} == {
        ".claude/settings.local.json",
        ".claude/skills/s/SKILL.md",
    }


def test_the_agents_gitignore_hides_nothing(world: World) -> None:
    world.agent("echo '*' >.gitignore; echo '*' >src/.gitignore; echo evil >evil; echo evil >src/evil")
    changes = world.changes()
    assert [path for path, change in changes.items() if change["ignored"]] == []
    assert "evil" in world.run("status").out


def test_ignored_files_are_skipped_by_all_and_applied_by_name(world: World) -> None:
    world.put({".gitignore": "*.log\n"})
    world.commit("ignore")
    world.agent("echo log >debug.log; echo plain >plain")
    assert world.changes()["debug.log"]["ignored"]
    assert world.merge("--all")["applied"] == ["plain"]
    assert world.merge("--take", "debug.log")["applied"] == ["debug.log"]
