"""Helpers that run scripts in a session with a control socket; the scripts print the content of the test repository."""

from tests.harness.program import AgentDev

PRINT_FILES = "for name in *; do echo $name: $(cat $name 2>/dev/null); done"
NAMES = "README.md: # Shop\nsub:\n"


def run_script(agent_dev: AgentDev, script: str) -> tuple[str, str]:
    """Run a script inside; return what it wrote to stdout and stderr."""
    done = agent_dev("--no-merge", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr
