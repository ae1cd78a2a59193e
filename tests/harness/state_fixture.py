"""State of a released version, kept in an archive, so that every later version can be tried with it.

`python -m tests.harness.state_fixture` makes the archive of the version that is checked out; run it as an ordinary user, once per
release. The state has absolute paths, so that it is made and used below `/mnt`, in a mount namespace of bubblewrap.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from agent_dev import __version__
from tests.harness.program import AgentDev

FOLDER = Path(__file__).with_name("released_state")
MOUNT_POINT = Path("/mnt")
GITCONFIG = "[user]\n\tname = Ada Lovelace\n\temail = ada@example.invalid\n[init]\n\tdefaultBranch = main\n"

START = """
git init -q; mkdir folder whole
for name in kept gone moved folder/inner whole/old; do echo $name >$name.txt; done
echo 'echo tool' >tool.sh; git add -A; git commit -qm 'Start the shop'
"""
# One change of each kind, a commit, and a file that is removed after a checkpoint.
WAITING = """
echo edited >kept.txt; rm gone.txt; mv moved.txt elsewhere.txt; chmod 755 tool.sh; ln -s kept.txt link
git mv folder renamed; rm -r whole; mkdir whole; echo one >whole/one
echo lost >lost.txt
echo committed >committed.txt; git add committed.txt; git commit -qm 'Add a file'
"""


class ReleasedWorld(AgentDev):
    """A user with a home, a repository and state below MOUNT_POINT, which is a directory elsewhere."""

    def __init__(self, folder: Path) -> None:
        super().__init__(MOUNT_POINT / "home", MOUNT_POINT / "home/shop")
        self.folder = folder
        self.env["XDG_STATE_HOME"] = str(MOUNT_POINT / "state")
        self._prefix = ("bwrap", "--dev-bind", "/", "/", "--bind", str(folder), str(MOUNT_POINT), "--chdir", str(self.repo))

    def run(self, *words: str, code: int = 0) -> str:
        """Run `agent-dev WORDS` in the repository and return its stdout; it must exit with `code`."""
        done = self(*words, cwd=self.folder, before=self._prefix)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def shell(self, script: str) -> str:
        """Run a script of the user's in the repository, outside the sandbox; return its stdout."""
        words = [*self._prefix, "sh", "-euc", script]
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=True).stdout

    @property
    def tree(self) -> Path:
        """The repository as this process sees it."""
        return self.folder / self.repo.relative_to(MOUNT_POINT)


def archives() -> tuple[Path, ...]:
    """Return the archives, one for each released version."""
    return tuple(sorted(FOLDER.glob("*.tar.xz")))


def unpack(archive: Path, folder: Path) -> ReleasedWorld:
    """Unpack an archive, with its extended attributes and whiteouts, into an empty directory."""
    subprocess.run(["tar", "-xJf", archive, "-C", folder, "--xattrs", "--xattrs-include=*", "--no-same-owner", "-p"], check=True)
    return ReleasedWorld(folder)


def _lay_out(folder: Path) -> ReleasedWorld:
    """Make the repository: a commit with a file for each kind of change."""
    (folder / "home/shop").mkdir(parents=True)
    (folder / "home/.gitconfig").write_text(GITCONFIG)
    world = ReleasedWorld(folder)
    world.shell(START)
    return world


def _fill(world: ReleasedWorld) -> None:
    """Make a session of each state: merged, packed, undone, discarded, waiting, imported; and a transaction."""
    for name in ("packed", "merged", "undone", "discarded"):
        world.run("--no-merge", "--name", name, "--", "sh", "-c", f"echo {name} >{name}.txt")
        if name != "discarded":
            world.run("merge", name, "--all")
    world.run("undo")
    world.run("discard", "discarded")
    world.run("tx", "--", "sh", "-c", "echo transaction >transaction.txt")
    world.run("--no-merge", "--name", "waiting", "--", "sh", "-euc", WAITING)
    world.run("checkpoint", "-m", "before the loss")
    world.run("--no-merge", "resume", "waiting", "--", "rm", "lost.txt")
    world.run("bundle", "waiting", str(MOUNT_POINT / "waiting.bundle"))
    world.run("import", str(MOUNT_POINT / "waiting.bundle"), "--name", "imported")


def main() -> None:
    """Write the archive of this version."""
    archive = FOLDER / f"{__version__}.tar.xz"
    FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    try:
        _fill(_lay_out(folder))
        shutil.rmtree(folder / "cache", ignore_errors=True)
        subprocess.run(
            ["tar", "-cJf", archive, "-C", folder, "--xattrs", "--xattrs-include=user.*", "--sort=name", "home", "state"],
            check=True,
        )
    finally:
        shutil.rmtree(folder)
    sys.stdout.write(f"{archive}: {archive.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
