"""CONTAINMENT F: nothing in the agent's git directory starts a program on the host.

In each test an agent plants a program, the host runs every command on the session, and a marker must not be created.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.containment.rows import row
from tests.containment.support.git_host import VERBS, Host
from tests.harness.program import PROGRAM

# --- programs that git runs ---


@row(
    "hooks of every kind",
    "nothing under `.git` is merged; agent-dev runs git with hooks disabled, in repositories that it creates",
)
def test_f01_hooks_are_not_merged_and_do_not_run(host: Host) -> None:
    host.run_agent("hooks .git/hooks")
    host.run_all_commands()


@row("`core.fsmonitor`", "the agent's git settings are never used on the host")
def test_f02_fsmonitor_does_not_run(host: Host) -> None:
    host.run_agent("git config core.fsmonitor $X; git config core.untrackedCache true")
    host.run_all_commands()


@row(
    "`filter.*.clean`, `smudge`, `process`",
    "the agent's git settings are never used on the host; agent-dev writes files itself, without a checkout",
)
def test_f03_filters_do_not_run(host: Host) -> None:
    host.run_agent(
        "for w in clean smudge process; do git config filter.x.$w $X; done; git config filter.x.required true;"
        "mkdir -p .git/info; echo '* filter=x' >.git/info/attributes"
    )
    host.run_all_commands()


def test_f03_filters_of_the_user_are_not_run_by_committed_attributes(host: Host) -> None:
    for word in ("clean", "smudge"):
        host.agent_dev.git("config", f"filter.mine.{word}", str(host.program))
    script = (
        "echo '* filter=mine' >.gitattributes; git -c filter.mine.clean=cat add -A; git -c filter.mine.clean=cat commit -qm more"
    )
    host.run_agent(script)
    merge = ("merge", "--include-risky", "--commits")
    for verb in (("status",), ("commits",), merge, ("undo",), ("redo",)):
        assert host.agent_dev(*verb).returncode == (verb is merge)  # files that need a filter are reported and left out
    assert not host.marker.exists()


@row(
    "external diffs, textconv, merge drivers",
    "the agent's git settings are never used on the host; agent-dev computes diffs and merges without them",
)
def test_f04_diff_and_merge_drivers_do_not_run(host: Host) -> None:
    host.run_agent(
        "git config diff.external $X; git config diff.x.textconv $X; git config diff.x.command $X; git config merge.x.driver $X;"
        "mkdir -p .git/info; echo '* diff=x merge=x' >.git/info/attributes"
    )
    host.run_all_commands()


@row(
    "pagers, editors, signing programs, helpers, aliases, ssh, `ext::`",
    "the agent's git settings are never used on the host; protocols are disabled",
)
def test_f05_pagers_editors_signers_and_aliases_do_not_run(host: Host) -> None:
    keys = ("core.pager", "core.editor", "core.sshCommand", "core.askPass", "gpg.program", "gpg.ssh.program", "credential.helper")
    host.run_agent(
        f"for k in {' '.join(keys)}; do git config $k $X; done; git config log.showSignature true;"
        "git config commit.gpgSign true;"
        'for a in log status fetch update-ref rev-list; do git config alias.$a "!$X"; done; git config protocol.ext.allow always'
    )
    host.run_all_commands()


@row("`include.path`, `includeIf`", "the agent's git settings are never used on the host")
def test_f06_included_settings_are_not_used(host: Host) -> None:
    host.run_agent(
        "git config -f .git/more core.fsmonitor $X; git config include.path more;"
        "git config -f evil core.fsmonitor $X; git config includeIf.gitdir:/.path $PWD/evil; rm -f evil"
    )
    host.run_all_commands()


@row("`core.hooksPath`, `init.templateDir`", "the agent's git settings are never used on the host")
def test_f07_a_directory_of_hooks_in_the_tree_does_not_run(host: Host) -> None:
    host.run_agent("hooks .h; git config core.hooksPath .h; git config init.templateDir $PWD/.h; mv .h .git/h")
    host.run_all_commands()


@row(
    "point a `.git` file to another `gitdir:`",
    "nothing under `.git` is merged as a file; the path of the git directory was recorded at the start",
)
def test_f09_a_rewritten_git_file_is_not_followed(host: Host, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    host.agent_dev.git("worktree", "add", "-q", "-b", "side", linked)
    pointer = (linked / ".git").read_bytes()
    script = (
        "echo x >new; git add new; git commit -qm new; git init -q evil; git -C evil config core.fsmonitor "
        f"'{host.program}'; rm -f .git 2>/dev/null; echo gitdir: $PWD/evil/.git >.git 2>/dev/null; true"
    )
    host.agent_dev("--", "sh", "-c", script, cwd=linked)
    for verb in (("status",), ("commits",), ("merge", "--include-risky", "--commits"), ("undo",)):
        host.agent_dev(*verb, cwd=linked)
    host.agent_dev.git("-C", linked, "status")
    assert (linked / ".git").read_bytes() == pointer
    assert not host.marker.exists()


@row("`commondir` and `gitdir` of a linked work tree", "agent-dev parses refs itself and hard-links objects one by one")
def test_f10_commondir_and_gitdir_of_a_worktree_are_not_followed(host: Host, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    host.agent_dev.git("worktree", "add", "-q", "-b", "side", linked)
    script = (
        "echo x >new; git add new; git commit -qm new; d=$(git rev-parse --git-dir); git init -q --bare /tmp/evil.git;"
        f"git -C /tmp/evil.git config core.fsmonitor '{host.program}'; echo /tmp/evil.git >$d/commondir; echo /etc >$d/gitdir"
    )
    host.agent_dev("--", "sh", "-c", script, cwd=linked)
    done = host.agent_dev("merge", "--include-risky", "--commits", cwd=linked)
    assert done.returncode == 0, done.stderr
    assert host.agent_dev.git("-C", linked, "log", "-1", "--format=%s") == "new\n"
    assert host.agent_dev.git("-C", linked, "status", "--porcelain") == ""
    assert not host.marker.exists()


@row("`submodule.*.update = !command`", "the agent's git settings are never used on the host")
def test_f14_a_submodules_update_command_does_not_run(host: Host) -> None:
    host.run_agent('git config submodule.x.update "!$X"; git config submodule.recurse true; git config submodule.x.active true')
    host.run_all_commands()


@row("send the next push elsewhere", "the user's settings stay the same, byte for byte")
def test_f15_the_users_push_target_is_unchanged(host: Host) -> None:
    host.agent_dev.git("remote", "add", "origin", "https://example.invalid/shop.git")
    before = (host.repo / ".git/config").read_bytes()
    host.run_agent(
        "git config url.https://evil.invalid/.insteadOf https://; git config url.https://evil.invalid/.pushInsteadOf https://;"
        "git remote set-url origin https://evil.invalid/x.git; git config branch.main.remote evil"
    )
    host.run_all_commands()
    assert (host.repo / ".git/config").read_bytes() == before


@row("an interrupted rebase with `exec` lines", "nothing under `.git` is merged")
def test_f17_a_planted_rebase_is_not_continued(host: Host) -> None:
    host.run_agent(
        'mkdir -p .git/rebase-merge .git/sequencer; for f in git-rebase-todo done; do echo "exec $X" >.git/rebase-merge/$f; done;'
        "echo refs/heads/main >.git/rebase-merge/head-name; git rev-parse HEAD >.git/rebase-merge/onto;"
        'echo "exec $X" >.git/sequencer/todo'
    )
    host.run_all_commands()
    assert not (host.repo / ".git/rebase-merge").exists()
    assert not (host.repo / ".git/sequencer").exists()


@row("hide edits by flags in the index", "the agent's index is never read")
def test_f19_flags_in_the_agents_index_hide_nothing(host: Host) -> None:
    host.run_agent(
        "git update-index --skip-worktree README.md; git update-index --assume-unchanged sub/app.py;"
        "echo evil >>README.md; echo evil >>sub/app.py"
    )
    paths = {change["path"] for change in host.agent_dev.status()["changes"]}
    assert {"README.md", "sub/app.py"} <= paths
    assert host.agent_dev("merge", "--include-risky", "--commits").returncode == 0
    assert all(line.startswith("H") for line in host.agent_dev.git("ls-files", "-v").splitlines())


@row("ignore rules and attributes in the git directory", "nothing under `.git` is merged")
def test_f28_ignore_rules_and_attributes_in_the_git_dir_are_not_merged(host: Host) -> None:
    host.run_agent(
        "mkdir -p .git/info; echo '*' >.git/info/exclude; echo '* -text' >.git/info/attributes;echo /x >.git/info/sparse-checkout"
    )
    host.run_all_commands()


# --- the trace ---


def test_f01_to_f28_only_git_is_executed(host: Host, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    host.run_agent(
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
        argv = ("strace", "-ff", "-qq", "-e", "trace=execve,execveat", "-o", str(trace), str(PROGRAM), *verb)
        env = host.agent_dev.environment(path)
        done = subprocess.run(argv, cwd=host.repo, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        executed |= {
            row.split('"')[1]
            for of_process in tmp_path.glob(f"{trace.name}.*")  # one file per process, as concurrent writes would interleave
            for row in of_process.read_text().splitlines()
            if "execve" in row and row.rstrip().endswith("= 0")
        }
    executed -= {str(PROGRAM)}
    assert executed, "the trace is empty"
    assert {os.path.basename(name) for name in executed} == {"git"}, executed
    assert not any(name.startswith(str(host.repo)) for name in executed)
    assert not host.marker.exists()
