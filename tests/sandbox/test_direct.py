"""Direct mode: an agent in the real tree behind a snapshot, and bringing back exactly what was there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import program
from tests.harness.program import AgentDev, wait_until

# Kinds of file systems to try on: where one can be mounted, and where not (an ordinary user) the one that is there.
KINDS = ("here", "xfs", "btrfs", "btrfs, mounted there") if os.getuid() == 0 else ("here",)
OTHERS = (".git/", ".agent-dev-snapshot.", ".snapshots")
DAMAGE = """
echo changed >README.md; rm sub/app.py; echo new >new; mkdir -p made/deep; echo x >made/deep/x; chmod 600 script; rm link
ln -s elsewhere link; rm -r folder; echo file >folder; rm file; mkdir file; echo y >file/y; setfattr -n user.note -v two marked
"""


def tree(repo: Path) -> dict[str, str]:
    """Return what a work tree holds; its git directory is the business of other tests."""
    return {path: entry for path, entry in program.tree(repo).items() if not path.startswith(OTHERS)}


def filled(repo: Path) -> None:
    """Add one of each kind to a repository."""
    (repo / "script").write_text("#!/bin/sh\n")
    (repo / "script").chmod(0o755)
    (repo / "link").symlink_to("README.md")
    (repo / "folder" / "in").mkdir(parents=True)
    (repo / "folder" / "in" / "z").write_text("z\n")
    (repo / "file").write_text("file\n")
    (repo / "marked").write_text("marked\n")
    os.setxattr(repo / "marked", "user.note", b"one")
    (repo / "odd\nname").write_bytes(bytes(range(256)))
    os.mkfifo(repo / "fifo")


def mounted(kind: str, place: Path) -> None:
    image = place.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(400 << 20)
    subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True, capture_output=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)


@pytest.fixture(params=KINDS)
def direct(request: pytest.FixtureRequest, agent_dev: AgentDev, tmp_path: Path) -> Iterator[AgentDev]:
    """The program, its state and a repository on a file system of some kind; on btrfs the repository is a subvolume."""
    if request.param == "here":
        filled(agent_dev.repo)
        yield agent_dev
        return
    kind, _, is_there = request.param.partition(", ")
    place = agent_dev.repo.with_name("mounted") if is_there else tmp_path / "disk"
    mounted(kind, place)
    try:
        home, repo = (agent_dev.home, place) if is_there else (place / "home", place / "home" / "src" / "shop")
        if not is_there:
            shutil.copytree(agent_dev.home, home, symlinks=True, ignore=shutil.ignore_patterns("shop"))
        if kind == "btrfs" and not is_there:
            subprocess.run(["btrfs", "subvolume", "create", str(repo)], check=True, capture_output=True)
        shutil.copytree(agent_dev.repo, repo, symlinks=True, dirs_exist_ok=True)
        filled(repo)
        yield AgentDev(home, repo)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # what tidies up may still be in it


def ran(agent_dev: AgentDev, script: str, *options: str) -> str:
    """Run a script in the real tree; return what was said."""
    done = agent_dev("run", options[0] if options else "--direct", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stderr


def attributes(repo: Path) -> dict[str, bytes]:
    return {name: os.getxattr(repo / "marked", name) for name in os.listxattr(repo / "marked")}


def test_all_that_an_agent_did_to_the_real_tree_is_taken_back(direct: AgentDev) -> None:
    before, marks = tree(direct.repo), attributes(direct.repo)
    said = ran(direct, DAMAGE)
    assert "agent-dev restore" in said
    assert (direct.repo / "README.md").read_text() == "changed\n"
    damaged = tree(direct.repo)
    preview = direct("restore", "--dry-run")
    assert (preview.returncode, tree(direct.repo)) == (0, damaged)
    done = direct("restore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tree(direct.repo) == before
    assert attributes(direct.repo) == marks
    assert direct("undo").returncode == 0  # what was brought back can be taken back
    assert tree(direct.repo) == damaged


def test_the_best_provider_is_chosen_and_named(direct: AgentDev, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["direct"]
    ran(direct, "true")
    (row,) = json.loads(direct("restore", "--list", "--json").stdout)["snapshots"]
    wanted = {"xfs": ("reflink",), "here": ("copy", "reflink")}.get(kind, ("btrfs",))
    assert row["provider"] in wanted
    assert Path(row["path"]).is_dir()
    assert row["snapshot"] in direct("restore", "--list").stdout


def test_a_snapshot_within_reach_is_not_shown(direct: AgentDev) -> None:
    ran(direct, "ls -A .agent-dev-snapshot.* 2>/dev/null | grep . && exit 1; rm -rf .agent-dev-snapshot.* 2>/dev/null; true")
    (row,) = json.loads(direct("restore", "--list", "--json").stdout)["snapshots"]
    assert (Path(row["path"]) / "README.md").read_text() == "# Shop\n"


def test_a_plain_copy_can_be_asked_for(direct: AgentDev) -> None:
    before = tree(direct.repo)
    ran(direct, DAMAGE, "--direct=copy")
    assert direct("restore").returncode == 0
    assert tree(direct.repo) == before


@contextmanager
def snapped(folder: Path) -> Iterator[tuple[AgentDev, str]]:
    """Make a repository on btrfs with a configuration of snapper's, which answers without a bus; yield its name too."""
    place, config = folder / "disk", f"agent-dev-test-{os.getpid()}"
    mounted("btrfs", place)
    try:
        repo = place / "home/src/shop"
        repo.parent.mkdir(parents=True)
        subprocess.run(["btrfs", "subvolume", "create", str(repo)], check=True, capture_output=True)
        (repo / "README.md").write_text("# Shop\n")
        (repo / "sub").mkdir()
        (repo / "sub/app.py").write_text("print('two')\n")
        filled(repo)
        snapper("-c", config, "create-config", str(repo))
        try:
            yield AgentDev(place / "home", repo), config
        finally:
            snapper("-c", config, "delete-config")
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def snapper(*words: str) -> str:
    return subprocess.run(["snapper", "--no-dbus", *words], check=True, capture_output=True, text=True).stdout


if os.getuid() == 0:  # nobody else can mount, or make a configuration of snapper's

    def test_snapper_takes_a_pair_and_restore_keeps_what_the_user_changed_since(tmp_path: Path) -> None:
        with snapped(tmp_path) as (direct, config):
            before, marks = tree(direct.repo), attributes(direct.repo)
            said = ran(direct, DAMAGE, "--direct=snapper")
            (row,) = snapshots(direct)
            rows = snapper("--csvout", "-c", config, "list", "--columns", "number,type,pre-number").splitlines()[2:]
            (first, _, _), (second, _, _) = pair = [row.split(",") for row in rows]
            assert pair == [[first, "pre", ""], [second, "post", first]]
            assert (row["id"], row["pair"]) == (f"{config} {first}", f"{config} {second}")
            assert f"snapper -c {config} status {first}..{second}" in said
            assert f"{direct.repo}/README.md" in snapper("-c", config, "status", f"{first}..{second}")
            (direct.repo / "README.md").write_text("the user's\n")
            done = direct("restore")
            assert (done.returncode, "README.md" in done.stdout + done.stderr) == (1, True)
            assert (direct.repo / "README.md").read_text() == "the user's\n"
            (direct.repo / "README.md").write_text("# Shop\n")
            assert tree(direct.repo) == before
            assert attributes(direct.repo) == marks


def test_without_a_configuration_for_it_snapper_takes_none_and_nothing_starts(plain: AgentDev) -> None:
    done = plain("run", "--direct=snapper", "--", "touch", "started")
    assert (done.returncode, (plain.repo / "started").exists(), "snapper" in done.stderr) == (125, False, True)


@pytest.fixture
def plain(agent_dev: AgentDev) -> AgentDev:
    filled(agent_dev.repo)
    return agent_dev


def snapshots(agent_dev: AgentDev) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(agent_dev("restore", "--list", "--json").stdout)["snapshots"]
    return rows


def test_what_the_user_changed_since_stays(plain: AgentDev) -> None:
    ran(plain, DAMAGE)
    (plain.repo / "README.md").write_text("mine since\n")
    (plain.repo / "mine").write_text("made since\n")
    done = plain("restore", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, [one["path"] for one in told["conflicts"]]) == (1, ["README.md"])
    assert (plain.repo / "README.md").read_text() == "mine since\n"
    assert (plain.repo / "mine").read_text() == "made since\n"
    assert not (plain.repo / "new").exists()
    assert plain("merge", "--resolve", "README.md=agent").returncode == 0  # settled: the snapshot's
    assert (plain.repo / "README.md").read_text() == "# Shop\n"


def test_what_the_tree_held_at_the_end_is_kept(direct: AgentDev) -> None:
    ran(direct, DAMAGE)
    damaged = tree(direct.repo)
    (row,) = snapshots(direct)
    (later,) = row["rounds"]
    assert f"{row['snapshot']}/{later['round']}" in direct("restore", "--list").stdout
    held = tree(Path(later["path"]))
    del held["."], damaged["."]
    assert held == {path: entry for path, entry in damaged.items() if path != ".git"}
    (direct.repo / "new").write_text("by the user\n")
    mine = tree(direct.repo)
    assert direct("restore", f"{row['snapshot']}/{later['round']}").returncode == 0
    assert tree(direct.repo) == mine  # all that is not as then is the user's own


def test_while_the_agent_works_the_tree_is_kept_again_and_again(plain: AgentDev) -> None:
    config = Path(plain.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("checkpoint_minutes: 1\n")
    quick = "import sys, time; nap = time.sleep; time.sleep = lambda s: nap(s / 600); from agent_dev import cli; "
    quick += "sys.argv[:2] = []; sys.argv.insert(0, 'agent-dev'); cli.main()"
    words = ("run", "--direct", "--", "sh", "-c", "echo one >kept; read go; rm kept; echo two >later")
    with plain.started(*words, before=(sys.executable, "-c", quick)) as process:
        # A round may also fall between two steps of the agent.
        wait_until(lambda: any(one.read_text() for one in plain.state.glob("snapshots/*/rounds/2*[0-9]/kept")), "a round")
        process.communicate("\n", timeout=60)
    (row,) = snapshots(plain)
    rounds = [Path(one["path"]) for one in row["rounds"]]
    first, last = next(one for one in rounds if (one / "kept").exists() and (one / "kept").read_text()), rounds[-1]
    assert ((last / "kept").exists(), (last / "later").read_text()) == (False, "two\n")
    assert (first / "marked").stat().st_ino == (last / "marked").stat().st_ino
    assert plain("restore", f"{row['snapshot']}/{first.name}").returncode == 0
    assert ((plain.repo / "kept").read_text(), (plain.repo / "later").exists()) == ("one\n", False)


def test_an_agent_that_changed_nothing_leaves_nothing_to_keep(plain: AgentDev) -> None:
    ran(plain, "true")
    assert [row["rounds"] for row in snapshots(plain)] == [[]]


def test_one_path_alone_is_brought_back(plain: AgentDev) -> None:
    ran(plain, DAMAGE)
    assert plain("restore", "--path", "sub").returncode == 0
    assert (plain.repo / "sub" / "app.py").read_text() == "print('two')\n"
    assert (plain.repo / "README.md").read_text() == "changed\n"
    assert plain("restore", "--path", "/etc").returncode == 2
    done = plain("restore", "--path", "mistyped")
    assert (done.returncode, "neither the snapshot nor the repository has mistyped" in done.stderr) == (2, True)


def test_a_directory_that_is_not_to_be_written_into_comes_back_so(plain: AgentDev) -> None:
    (plain.repo / "folder").chmod(0o555)
    ran(plain, "chmod 755 folder; rm -r folder")
    assert plain("restore").returncode == 0
    assert (plain.repo / "folder").stat().st_mode & 0o7777 == 0o555
    (plain.repo / "folder").chmod(0o755)


def test_all_names_of_a_file_come_back(plain: AgentDev) -> None:
    os.link(plain.repo / "file", plain.repo / "twin")
    before = tree(plain.repo)
    ran(plain, "echo more >>file; echo new >one; ln one two")
    done = plain("restore")
    assert (done.returncode, tree(plain.repo)) == (0, before), done.stderr


if os.getuid():  # root may read all

    def test_what_the_agent_shut_is_named_and_is_not_taken_for_gone(plain: AgentDev) -> None:
        mode = (plain.repo / "folder").stat().st_mode & 0o777
        ran(plain, "echo changed >README.md; chmod 0 folder")
        done = plain("restore")
        assert (done.returncode, f"{plain.repo}/folder: Permission denied; nothing was changed" in done.stderr) == (1, True)
        assert (plain.repo / "README.md").read_text() == "changed\n"
        (plain.repo / "folder").chmod(mode)  # another would be a change of the user's own
        assert plain("restore").returncode == 0
        assert (plain.repo / "README.md").read_text() == "# Shop\n"


def test_a_conflict_names_the_session_that_settles_it_and_a_dry_run_none(plain: AgentDev) -> None:
    ran(plain, "echo two >README.md")
    (plain.repo / "README.md").write_text("three\n")
    dry, real = plain("restore", "--dry-run"), plain("restore")
    assert (dry.returncode, real.returncode) == (1, 1)
    assert "--resolve" not in dry.stdout
    [session] = plain.sessions()
    assert f"agent-dev merge {session['name']} --resolve" in real.stdout
    assert plain("merge", session["name"], "--resolve", "README.md=agent").returncode == 0
    assert (plain.repo / "README.md").read_text() == "# Shop\n"


def test_the_git_directory_is_the_agents_own_as_in_any_session(plain: AgentDev) -> None:
    head = plain.git("rev-parse", "HEAD")
    ran(plain, "echo x >x; git add x; git commit -q -m 'By the agent'; echo '#!/bin/sh' >.git/hooks/post-checkout")
    assert plain.git("rev-parse", "HEAD") == head
    assert not (plain.repo / ".git" / "hooks" / "post-checkout").exists()
    assert (plain.repo / "x").exists()
    assert "By the agent" in plain("commits").stdout


def test_all_else_is_as_in_any_session(plain: AgentDev) -> None:
    ran(plain, f"! cat {plain.home}/.ssh/id_ed25519 && ! ls {plain.state} && ! touch /usr/out")


@pytest.mark.parametrize("options", ["--direct=btrfs", "--direct=snapper", "--direct=nonsense"])
def test_without_a_snapshot_nothing_starts(plain: AgentDev, options: str) -> None:
    before = tree(plain.repo)
    done = plain("run", options, "--", "sh", "-c", "echo x >x")
    assert done.returncode == 125
    assert tree(plain.repo) == before
    assert snapshots(plain) == []
    assert not list((plain.state / "snapshots").glob("*"))


def test_where_the_sandbox_cannot_be_built_no_snapshot_is_left(plain: AgentDev, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text('#!/bin/sh\ntest "$1" = --version && exec bwrap --version\necho broken >&2\nexit 1\n')
    broken.chmod(0o755)
    done = plain("run", "--direct", "--", "touch", "x", env={"AGENT_DEV_BWRAP": str(broken)})
    assert (done.returncode, "restore" in done.stderr) == (125, False), done.stderr
    assert not list((plain.state / "snapshots").glob("*"))


def test_a_full_state_directory_stops_the_start(plain: AgentDev) -> None:
    (plain.state).mkdir(parents=True, exist_ok=True)
    (plain.state / "snapshots").write_text("in the way")
    done = plain("run", "--direct", "--", "touch", "x")
    assert (done.returncode, "the state directory" in done.stderr, (plain.repo / "x").exists()) == (125, True, False)


def test_a_snapshot_that_is_gone_and_a_repository_without_one_are_told(plain: AgentDev) -> None:
    assert plain("restore").returncode == 1
    assert plain("restore", "no-such").returncode == 2
    ran(plain, "true")
    shutil.rmtree(snapshots(plain)[0]["path"])
    done = plain("restore")
    assert (done.returncode, "is gone" in done.stderr) == (1, True)


def test_a_second_restore_finds_nothing_to_do(plain: AgentDev) -> None:
    ran(plain, DAMAGE)
    assert plain("restore").returncode == 0
    before = tree(plain.repo)
    done = plain("restore")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all is as it was then")
    assert tree(plain.repo) == before


def test_after_a_restore_what_the_agent_left_comes_back_by_undo_and_a_restore_of_the_end_says_so(plain: AgentDev) -> None:
    ran(plain, "echo changed >README.md; echo new >new")
    assert plain("restore").returncode == 0
    before, (row,) = tree(plain.repo), snapshots(plain)
    done = plain("restore", f"{row['snapshot']}/{row['rounds'][0]['round']}")
    assert (done.returncode, "agent-dev undo takes a restore back" in done.stdout) == (0, True)
    assert tree(plain.repo) == before
    assert plain("undo").returncode == 0
    assert (plain.repo / "new").read_text() == "new\n"
