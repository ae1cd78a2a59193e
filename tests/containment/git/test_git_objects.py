"""CONTAINMENT F: no malformed or hostile object is imported, and only the selected ref is updated."""

import subprocess
from pathlib import Path

import pytest

from tests.containment.rows import row
from tests.containment.support.git_host import Host


def refused(host: Host, words: tuple[str, ...] = ("merge", "--include-risky", "--commits")) -> str:
    """Check that commits are refused and leave nothing behind; return the reason."""

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
    """Check that each trick is refused; one agent commits all of them, each on its own branch."""
    host.run_agent(before + "\n".join(f"export n={number}\n{script}" for number, script in enumerate(tricks.values())))
    for number, name in enumerate(tricks):
        assert "refused" in refused(host, ("merge", "--include-risky", "--commits", f"evil{number}")), name


# Shell functions that create a tree (x), a directory in a tree (d), a .gitmodules (m), and a branch with a commit of a tree.
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


@row("trees with `.git`, `..`, missing objects", "git checks all objects in a quarantine; a refused import leaves nothing behind")
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


def test_f20_trees_that_git_would_not_create_are_refused(host: Host) -> None:
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


@row("`.gitmodules` as a symlink, with `..`, options, commands", "git checks the objects in a quarantine")
def test_f13_tricks_with_gitmodules_are_refused(host: Host) -> None:
    all_refused(host, TREE, MODULES)


@row(
    "other repositories' objects by `objects/info/alternates`",
    "agent-dev sets the alternates itself; commits with missing objects are refused",
)
def test_f11_objects_behind_foreign_alternates_are_not_imported(host: Host, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    host.agent_dev.git("-C", secret, "init", "-q")
    (secret / "file").write_text("a secret\n")
    host.agent_dev.git("-C", secret, "add", "file")
    host.agent_dev.git("-C", secret, "commit", "-q", "-m", "secret")
    oid = host.agent_dev.git("-C", secret, "rev-parse", "HEAD:file").strip()
    commit = host.agent_dev.git("-C", secret, "rev-parse", "HEAD").strip()
    host.run_agent(
        f"echo {secret}/.git/objects >>.git/objects/info/alternates; {TREE}\n"
        f'x "100644 blob {oid}\\tstolen\\n"; git branch other; echo {commit} >.git/refs/heads/other'
    )
    refused(host, ("merge", "--include-risky", "--commits", "evil"))
    refused(host, ("merge", "--include-risky", "--commits", "other"))
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


@row("replace refs, grafts, shallow files, promisors, false indexes", "imports use a new repository without any of them")
@pytest.mark.parametrize("script", PRETENCES.values(), ids=PRETENCES)
def test_f25_replace_refs_grafts_and_shallow_files_are_ignored(host: Host, script: str) -> None:
    start = host.agent_dev.git("rev-parse", "HEAD").strip()
    host.run_agent(script)
    done = host.agent_dev("merge", "--include-risky", "--commits")
    assert done.returncode == 0, done.stderr
    assert host.agent_dev.git("log", "-1", "--format=%P %s") == f"{start} Add new\n"
    assert host.agent_dev.git("fsck", "--strict", "--no-dangling") == ""
    assert not host.agent_dev.git("for-each-ref", "refs/replace")
    assert not (host.repo / ".git/shallow").exists()
    assert not host.marker.exists()


def test_f25_a_missing_promised_object_is_refused(host: Host) -> None:
    promise = (
        "git config extensions.partialClone evil; git config remote.evil.promisor true;"
        'git config core.repositoryFormatVersion 1; git config remote.evil.url "ext::$X"'
    )
    host.run_agent(f"{TREE}\n{MISSING}\n{promise}")
    refused(host, ("merge", "--include-risky", "--commits", "evil"))
    assert not host.marker.exists()


@row("move, delete or rename the user's refs, stash, reflogs", "only the selected ref is updated, by compare-and-swap")
def test_f22_no_other_ref_stash_or_reflog_of_the_user_changes(host: Host) -> None:
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
    host.run_agent(
        "git branch -D keep; git tag -d v-keep; git branch -f also HEAD; git stash drop -q; rm -rf .git/logs; git tag new"
    )
    assert host.agent_dev("merge", "--include-risky", "--commits").returncode == 0
    assert others() == before
    assert host.agent_dev("undo").returncode == 0
    assert others() == before


@pytest.mark.parametrize(
    "name", ["../../../../../tmp/x", "refs/heads/a..b", "refs/heads/-x", "HEAD", "refs/heads/x.lock", "config"]
)
def test_f22_refs_with_unusual_names_create_no_ref_of_the_user(host: Host, name: str) -> None:
    before = host.agent_dev.git("for-each-ref")
    host.run_agent(f"printf '%s %s\\n' $(git rev-parse HEAD) '{name}' >>.git/packed-refs")
    for word in (name, name.removeprefix("refs/heads/")):
        done = host.agent_dev("merge", f"--commits={word}")
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
    rows = host.agent_dev.git("for-each-ref", "--format=%(refname)").splitlines()
    added = [row for row in rows if row not in before]
    assert all(row.startswith("refs/agent-dev/") for row in added), added
    assert host.agent_dev.git("fsck", "--strict", "--no-dangling") == ""


@row("delete the user's objects by a gc", "the agent gets hard links to objects; imports come as packs")
def test_f23_a_gc_of_the_agent_deletes_nothing_of_the_user(host: Host) -> None:
    host.agent_dev.git("branch", "keep")
    host.run_agent("git branch -D keep; git reflog expire --expire=now --all; git gc -q --prune=now; git repack -qadf")
    host.run_all_commands()


@row("forge the author of a commit", "shown as claimed, signatures as not verified; with `--squash` the user is the author")
def test_f27_the_claimed_author_of_a_commit_is_shown_and_kept(host: Host) -> None:
    host.run_agent(
        "echo y >y; git add y; GIT_AUTHOR_NAME='Linus' GIT_AUTHOR_EMAIL=l@example.invalid GIT_COMMITTER_NAME=Forged"
        " GIT_AUTHOR_DATE='1990-01-01T00:00:00Z' git commit -qm forged"
    )
    reported = host.agent_dev("commits").stdout
    assert "Linus <l@example.invalid>, 1990-01-01" in reported or "Linus <l@example.invalid>, 1989-12-31" in reported
    assert host.agent_dev("merge", "--include-risky", "--commits", "--squash").returncode == 0
    assert host.agent_dev.git("log", "-1", "--format=%an %cn") == "Ada Lovelace Ada Lovelace\n"
