"""CONTAINMENT D: what refreshes the view of a running sandbox, with an agent that leads it elsewhere."""

import pytest

from agent_dev.sandbox import sandbox_monitor as supervise
from agent_dev.session import store
from tests.containment.rows import row
from tests.harness.program import PYTHON, AgentDev

# Puts a link to a mount that is read-only in the place of the repository, and says when asked whether it can be written.
LEAD = """if True:
    import os, sys
    home, target, probe = os.path.expanduser("~"), sys.argv[1], sys.argv[2]
    os.chdir("/")
    if target != "-":
        os.rename(f"{home}/src", f"{home}/away")
        os.mkdir(f"{home}/src")
        os.symlink(target, f"{home}/src/shop")
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT))
            print("open", flush=True)
        except OSError:
            print("shut", flush=True)
"""


def refreshed(agent_dev: AgentDev, target: str, probe: str) -> tuple[bool, str]:
    """Return whether the view of an agent that leads it to `target` was refreshed, and what it says of `probe` then."""
    with agent_dev.started("--no-merge", "--", PYTHON, "-I", "-c", LEAD, target, probe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (session,) = store.all_sessions(store.Store(str(agent_dev.state)))
        inner = supervise.first_child(store.read(session)["init"])
        has_worked = supervise.refresh(inner, (str(agent_dev.repo),))
        process.stdin.write("look\n")
        process.stdin.flush()
        said = process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait(60) == 0
    return has_worked, said


@row(
    "lead what refreshes the view to another mount, by a link in the repository's place, so that a read-only one can be written",
    "only the overlay itself is remounted, opened without following a link",
)
@pytest.mark.parametrize(("target", "probe"), [("/", "/planted"), ("/dev", "/dev/planted")])
def test_d28_what_refreshes_the_view_changes_no_other_mount(agent_dev: AgentDev, target: str, probe: str) -> None:
    assert refreshed(agent_dev, target, probe) == (False, "shut")


def test_the_view_of_a_repository_in_its_place_is_refreshed(agent_dev: AgentDev) -> None:
    assert refreshed(agent_dev, "-", "/planted") == (True, "shut")
