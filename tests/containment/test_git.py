"""CONTAINMENT F: nothing in the agent's git directory starts a program on the host.

Each test lets a real agent plant something, lets the host do all that it does with a session, and looks for a marker.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.containment.git_host import VERBS, Host
from tests.containment.rows import row
from tests.harness.program import PROGRAM

# --- what runs when git is run ---


@row("hooks of every kind", "nothing under `.git` comes home; git runs with hooks off, in repositories of ours")
def test_f01_hooks_do_not_come_home_and_do_not_run(host: Host) -> None:
    host.agent("hooks .git/hooks")
    host.everything()


@row("`core.fsmonitor`", "the agent's settings never count on the host")
def test_f02_fsmonitor_does_not_run(host: Host) -> None:
    host.agent("git config core.fsmonitor $X; git config core.untrackedCache true")
    host.everything()


@row("`filter.*.clean`, `smudge`, `process`", "the same; files are written by us, never by a checkout")
def test_f03_filters_do_not_run(host: Host) -> None:
    host.agent(
        "for w in clean smudge process; do git config filter.x.$w $X; done; git config filter.x.required true;"
        "mkdir -p .git/info; echo '* filter=x' >.git/info/attributes"
    )
    host.everything()


def test_f03_filters_of_the_users_are_not_started_by_committed_attributes(host: Host) -> None:
    for word in ("clean", "smudge"):
        host.agent_dev.git("config", f"filter.mine.{word}", str(host.program))
    script = (
        "echo '* filter=mine' >.gitattributes; git -c filter.mine.clean=cat add -A; git -c filter.mine.clean=cat commit -qm more"
    )
    host.agent(script)
    for verb in (("status",), ("commits",), ("merge", "--commits"), ("undo",), ("redo",)):
        assert host.agent_dev(*verb).returncode == 0
    assert not host.marker.exists()


@row("external diffs, textconv, merge drivers", "the same; diffs and merges are ours, or in memory")
def test_f04_diff_and_merge_drivers_do_not_run(host: Host) -> None:
    host.agent(
        "git config diff.external $X; git config diff.x.textconv $X; git config diff.x.command $X; git config merge.x.driver $X;"
        "mkdir -p .git/info; echo '* diff=x merge=x' >.git/info/attributes"
    )
    host.everything()


@row("pagers, editors, signing programs, helpers, aliases, ssh, `ext::`", "the same; protocols are off")
def test_f05_pagers_editors_signers_and_aliases_do_not_run(host: Host) -> None:
    keys = ("core.pager", "core.editor", "core.sshCommand", "core.askPass", "gpg.program", "gpg.ssh.program", "credential.helper")
    host.agent(
        f"for k in {' '.join(keys)}; do git config $k $X; done; git config log.showSignature true;"
        "git config commit.gpgSign true;"
        'for a in log status fetch update-ref rev-list; do git config alias.$a "!$X"; done; git config protocol.ext.allow always'
    )
    host.everything()


@row("`include.path`, `includeIf`", "the same")
def test_f06_included_settings_do_not_count(host: Host) -> None:
    host.agent(
        "git config -f .git/more core.fsmonitor $X; git config include.path more;"
        "git config -f evil core.fsmonitor $X; git config includeIf.gitdir:/.path $PWD/evil; rm -f evil"
    )
    host.everything()


@row("`core.hooksPath`, `init.templateDir`", "the same")
def test_f07_a_directory_of_hooks_in_the_tree_does_not_run(host: Host) -> None:
    host.agent("hooks .h; git config core.hooksPath .h; git config init.templateDir $PWD/.h; mv .h .git/h")
    host.everything()


@row(
    "another `gitdir:` in a `.git` file",
    "what is under `.git` is never merged as a file; where the git dir is was noted at the start",
)
def test_f09_a_rewritten_git_file_leads_nowhere(host: Host, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    host.agent_dev.git("worktree", "add", "-q", "-b", "side", linked)
    pointer = (linked / ".git").read_bytes()
    script = (
        "echo x >new; git add new; git commit -qm new; git init -q evil; git -C evil config core.fsmonitor "
        f"'{host.program}'; rm -f .git 2>/dev/null; echo gitdir: $PWD/evil/.git >.git 2>/dev/null; true"
    )
    host.agent_dev("--", "sh", "-c", script, cwd=linked)
    for verb in (("status",), ("commits",), ("merge", "--commits"), ("undo",)):
        host.agent_dev(*verb, cwd=linked)
    host.agent_dev.git("-C", linked, "status")
    assert (linked / ".git").read_bytes() == pointer
    assert not host.marker.exists()


@row("`commondir` and `gitdir` of a linked work tree", "refs are parsed by us, objects are linked one by one")
def test_f10_commondir_and_gitdir_of_a_work_tree_are_not_followed(host: Host, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    host.agent_dev.git("worktree", "add", "-q", "-b", "side", linked)
    script = (
        "echo x >new; git add new; git commit -qm new; d=$(git rev-parse --git-dir); git init -q --bare /tmp/evil.git;"
        f"git -C /tmp/evil.git config core.fsmonitor '{host.program}'; echo /tmp/evil.git >$d/commondir; echo /etc >$d/gitdir"
    )
    host.agent_dev("--", "sh", "-c", script, cwd=linked)
    done = host.agent_dev("merge", "--commits", cwd=linked)
    assert done.returncode == 0, done.stderr
    assert host.agent_dev.git("-C", linked, "log", "-1", "--format=%s") == "new\n"
    assert host.agent_dev.git("-C", linked, "status", "--porcelain") == ""
    assert not host.marker.exists()


@row("`submodule.*.update = !command`", "the agent's settings never count on the host")
def test_f14_a_submodules_update_command_does_not_run(host: Host) -> None:
    host.agent('git config submodule.x.update "!$X"; git config submodule.recurse true; git config submodule.x.active true')
    host.everything()


@row("send the next push elsewhere", "the user's settings stay bit for bit")
def test_f15_where_the_user_pushes_stays(host: Host) -> None:
    host.agent_dev.git("remote", "add", "origin", "https://example.invalid/shop.git")
    before = (host.repo / ".git/config").read_bytes()
    host.agent(
        "git config url.https://evil.invalid/.insteadOf https://; git config url.https://evil.invalid/.pushInsteadOf https://;"
        "git remote set-url origin https://evil.invalid/x.git; git config branch.main.remote evil"
    )
    host.everything()
    assert (host.repo / ".git/config").read_bytes() == before


@row("a rebase that waits with `exec` lines", "nothing under `.git` comes home")
def test_f17_a_planted_rebase_is_not_gone_on_with(host: Host) -> None:
    host.agent(
        'mkdir -p .git/rebase-merge .git/sequencer; for f in git-rebase-todo done; do echo "exec $X" >.git/rebase-merge/$f; done;'
        "echo refs/heads/main >.git/rebase-merge/head-name; git rev-parse HEAD >.git/rebase-merge/onto;"
        'echo "exec $X" >.git/sequencer/todo'
    )
    host.everything()
    assert not (host.repo / ".git/rebase-merge").exists()
    assert not (host.repo / ".git/sequencer").exists()


@row("hide edits by flags in the index", "the agent's index is never read")
def test_f19_flags_in_the_agents_index_hide_nothing(host: Host) -> None:
    host.agent(
        "git update-index --skip-worktree README.md; git update-index --assume-unchanged sub/app.py;"
        "echo evil >>README.md; echo evil >>sub/app.py"
    )
    paths = {change["path"] for change in host.agent_dev.status()["changes"]}
    assert {"README.md", "sub/app.py"} <= paths
    assert host.agent_dev("merge", "--commits").returncode == 0
    assert all(line.startswith("H") for line in host.agent_dev.git("ls-files", "-v").splitlines())


@row("ignore rules and attributes in the git dir", "nothing under `.git` comes home")
def test_f28_ignore_rules_and_attributes_of_the_agents_git_dir_do_not_come(host: Host) -> None:
    host.agent(
        "mkdir -p .git/info; echo '*' >.git/info/exclude; echo '* -text' >.git/info/attributes;echo /x >.git/info/sparse-checkout"
    )
    host.everything()


# --- the trace ---


def test_f01_to_f28_git_is_all_that_is_executed(host: Host, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    host.agent(
        "hooks .git/hooks; git config core.fsmonitor $X;"
        "git config filter.x.clean $X; git config filter.x.smudge $X; git config diff.external $X;"
        "git config gpg.program $X; git config commit.gpgSign true; git config core.sshCommand $X; git config core.pager $X;"
        "mkdir -p .git/info bin; echo '* filter=x diff=x' | tee .git/info/attributes >.gitattributes;"
        "printf '#!/bin/sh\\n%s\\n' $X >bin/git; chmod +x bin/git"
    )
    path = {"PATH": f"{host.repo}/bin:{host.agent_dev.env['PATH']}"}
    executed: set[str] = set()
    for number, verb in enumerate(VERBS):
        trace = tmp_path / f"trace{number}"
        words = ("strace", "-ff", "-qq", "-e", "trace=execve,execveat", "-o", str(trace), str(PROGRAM), *verb)
        env = host.agent_dev.environment(path)
        done = subprocess.run(words, cwd=host.repo, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        executed |= {
            row.split('"')[1]
            for of_process in tmp_path.glob(f"{trace.name}.*")  # apart: processes that run at once would cut each other's lines
            for row in of_process.read_text().splitlines()
            if "execve" in row and row.rstrip().endswith("= 0")
        }
    executed -= {str(PROGRAM)}
    assert executed, "the trace is empty"
    assert {os.path.basename(name) for name in executed} == {"git"}, executed
    assert not any(name.startswith(str(host.repo)) for name in executed)
    assert not host.marker.exists()
