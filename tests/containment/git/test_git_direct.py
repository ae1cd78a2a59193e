"""CONTAINMENT F: in direct mode, an agent leaves no git repository that the user's git would open."""

import subprocess
from pathlib import Path

import pytest

from tests.containment.rows import RESIDUAL, row
from tests.containment.support.git_host import HELP, Host
from tests.harness.program import wait_until

EVIL = """
evil() {  # DIR: a git directory that starts a program whatever git does with it
    git init -q --bare $1; hooks $1/hooks
    git --git-dir=$1 config core.bare false; git --git-dir=$1 config core.fsmonitor $X
    git --git-dir=$1 config core.untrackedCache true
}
"""


def work(host: Host, script: str, *options: str) -> str:
    """Let an agent change the real tree; return stderr."""
    done = host.agent_dev("run", "--direct", *options, "--", "sh", "-c", f"X='{host.program}'\n{HELP}\n{EVIL}\n{script}")
    assert done.returncode == 0, done.stderr
    return done.stderr


def use_git(host: Host, *folders: Path) -> None:
    """Run the git commands of a user and an editor in some directories and in the root, whether they are repositories or not."""
    for folder in (host.repo, *folders):
        for argv in (("status",), ("diff",), ("log", "-1"), ("checkout", "HEAD"), ("commit", "-q", "--allow-empty", "-m", "x")):
            subprocess.run(
                ["git", "-c", "user.name=A", "-c", "user.email=a@b", *argv],
                cwd=folder,
                env=host.agent_dev.environment(),
                capture_output=True,
                check=False,
                timeout=60,
            )
    assert not host.marker.exists(), host.marker.read_text()


def make(host: Host, name: str, *words: str) -> Path:
    """Create a repository of the user below the root, with one commit."""
    place = host.repo / name
    host.agent_dev.git("init", "-q", *words, place)
    if "--bare" not in words:
        (place / "a").write_text("a\n")
        host.agent_dev.git("-C", place, "add", "a")
        host.agent_dev.git("-C", place, "commit", "-q", "-m", "a")
    return place


def add_submodule(host: Host, parent: Path, source: Path, name: str) -> Path:
    """Add a submodule to a repository of the user; return it."""
    git = ("-C", parent, "-c", "protocol.file.allow=always")
    host.agent_dev.git(*git, "submodule", "add", "-q", source, name)
    host.agent_dev.git("-C", parent, "commit", "-q", "-m", "module")
    return parent / name


def settings(git_dirs: Path) -> list[Path]:
    """Return the settings and hooks in git directories."""
    return [path for path in git_dirs.rglob("*") if path.is_file() and (path.name == "config" or path.parent.name == "hooks")]


@pytest.fixture
def submodule(host: Host, tmp_path: Path) -> Path:
    """Create a submodule of the user; return it."""
    host.agent_dev.git("init", "-q", tmp_path / "other")
    host.agent_dev.git("-C", tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "s")
    return add_submodule(host, host.repo, tmp_path / "other", "sub/module")


@row(
    "`--direct`: hooks and `core.fsmonitor` for a repository of yours below the root, bare or not",
    "a private copy is mounted over its git directory, as for the root",
)
@pytest.mark.parametrize("words", [(), ("--bare",)])
def test_f29_a_nested_repository_gets_no_settings_and_no_hooks(host: Host, words: tuple[str, ...]) -> None:
    place = make(host, "vendor/lib", *words)
    git = place if words else place / ".git"
    before = {path: path.read_bytes() for path in git.rglob("*") if path.is_file()}
    work(
        host,
        f"cd vendor/lib; hooks {git}/hooks; git config core.fsmonitor $X; git rev-parse HEAD; mv {git} /tmp 2>/dev/null; true",
    )
    use_git(host, place)
    if words:
        assert {path: path.read_bytes() for path in git.rglob("*") if path.is_file()} == before
    assert "fsmonitor" not in (git / "config").read_text()


@row(
    "`--direct`: another `gitdir:` in the `.git` file of a submodule or a linked work tree",
    "the file is read-only inside and cannot be moved; its git directory is the private copy",
)
def test_f30_a_submodules_git_file_is_unchanged(host: Host, submodule: Path) -> None:
    before = (submodule / ".git").read_text()
    work(host, "evil evil; echo gitdir: $PWD/evil >sub/module/.git; rm -f sub/module/.git; mv sub/module/.git x; true")
    assert (submodule / ".git").read_text() == before
    use_git(host, submodule, host.repo / "evil")


PLANTS = {
    "by git": "git -C $W config core.fsmonitor $X; git -C $W config core.untrackedCache true; hooks $G/hooks",
    "by a hooks path": "mkdir .h; hooks .h; git -C $W config core.hooksPath $PWD/.h",
    "in the files": "printf '[core]\\nfsmonitor = %s\\n' $X >>$G/config; hooks $G/hooks",
    "in a new directory": "cp -r $G $G.new; printf '[core]\\nfsmonitor = %s\\n' $X >>$G.new/config; rm -rf $G; mv $G.new $G",
    "by an include": "printf '[core]\\nfsmonitor = %s\\n' $X >inc; git -C $W config include.path $PWD/inc",
    "in a work tree's settings": "git -C $W config extensions.worktreeConfig true; git -C $W config --worktree core.fsmonitor $X",
    "for the parent": "git config core.fsmonitor $X; git config submodule.recurse true; hooks .git/hooks",
    "by a checkout": "git config submodule.sub/module.update '!'$X; git submodule update --remote; git config filter.x.clean $X",
}


@row(
    "`--direct`: hooks and `core.fsmonitor` for a submodule or a submodule of a nested repository, in `.git/modules/NAME`",
    "it is in the private copy of the git directory above it; the real one is not mounted",
)
@pytest.mark.parametrize("script", PLANTS.values(), ids=PLANTS.keys())
def test_f34_a_submodule_gets_no_settings_and_no_hooks(host: Host, submodule: Path, tmp_path: Path, script: str) -> None:
    lib = make(host, "vendor/lib")
    modules = (submodule, add_submodule(host, lib, tmp_path / "other", "inner"))
    before = {path: path.read_bytes() for top in (host.repo, lib) for path in settings(top / ".git/modules")}
    assert all((place / ".git").is_file() for place in modules)
    for place in modules:
        git = host.agent_dev.git("-C", place, "rev-parse", "--absolute-git-dir").strip()
        work(host, f"W={place}; G={git}\n( {script} ) 2>&1; git -C $W status >/dev/null; true")
    assert {path: path.read_bytes() for path in before} == before
    use_git(host, lib, *modules)
    files = [path for path in host.repo.rglob("*") if path.is_file() and ".git" in path.parts]
    assert not [path for path in files if str(host.program).encode() in path.read_bytes()]


@pytest.mark.parametrize("place", ["sub/module", "vendor/lib"])
def test_f34_the_same_settings_run_a_program_where_nothing_protects(host: Host, submodule: Path, place: str) -> None:
    make(host, "vendor/lib")
    host.agent_dev.git("-C", host.repo / place, "config", "core.fsmonitor", host.program)
    with pytest.raises(AssertionError, match="ran"):
        use_git(host, submodule, host.repo / place)


MADE = {
    "a directory": "evil new/.git",
    "a file": "evil .hidden; mkdir new; echo gitdir: $PWD/.hidden >new/.git",
    "a file and a link out": "evil ~/.x; mkdir new new2; echo gitdir: $HOME/.x >new/.git; ln -s ~/.x new2/.git",
    "bare": "evil new",
    "a linked work tree": """
        evil new/.git; mkdir linked w; cp -r new/.git/HEAD new/.git/refs linked; rm new/.git/HEAD
        echo ../new/.git >linked/commondir; echo gitdir: $PWD/linked >w/.git""",
    "in a submodule's place": "mv sub/module sub/moved; evil sub/module/.git",
    "in a submodule's place, above it": "mv sub away; evil sub/module/.git",
    "in a repository's place": "mv vendor away; evil vendor/lib/.git",
    "shut": "evil new/.git; chmod 0 new/.git; chmod 500 new",
    "shut above it": "evil new/.git; chmod 555 new/.git; chmod 0 new",
    "the root itself": "evil .x; rm -rf .x/refs; mv .x/* .; mkdir refs",
}


@row(
    "`--direct`: a new repository: `.git` as a directory, a file or a symlink, bare, at the path of a moved one, unreadable",
    "disabled after the agent has exited, and reported: `HEAD` or `.git` is renamed, so that git does not find it",
)
@pytest.mark.parametrize("script", MADE.values(), ids=MADE.keys())
def test_f31_a_repository_created_by_the_agent_is_disabled(host: Host, submodule: Path, script: str) -> None:
    lib = make(host, "vendor/lib")
    output = work(host, script)
    assert "git repositor" in output, output
    opened = []
    for path in (host.repo / "new", host.repo / "new/.git"):
        if path.is_dir():
            path.chmod(0o755)
            opened.append(path)
    places = [host.repo / name for name in ("new", "new2", "w", "linked", "vendor/lib", "sub/module", "sub", "away")]
    use_git(host, *(path for path in (*places, *opened) if path.is_dir()))
    assert lib.parent.parent == host.repo
    assert submodule.parent.parent == host.repo


@row("`--direct`: a settings file in the work tree that your `.git/config` includes", "read-only inside")
def test_f32_an_included_settings_file_is_not_written(host: Host) -> None:
    (host.repo / ".gitconfig").write_text("[user]\n\tname = Ada\n")
    host.agent_dev.git("config", "include.path", "../.gitconfig")
    work(host, "git config -f .gitconfig core.fsmonitor $X; echo '[core]\nfsmonitor = '$X >.gitconfig; rm -f .gitconfig; true")
    assert (host.repo / ".gitconfig").read_text() == "[user]\n\tname = Ada\n"
    use_git(host)


@row(
    "`--direct`: have your git open a new repository while the agent is running",
    "possible: it is disabled only after the agent has exited; repositories that existed before are always protected",
    RESIDUAL,
)
def test_f33_a_new_repository_is_active_until_the_agent_has_exited(host: Host) -> None:
    script = f"X='{host.program}'\n{HELP}\n{EVIL}\nevil new/.git; echo ready; read line"
    with host.agent_dev.start("run", "--direct", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert (host.repo / "new/.git/HEAD").exists()
        _, output = process.communicate("\n", timeout=60)
    assert "new/.git" in output
    use_git(host, host.repo / "new")


def test_f33_after_a_killed_launcher_the_next_run_or_restore_disables_it(host: Host) -> None:
    script = f"X='{host.program}'\n{HELP}\n{EVIL}\nevil new/.git; echo ready; read line"
    with host.agent_dev.start("run", "--direct", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.wait(20)
    wait_until(lambda: "new/.git" in host.agent_dev("restore", "--dry-run").stderr, "it is told")
    use_git(host, host.repo / "new")
