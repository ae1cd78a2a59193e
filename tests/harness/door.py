"""A script run in a session that has a door, and what the repository of the tests shows there."""

from tests.harness.program import AgentDev

LOOK = "for name in *; do echo $name: $(cat $name 2>/dev/null); done"
NAMES = "README.md: # Shop\nsub:\n"


def sh(agent_dev: AgentDev, script: str) -> tuple[str, str]:
    """Run a script inside; return what it wrote to stdout and stderr."""
    done = agent_dev("--no-merge", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr
