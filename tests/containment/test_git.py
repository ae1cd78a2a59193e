"""CONTAINMENT F: nothing in the agent's git directory starts a program on the host, and no hostile object comes home.

Each test lets a real agent plant something, lets the host do all that it does with a session, and looks for a marker.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.containment.rows import row
from tests.harness.program import PROGRAM, AgentDev

WORK = "git checkout -q -B main 2>/dev/null; echo x >new && git add new && git commit -qm 'Add new' -- new"
HOOKS = (
    "pre-commit",
    "post-commit",
    "post-checkout",
    "post-merge",
    "post-rewrite",
    "post-index-change",
    "reference-transaction",
    "fsmonitor-watchman",
    "pre-auto-gc",
    "pre-receive",
    "update",
    "post-update",
)
HELP = f"""
hooks() {{
    mkdir -p $1
    for h in {" ".join(HOOKS)}; do printf '#!/bin/sh\\n%s\\n' $X >$1/$h; chmod +x $1/$h; done
}}
"""
VERBS = (("status",), ("diff",), ("commits",), ("merge", "--commits"), ("undo",), ("merge", "--all"))


class Host:
    """A user's repository, and a marker that a planted program would leave."""

    def __init__(self, agent_dev: AgentDev, folder: Path) -> None:
        self.agent_dev, self.repo = agent_dev, agent_dev.repo
        self.marker = folder / "marker"
        self.program = folder / "planted"
        self.program.write_text(f"#!/bin/sh\necho ran >>'{self.marker}'\ncat\n")
        self.program.chmod(0o755)

    def agent(self, script: str) -> None:
        """Let an agent commit, and then do what a script says; `$X` is a program that leaves the marker."""
        done = self.agent_dev("--", "sh", "-c", f"X='{self.program}'\n{HELP}\n{WORK}\n{script}")
        assert done.returncode == 0, done.stderr

    def everything(self) -> None:
        """Do all that the host does with a session, then what the user does; nothing planted may have run."""
        before = self.users()
        for verb in VERBS[:-1]:
            done = self.agent_dev(*verb)
            assert done.returncode == 0, (verb, done.stderr)
        self.agent_dev.git("status")
        self.agent_dev.git("diff")
        self.agent_dev.git("commit", "-q", "--allow-empty", "-m", "next")
        assert not self.marker.exists()
        assert self.users() == before
        assert self.agent_dev.git("fsck", "--strict", "--no-dangling") == ""

    def users(self) -> dict[str, bytes]:
        """Return what of the user's git dir nothing may change: settings, hooks, and what git keeps beside."""
        git = self.repo / ".git"
        places = [git / "config", git / "description", *(git / "hooks").rglob("*"), *(git / "info").rglob("*")]
        return {str(path): path.read_bytes() for path in places if path.is_file()}


@pytest.fixture
def host(agent_dev: AgentDev, tmp_path: Path) -> Host:
    return Host(agent_dev, tmp_path)


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


# --- what objects can hold ---


def refused(host: Host, words: tuple[str, ...] = ("merge", "--commits")) -> str:
    """Check that commits are refused, and that nothing of them, and nothing else, is there afterwards; return the reason."""

    def state() -> tuple[str, list[str], bytes]:
        objects = sorted(str(path) for path in (host.repo / ".git/objects").rglob("*"))
        return host.agent_dev.git("for-each-ref"), objects, (host.repo / ".git/index").read_bytes()

    before = state()
    done = host.agent_dev(*words)
    assert done.returncode == 1, done.stdout
    assert state() == before
    assert host.agent_dev.git("status", "--porcelain") == ""
    assert not list((host.agent_dev.state / "sessions").glob("*/skeleton-*"))
    return done.stderr


def all_refused(host: Host, before: str, tricks: dict[str, str]) -> None:
    """Check that each of some tricks is refused, all of them made by one agent on branches of their own."""
    host.agent(before + "\n".join(f"export n={number}\n{script}" for number, script in enumerate(tricks.values())))
    for number, name in enumerate(tricks):
        assert "refused" in refused(host, ("merge", "--commits", f"evil{number}")), name


# What makes a tree (x), a directory in one (d), a .gitmodules (m), and a branch of a commit with it.
TREE = """
blob=$(echo evil | git hash-object -w --stdin)
x() { git update-ref refs/heads/evil$n $(git commit-tree -p HEAD -m evil $(printf "$1" | git mktree --missing)); }
d() { x "040000 tree $(printf "100644 blob $blob\\tconfig\\n" | git mktree)\\t$1\\n"; }
m() { x "100644 blob $(printf "$1" | git hash-object -w --stdin)\\t.gitmodules\\n"; }
link() { x "120000 blob $(printf /etc/passwd | git hash-object -w --stdin)\\t$1\\n"; }
"""
MISSING = 'x "100644 blob 1234567890123456789012345678901234567890\\tmissing\\n"'
TREES = {
    "a .git directory": "d .git",
    "a .git file": 'x "100644 blob $blob\\t.git\\n"',
    "a .GIT directory": "d .GIT",
    "a git~1 directory": "d git~1",
    "a way up": "d ..",
    "a dot": "d .",
    ".git further down": """
a=$(printf "100644 blob $blob\\tx\\n" | git mktree)
x "040000 tree $(printf "040000 tree $a\\t.git\\n" | git mktree)\\tsub\\n"
""",
    "a missing blob": MISSING,
}


@row("trees with `.git`, `..`, missing objects", "fsck in a quarantine; a refusal leaves nothing")
def test_f20_trees_that_lead_into_git_or_up_are_refused(host: Host) -> None:
    all_refused(host, TREE, TREES)


SLASH = (
    "python3 - <<'E'\nimport hashlib,os,subprocess,zlib\n"
    "blob=subprocess.run(['git','hash-object','-w','--stdin'],input=b'evil',capture_output=True).stdout.decode().strip()\n"
    "def put(kind,data):\n"
    "    full=b'%s %d\\0'%(kind,len(data))+data; o=hashlib.sha1(full).hexdigest()\n"
    "    os.makedirs('.git/objects/'+o[:2],exist_ok=True)\n"
    "    open('.git/objects/'+o[:2]+'/'+o[2:],'wb').write(zlib.compress(full)); return o\n"
    "head=subprocess.run(['git','rev-parse','HEAD'],capture_output=True).stdout.decode().strip()\n"
    "tree=put(b'tree',{entries})\n"
    "who='A <a@b> 1 +0000'\n"
    "c=put(b'commit',f'tree {{tree}}\\nparent {{head}}\\nauthor {{who}}\\ncommitter {{who}}\\n\\nevil\\n'.encode())\n"
    "subprocess.run(['git','update-ref','refs/heads/evil'+os.environ['n'],c],check=True)\nE"
)
RAW = {
    "a slash in a name": "b'100644 a/b\\0'+bytes.fromhex(blob)",
    "an absolute name": "b'100644 /etc/x\\0'+bytes.fromhex(blob)",
    "an empty name": "b'100644 \\0'+bytes.fromhex(blob)",
    "the same name twice": "b'100644 a\\0'+bytes.fromhex(blob)+b'100644 a\\0'+bytes.fromhex(blob)",
    "no order": "b'100644 b\\0'+bytes.fromhex(blob)+b'100644 a\\0'+bytes.fromhex(blob)",
    "a torn tree": "b'100644 a\\0'+bytes.fromhex(blob)[:7]",
}


def test_f20_trees_that_git_would_not_make_are_refused(host: Host) -> None:
    all_refused(host, "", {name: SLASH.format(entries=entries) for name, entries in RAW.items()})


MODULES = {
    "a link": "link .gitmodules",
    "a link by another case": "link .GitModules",
    "a way up in a name": r"""m '[submodule "../../x"]\n\tpath = s\n\turl = ./s\n'""",
    "an option as a URL": r"""m '[submodule "s"]\n\tpath = s\n\turl = -uevil\n'""",
    "an option as a path": r"""m '[submodule "s"]\n\tpath = -evil\n\turl = ./s\n'""",
    "an update command": r"""m '[submodule "s"]\n\tpath = s\n\turl = ./s\n\tupdate = !evil\n'""",
    "what cannot be parsed": r"m '[submodule'",
}


@row("`.gitmodules` as a link, with ways up, options, commands", "fsck in a quarantine")
def test_f13_tricks_with_gitmodules_are_refused(host: Host) -> None:
    all_refused(host, TREE, MODULES)


@row("objects of others by `objects/info/alternates`", "alternates are ours; what is missing then is refused")
def test_f11_objects_behind_foreign_alternates_do_not_come(host: Host, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    host.agent_dev.git("-C", secret, "init", "-q")
    (secret / "file").write_text("a secret\n")
    host.agent_dev.git("-C", secret, "add", "file")
    host.agent_dev.git("-C", secret, "commit", "-q", "-m", "secret")
    oid = host.agent_dev.git("-C", secret, "rev-parse", "HEAD:file").strip()
    commit = host.agent_dev.git("-C", secret, "rev-parse", "HEAD").strip()
    host.agent(
        f"echo {secret}/.git/objects >>.git/objects/info/alternates; {TREE}\n"
        f'x "100644 blob {oid}\\tstolen\\n"; git branch other; echo {commit} >.git/refs/heads/other'
    )
    refused(host, ("merge", "--commits", "evil"))
    refused(host, ("merge", "--commits", "other"))
    assert subprocess.run(["git", "-C", host.repo, "cat-file", "-e", oid], capture_output=True, check=False).returncode != 0


PRETENCES = {
    "a replaced commit": "git replace HEAD $(git commit-tree -m other HEAD^{tree}) -f",
    "a graft": "mkdir -p .git/info; echo $(git rev-parse HEAD) >.git/info/grafts",
    "a shallow border": "git rev-parse HEAD >.git/shallow",
    "a promisor": (
        "git config extensions.partialClone evil; git config remote.evil.promisor true;"
        'git config core.repositoryFormatVersion 1; git config remote.evil.url "ext::$X";'
        "for p in .git/objects/pack/*.pack; do touch ${p%.pack}.promisor 2>/dev/null; done; true"
    ),
    "a commit graph": "mkdir -p .git/objects/info; head -c 2000 /dev/zero >.git/objects/info/commit-graph",
    "a multi-pack index": "head -c 2000 /dev/zero >.git/objects/pack/multi-pack-index",
    "links among objects": "ln -s /etc/passwd .git/objects/pack/pack-x.pack; ln -s /etc .git/objects/ff 2>/dev/null; true",
}


@row("replaced objects, grafts, shallow borders, promisors, false indexes", "a repository of ours has none of it")
@pytest.mark.parametrize("script", PRETENCES.values(), ids=PRETENCES)
def test_f25_what_pretends_about_history_does_not_count(host: Host, script: str) -> None:
    start = host.agent_dev.git("rev-parse", "HEAD").strip()
    host.agent(script)
    done = host.agent_dev("merge", "--commits")
    assert done.returncode == 0, done.stderr
    assert host.agent_dev.git("log", "-1", "--format=%P %s") == f"{start} Add new\n"
    assert host.agent_dev.git("fsck", "--strict", "--no-dangling") == ""
    assert not host.agent_dev.git("for-each-ref", "refs/replace")
    assert not (host.repo / ".git/shallow").exists()
    assert not host.marker.exists()


def test_f25_a_promised_object_that_is_not_there_is_refused(host: Host) -> None:
    promise = (
        "git config extensions.partialClone evil; git config remote.evil.promisor true;"
        'git config core.repositoryFormatVersion 1; git config remote.evil.url "ext::$X"'
    )
    host.agent(f"{TREE}\n{MISSING}\n{promise}")
    refused(host, ("merge", "--commits", "evil"))
    assert not host.marker.exists()


@row("move, delete or rename the user's refs, stash, reflogs", "one ref moves, by compare-and-swap, when it is chosen")
def test_f22_no_other_ref_stash_or_reflog_of_the_users_moves(host: Host) -> None:
    for name in ("keep", "also"):
        host.agent_dev.git("branch", name)
        host.agent_dev.git("tag", f"v-{name}")
    (host.repo / "README.md").write_text("stashed\n")
    host.agent_dev.git("stash", "-q")
    logs = host.repo / ".git/logs"

    def others() -> tuple[list[str], dict[str, bytes]]:
        rows = [row for row in host.agent_dev.git("for-each-ref").splitlines() if not row.endswith("/main")]
        kept = {str(path): path.read_bytes() for path in logs.rglob("*") if path.is_file() and path.name not in ("HEAD", "main")}
        return rows, kept

    before = others()
    host.agent("git branch -D keep; git tag -d v-keep; git branch -f also HEAD; git stash drop -q; rm -rf .git/logs; git tag new")
    assert host.agent_dev("merge", "--commits").returncode == 0
    assert others() == before
    assert host.agent_dev("undo").returncode == 0
    assert others() == before


@pytest.mark.parametrize(
    "name", ["../../../../../tmp/x", "refs/heads/a..b", "refs/heads/-x", "HEAD", "refs/heads/x.lock", "config"]
)
def test_f22_refs_with_odd_names_make_no_ref_of_the_users(host: Host, name: str) -> None:
    before = host.agent_dev.git("for-each-ref")
    host.agent(f"printf '%s %s\\n' $(git rev-parse HEAD) '{name}' >>.git/packed-refs")
    for word in (name, name.removeprefix("refs/heads/")):
        done = host.agent_dev("merge", f"--commits={word}")
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
    rows = host.agent_dev.git("for-each-ref", "--format=%(refname)").splitlines()
    added = [row for row in rows if row not in before]
    assert all(row.startswith("refs/agent-dev/") for row in added), added
    assert host.agent_dev.git("fsck", "--strict", "--no-dangling") == ""


@row("delete the user's objects by a gc", "objects come as hard links, and go home as packs")
def test_f23_a_gc_of_the_agents_takes_nothing_from_the_user(host: Host) -> None:
    host.agent_dev.git("branch", "keep")
    host.agent("git branch -D keep; git reflog expire --expire=now --all; git gc -q --prune=now; git repack -qadf")
    host.everything()


@row("forge who wrote a commit", "it is shown as claimed, the signature as not verified; `--squash` is the user's")
def test_f27_who_a_commit_says_it_is_from_is_shown_and_kept(host: Host) -> None:
    host.agent(
        "echo y >y; git add y; GIT_AUTHOR_NAME='Linus' GIT_AUTHOR_EMAIL=l@example.invalid GIT_COMMITTER_NAME=Forged"
        " GIT_AUTHOR_DATE='1990-01-01T00:00:00Z' git commit -qm forged"
    )
    told = host.agent_dev("commits").stdout
    assert "Linus <l@example.invalid>, 1990-01-01" in told or "Linus <l@example.invalid>, 1989-12-31" in told
    assert host.agent_dev("merge", "--commits", "--squash").returncode == 0
    assert host.agent_dev.git("log", "-1", "--format=%an %cn") == "Ada Lovelace Ada Lovelace\n"


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
