"""Direct mode: an agent changes the real tree after a snapshot, and a restore reverts exactly its changes."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_dev.direct import unlocked_root
from agent_dev.fs import dir_tree
from tests.harness import program
from tests.harness.program import AgentDev, wait_until

# File systems to test on: mounted ones for root; an ordinary user cannot mount, and uses the file system of the test directory.
KINDS = ("here", "xfs", "btrfs", "btrfs, mounted there") if os.getuid() == 0 else ("here",)
OTHERS = (".git/", ".agent-dev-snapshot.", ".snapshots")
DAMAGE = """
echo changed >README.md; rm sub/app.py; echo new >new; mkdir -p made/deep; echo x >made/deep/x; chmod 600 script; rm link
ln -s elsewhere link; rm -r folder; echo file >folder; rm file; mkdir file; echo y >file/y; setfattr -n user.note -v two marked
"""


def tree(repo: Path) -> dict[str, str]:
    """Return the contents of a worktree without its git directory, which other tests check."""
    return {path: entry for path, entry in program.tree(repo).items() if not path.startswith(OTHERS)}


def filled(repo: Path) -> None:
    """Add an entry of each type to a repository."""
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
    """Yield the program with a repository on a file system of one kind; on btrfs, the repository is a subvolume."""
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
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # lazy: a cleanup may still use it


def ran(agent_dev: AgentDev, script: str, *options: str) -> str:
    """Run a script in the real tree; return stderr."""
    done = agent_dev("run", options[0] if options else "--direct", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stderr


def attributes(repo: Path) -> dict[str, bytes]:
    return {name: os.getxattr(repo / "marked", name) for name in os.listxattr(repo / "marked")}


def test_a_restore_reverts_all_that_an_agent_did_to_the_real_tree(direct: AgentDev) -> None:
    before, marks = tree(direct.repo), attributes(direct.repo)
    printed = ran(direct, DAMAGE)
    assert "agent-dev restore" in printed
    assert (direct.repo / "README.md").read_text() == "changed\n"
    damaged = tree(direct.repo)
    preview = direct("restore", "--dry-run")
    assert (preview.returncode, tree(direct.repo)) == (0, damaged)
    done = direct("restore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tree(direct.repo) == before
    assert attributes(direct.repo) == marks
    assert direct("undo").returncode == 0  # a restore can be undone
    assert tree(direct.repo) == damaged


def test_the_best_provider_is_selected_and_named(direct: AgentDev, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["direct"]
    ran(direct, "true")
    (row,) = json.loads(direct("restore", "--list", "--json").stdout)["snapshots"]
    wanted = {"xfs": ("reflink",), "here": ("copy", "reflink")}.get(kind, ("btrfs",))
    assert row["provider"] in wanted
    assert Path(row["path"]).is_dir()
    assert row["snapshot"] in direct("restore", "--list").stdout


def test_an_accessible_snapshot_is_not_shown(direct: AgentDev) -> None:
    ran(direct, "ls -A .agent-dev-snapshot.* 2>/dev/null | grep . && exit 1; rm -rf .agent-dev-snapshot.* 2>/dev/null; true")
    (row,) = json.loads(direct("restore", "--list", "--json").stdout)["snapshots"]
    assert (Path(row["path"]) / "README.md").read_text() == "# Shop\n"


def test_a_plain_copy_can_be_requested(direct: AgentDev) -> None:
    before = tree(direct.repo)
    ran(direct, DAMAGE, "--direct=copy")
    assert direct("restore").returncode == 0
    assert tree(direct.repo) == before


@contextmanager
def snapped(folder: Path) -> Iterator[tuple[AgentDev, str]]:
    """Yield the program in a btrfs repository, and the name of its snapper configuration, which works without D-Bus."""
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


if os.getuid() == 0:  # only root can mount, or create a snapper configuration

    def test_snapper_takes_a_pair_and_restore_keeps_later_changes_of_the_user(tmp_path: Path) -> None:
        with snapped(tmp_path) as (direct, config):
            before, marks = tree(direct.repo), attributes(direct.repo)
            printed = ran(direct, DAMAGE, "--direct=snapper")
            (row,) = snapshots(direct)
            rows = snapper("--csvout", "-c", config, "list", "--columns", "number,type,pre-number").splitlines()[2:]
            (first, _, _), (second, _, _) = pair = [row.split(",") for row in rows]
            assert pair == [[first, "pre", ""], [second, "post", first]]
            assert (row["id"], row["post"]) == (f"{config} {first}", f"{config} {second}")
            assert f"snapper -c {config} status {first}..{second}" in printed
            assert f"{direct.repo}/README.md" in snapper("-c", config, "status", f"{first}..{second}")
            (direct.repo / "README.md").write_text("the user's\n")
            done = direct("restore")
            assert (done.returncode, "README.md" in done.stdout + done.stderr) == (1, True)
            assert (direct.repo / "README.md").read_text() == "the user's\n"
            (direct.repo / "README.md").write_text("# Shop\n")
            assert tree(direct.repo) == before
            assert attributes(direct.repo) == marks


def test_without_a_snapper_configuration_nothing_starts(plain: AgentDev) -> None:
    done = plain("run", "--direct=snapper", "--", "touch", "started")
    assert (done.returncode, (plain.repo / "started").exists(), "snapper" in done.stderr) == (125, False, True)


@pytest.fixture
def plain(agent_dev: AgentDev) -> AgentDev:
    filled(agent_dev.repo)
    return agent_dev


def snapshots(agent_dev: AgentDev) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(agent_dev("restore", "--list", "--json").stdout)["snapshots"]
    return rows


def test_later_changes_of_the_user_stay(plain: AgentDev) -> None:
    ran(plain, DAMAGE)
    (plain.repo / "README.md").write_text("mine since\n")
    (plain.repo / "mine").write_text("made since\n")
    done = plain("restore", "--json")
    reported = json.loads(done.stdout)
    assert (done.returncode, [one["path"] for one in reported["conflicts"]]) == (1, ["README.md"])
    assert (plain.repo / "README.md").read_text() == "mine since\n"
    assert (plain.repo / "mine").read_text() == "made since\n"
    assert not (plain.repo / "new").exists()
    assert plain("merge", "--resolve", "README.md=agent").returncode == 0  # resolved: the snapshot's version
    assert (plain.repo / "README.md").read_text() == "# Shop\n"


def test_the_final_state_of_the_tree_is_kept(direct: AgentDev) -> None:
    ran(direct, DAMAGE)
    damaged = tree(direct.repo)
    (row,) = snapshots(direct)
    (later,) = row["backups"]
    assert f"{row['snapshot']}/{later['backup']}" in direct("restore", "--list").stdout
    held = tree(Path(later["path"]))
    del held["."], damaged["."]
    assert held == {path: entry for path, entry in damaged.items() if path != ".git"}
    (direct.repo / "new").write_text("by the user\n")
    yours = tree(direct.repo)
    assert direct("restore", f"{row['snapshot']}/{later['backup']}").returncode == 0
    assert tree(direct.repo) == yours  # each difference from the backup is an edit of the user, which stays


def test_the_tree_is_snapshotted_repeatedly_while_the_agent_works(plain: AgentDev) -> None:
    config = Path(plain.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("checkpoint_minutes: 1\n")
    quick = "import sys, time; nap = time.sleep; time.sleep = lambda s: nap(s / 600); from agent_dev.cli import main as cli; "
    quick += "sys.argv[:2] = []; sys.argv.insert(0, 'agent-dev'); cli.main()"
    words = ("run", "--direct", "--", "sh", "-c", "echo one >kept; read go; rm kept; echo two >later")
    with plain.start(*words, before=(sys.executable, "-c", quick)) as process:
        # A periodic snapshot may also be taken between two steps of the agent.
        wait_until(lambda: any(one.read_text() for one in plain.state.glob("snapshots/*/rounds/2*[0-9]/kept")), "a round")
        process.communicate("\n", timeout=60)
    (row,) = snapshots(plain)
    rounds = [Path(one["path"]) for one in row["backups"]]
    first, last = next(one for one in rounds if (one / "kept").exists() and (one / "kept").read_text()), rounds[-1]
    assert ((last / "kept").exists(), (last / "later").read_text()) == (False, "two\n")
    assert (first / "marked").stat().st_ino == (last / "marked").stat().st_ino
    assert plain("restore", f"{row['snapshot']}/{first.name}").returncode == 0
    assert ((plain.repo / "kept").read_text(), (plain.repo / "later").exists()) == ("one\n", False)


def test_an_agent_without_changes_leaves_nothing(plain: AgentDev) -> None:
    ran(plain, "true")
    assert [row["backups"] for row in snapshots(plain)] == [[]]


def test_one_path_alone_is_restored(plain: AgentDev) -> None:
    ran(plain, DAMAGE)
    assert "would restore + added    sub/app.py\n" in plain.do("restore", "--dry-run", "--path", "sub")
    done = plain("restore", "--path", "sub")
    assert (done.returncode, "restored + added    sub/app.py\n" in done.stdout) == (0, True), done
    assert re.search(r"^merge \S+: 1 change restored \(agent-dev undo\)$", done.stdout, re.MULTILINE)
    assert done.stderr == "agent-dev: hint: agent-dev restore --dry-run lists what remains to be restored\n"
    assert (plain.repo / "sub" / "app.py").read_text() == "print('two')\n"
    assert (plain.repo / "README.md").read_text() == "changed\n"
    assert plain("restore", "--path", "/etc").returncode == 2
    assert plain("restore", "nosuch").returncode == 2
    done = plain("restore", "--path", "mistyped")
    assert (done.returncode, "mistyped is neither in the snapshot nor in the repository" in done.stderr) == (2, True)


def test_the_sessions_of_two_restores_have_different_names(plain: AgentDev) -> None:
    ran(plain, DAMAGE)
    for words in (("--path", "sub"), ()):
        assert plain("restore", *words).returncode == 0
    for _ in range(2):
        plain.do("undo")
    first, second = [row["name"] for row in plain.sessions()]
    assert second == f"{first}-2"


def test_a_read_only_directory_is_restored_read_only(plain: AgentDev) -> None:
    (plain.repo / "folder").chmod(0o555)
    ran(plain, "chmod 755 folder; rm -r folder")
    assert plain("restore").returncode == 0
    assert (plain.repo / "folder").stat().st_mode & 0o7777 == 0o555
    (plain.repo / "folder").chmod(0o755)


def test_all_hard_links_of_a_file_are_restored(plain: AgentDev) -> None:
    os.link(plain.repo / "file", plain.repo / "twin")
    before = tree(plain.repo)
    ran(plain, "echo more >>file; echo new >one; ln one two")
    done = plain("restore")
    assert (done.returncode, tree(plain.repo)) == (0, before), done.stderr


if os.getuid():  # root can read every file
    LOCKED = "echo z2 >folder/in/z; chmod 0 folder/in folder; mkdir -p made/deep; echo x >made/deep/x; chmod 0 made/deep made"

    def modes(repo: Path, *paths: str) -> list[int]:
        return [(repo / path).stat().st_mode & 0o7777 for path in paths]

    def test_a_restore_reads_directories_of_mode_000_and_undo_returns_them(plain: AgentDev) -> None:
        before = tree(plain.repo)
        ran(plain, f"echo changed >README.md; {LOCKED}")
        dry = plain("restore", "--dry-run")
        assert (dry.returncode, modes(plain.repo, "folder", "made")) == (0, [0, 0]), dry.stderr
        done = plain("restore")
        assert (done.returncode, tree(plain.repo)) == (0, before), done.stderr
        assert plain("undo").returncode == 0
        assert modes(plain.repo, "folder", "made") == [0, 0]
        (plain.repo / "made").chmod(0o700)
        assert modes(plain.repo, "made/deep") == [0]
        (plain.repo / "made").chmod(0)
        assert plain("redo").returncode == 0
        assert tree(plain.repo) == before
        assert not list(plain.state.glob("snapshots/*/opened"))

    def test_a_repository_that_the_agent_closed_can_be_entered_and_restored(plain: AgentDev) -> None:
        before = tree(plain.repo)
        told = ran(plain, "echo changed >README.md; chmod 0 .")
        assert f"the agent left {plain.repo} with mode 000; its mode is " in told
        done = plain("restore")
        assert (done.returncode, tree(plain.repo)) == (0, before), done.stderr

    def test_an_unreadable_directory_of_the_user_stays_in_a_restore(plain: AgentDev) -> None:
        (plain.repo / "folder").chmod(0)
        ran(plain, "echo changed >README.md; mkdir made; chmod 0 made")
        done = plain("restore")
        assert (done.returncode, modes(plain.repo, "folder"), (plain.repo / "made").exists()) == (0, [0], False), done.stderr
        assert (plain.repo / "README.md").read_text() == "# Shop\n"
        (plain.repo / "folder").chmod(0o755)
        assert (plain.repo / "folder" / "in" / "z").read_text() == "z\n"

    def test_a_restore_locks_directories_that_a_killed_one_unlocked(plain: AgentDev) -> None:
        ran(plain, "chmod 0 folder")
        [snapshot] = plain.state.glob("snapshots/*")
        real = dir_tree.Tree(str(plain.repo))
        assert unlocked_root.allow_unlocking(real, str(snapshot)).unlock(b"folder", 0o500)
        real.close()
        assert modes(plain.repo, "folder") == [0o700]
        assert plain("restore", "--dry-run").returncode == 0
        assert (modes(plain.repo, "folder"), (snapshot / "opened").exists()) == ([0], False)

    def test_while_the_agent_runs_unreadable_directories_are_named(plain: AgentDev) -> None:
        mode = (plain.repo / "folder").stat().st_mode & 0o777
        ran(plain, "echo changed >README.md; chmod 0 folder")
        with direct_run_lock(plain):  # as while the agent runs: nothing may be unlocked
            done = plain("restore")
        assert (done.returncode, f"{plain.repo}/folder: Permission denied; nothing was changed" in done.stderr) == (1, True)
        assert (plain.repo / "README.md").read_text() == "changed\n"
        (plain.repo / "folder").chmod(mode)  # another mode would count as an edit of the user
        assert plain("restore").returncode == 0
        assert (plain.repo / "README.md").read_text() == "# Shop\n"

    @contextmanager
    def direct_run_lock(plain: AgentDev) -> Iterator[None]:
        [snapshot] = plain.state.glob("snapshots/*")
        with (snapshot / "lock").open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def test_a_conflict_names_the_session_that_resolves_it_but_not_in_a_dry_run(plain: AgentDev) -> None:
    ran(plain, "echo two >README.md")
    (plain.repo / "README.md").write_text("three\n")
    dry, real = plain("restore", "--dry-run"), plain("restore")
    assert (dry.returncode, real.returncode) == (1, 1)
    assert "--resolve" not in dry.stdout
    assert dry.stdout.endswith("\nnothing would be restored\n")
    assert real.stdout.endswith("\nnothing was restored\n")
    [session] = plain.sessions()
    assert f"agent-dev merge {session['name']} --resolve" in real.stdout
    assert plain("merge", session["name"], "--resolve", "README.md=agent").returncode == 0
    assert (plain.repo / "README.md").read_text() == "# Shop\n"


def test_the_agent_has_a_private_git_directory_as_in_any_session(plain: AgentDev) -> None:
    head = plain.git("rev-parse", "HEAD")
    ran(plain, "echo x >x; git add x; git commit -q -m 'By the agent'; echo '#!/bin/sh' >.git/hooks/post-checkout")
    assert plain.git("rev-parse", "HEAD") == head
    assert not (plain.repo / ".git" / "hooks" / "post-checkout").exists()
    assert (plain.repo / "x").exists()
    assert "By the agent" in plain("commits").stdout


def test_other_sandbox_restrictions_hold_in_direct_mode(plain: AgentDev) -> None:
    ran(plain, f"! cat {plain.home}/.ssh/id_ed25519 && ! ls {plain.state} && ! touch /usr/out")


@pytest.mark.parametrize("options", ["--direct=btrfs", "--direct=snapper", "--direct=nonsense"])
def test_without_a_snapshot_nothing_starts(plain: AgentDev, options: str) -> None:
    before = tree(plain.repo)
    done = plain("run", options, "--", "sh", "-c", "echo x >x")
    assert done.returncode == 125
    assert tree(plain.repo) == before
    assert snapshots(plain) == []
    assert not list((plain.state / "snapshots").glob("*"))


def test_no_snapshot_is_left_where_the_sandbox_cannot_be_built(plain: AgentDev, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text('#!/bin/sh\ntest "$1" = --version && exec bwrap --version\necho broken >&2\nexit 1\n')
    broken.chmod(0o755)
    done = plain("run", "--direct", "--", "touch", "x", env={"AGENT_DEV_BWRAP": str(broken)})
    assert (done.returncode, "restore" in done.stderr) == (125, False), done.stderr
    assert not list((plain.state / "snapshots").glob("*"))


def test_a_full_state_directory_prevents_the_start(plain: AgentDev) -> None:
    (plain.state).mkdir(parents=True, exist_ok=True)
    (plain.state / "snapshots").write_text("in the way")
    done = plain("run", "--direct", "--", "touch", "x")
    assert (done.returncode, "the state directory" in done.stderr, (plain.repo / "x").exists()) == (125, True, False)


def test_the_option_in_another_place_is_explained(plain: AgentDev) -> None:
    done = plain("--direct=copy", "true")
    assert (done.returncode, "hint: agent-dev run --direct=copy AGENT" in done.stderr) == (2, True)
    done = plain("run", "--direct=", "true")
    assert (done.returncode, "the value of --direct is empty" in done.stderr) == (2, True)


def test_a_missing_snapshot_and_a_repository_without_one_are_reported(plain: AgentDev) -> None:
    assert plain("restore").returncode == 1
    assert plain("restore", "no-such").returncode == 2
    ran(plain, "true")
    shutil.rmtree(snapshots(plain)[0]["path"])
    done = plain("restore")
    assert (done.returncode, "does not exist" in done.stderr) == (1, True)


def test_a_second_restore_finds_nothing_to_do(plain: AgentDev) -> None:
    ran(plain, DAMAGE)
    assert plain("restore").returncode == 0
    before = tree(plain.repo)
    done = plain("restore")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "everything equals the snapshot")
    assert tree(plain.repo) == before


def test_restoring_again_hints_at_undo_and_undo_returns_the_agents_changes(plain: AgentDev) -> None:
    ran(plain, "echo changed >README.md; echo new >new")
    assert plain("restore").returncode == 0
    before, (row,) = tree(plain.repo), snapshots(plain)
    done = plain("restore", f"{row['snapshot']}/{row['backups'][0]['backup']}")
    assert (done.returncode, "agent-dev undo reverts a restore" in done.stdout) == (0, True)
    assert tree(plain.repo) == before
    assert plain("undo").returncode == 0
    assert (plain.repo / "new").read_text() == "new\n"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "torn": lambda data: data[: len(data) // 2],
    "a flipped bit": lambda data: data.replace(b"/shop", b"/shnp"),
    "no object": lambda _: b"[]",
    "no values": lambda _: b'{"version": 1, "root": 5}',
    "no text": lambda _: b"\xff",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_snapshot_is_named_and_no_older_one_is_restored_instead(
    plain: AgentDev, damage: Callable[[bytes], bytes]
) -> None:
    ran(plain, "echo first >README.md")
    ran(plain, "echo second >README.md")
    before = tree(plain.repo)
    older, newer = (plain.state / "snapshots" / row["snapshot"] for row in snapshots(plain))
    about = newer / "about.json"
    about.write_bytes(damage(about.read_bytes()))
    listed = plain("restore", "--list")
    assert (listed.returncode, f"{newer.name} is damaged" in listed.stderr, older.name in listed.stdout) == (0, True, True)
    for words in ((), (newer.name,)):
        done = plain("restore", *words)
        assert (done.returncode, f"snapshot {newer.name} is damaged; nothing was changed" in done.stderr) == (1, True)
    assert tree(plain.repo) == before
    assert "README.md" in plain("restore", older.name, "--dry-run").stdout


def test_an_older_damaged_snapshot_prevents_no_restore(plain: AgentDev) -> None:
    ran(plain, "echo first >README.md")
    ran(plain, "echo second >README.md")
    (plain.state / "snapshots" / snapshots(plain)[0]["snapshot"] / "about.json").write_bytes(b"x")
    assert plain("restore").returncode == 0
    assert (plain.repo / "README.md").read_text() == "first\n"


def test_a_snapshot_from_before_there_were_checksums_is_restored(plain: AgentDev) -> None:
    ran(plain, "echo direct >README.md")
    about = plain.state / "snapshots" / snapshots(plain)[0]["snapshot"] / "about.json"
    row = json.loads(about.read_bytes())
    del row["check"]
    about.write_text(json.dumps(row))
    assert plain("restore").returncode == 0
    assert (plain.repo / "README.md").read_text() != "direct\n"
