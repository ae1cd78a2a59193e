"""An agent that plants programs in its git directory, a host that runs every command on the session, and a marker file."""

from pathlib import Path

from tests.harness.program import AgentDev

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
VERBS = (("status",), ("diff",), ("commits",), ("merge", "--include-risky", "--commits"), ("undo",), ("merge", "--all"))


class Host:
    """A repository of the user, and a marker file that a planted program would create."""

    def __init__(self, agent_dev: AgentDev, folder: Path) -> None:
        self.agent_dev, self.repo = agent_dev, agent_dev.repo
        self.marker = folder / "marker"
        self.program = folder / "planted"
        self.program.write_text(f"#!/bin/sh\necho ran >>'{self.marker}'\ncat\n")
        self.program.chmod(0o755)

    def run_agent(self, script: str) -> None:
        """Let an agent commit and then run a script; `$X` is a program that creates the marker."""
        done = self.agent_dev("--", "sh", "-c", f"X='{self.program}'\n{HELP}\n{WORK}\n{script}")
        assert done.returncode == 0, done.stderr

    def run_all_commands(self) -> None:
        """Run every command on the session, then the user's git; check that no planted program ran."""
        before = self.protected_files()
        for verb in VERBS[:-1]:
            done = self.agent_dev(*verb)
            assert done.returncode == 0, (verb, done.stderr)
        self.agent_dev.git("status")
        self.agent_dev.git("diff")
        self.agent_dev.git("commit", "-q", "--allow-empty", "-m", "next")
        assert not self.marker.exists()
        assert self.protected_files() == before
        assert self.agent_dev.git("fsck", "--strict", "--no-dangling") == ""

    def protected_files(self) -> dict[str, bytes]:
        """Return the files of the user's git directory that must not change: settings, hooks and other metadata."""
        git = self.repo / ".git"
        paths = [git / "config", git / "description", *(git / "hooks").rglob("*"), *(git / "info").rglob("*")]
        return {str(path): path.read_bytes() for path in paths if path.is_file()}
