"""An agent that plants something in its git directory, a host that does all it does with a session, and a marker."""

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
