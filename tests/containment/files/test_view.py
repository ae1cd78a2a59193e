"""CONTAINMENT D: refreshing the view of a running sandbox while an agent redirects it."""

import pytest

from agent_dev.linux import process as linux_process
from agent_dev.sandbox import overlay_refresh
from agent_dev.session import store
from tests.containment.rows import row
from tests.harness.program import PYTHON, AgentDev

# Replace the repository with a symlink to a read-only mount; report on request whether the probed path can be written.
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
    """Return whether a refresh works while the agent redirects the view to `target`, and the agent's report about `probe`."""
    with agent_dev.start("--no-merge", "--", PYTHON, "-I", "-c", LEAD, target, probe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (session,) = store.all_sessions(store.Store(str(agent_dev.state)))
        inner = linux_process.first_child(store.read_record(session)["init"])
        has_worked = overlay_refresh.refresh_overlays(inner, (str(agent_dev.repo),))
        process.stdin.write("look\n")
        process.stdin.flush()
        output = process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait(60) == 0
    return has_worked, output


@row(
    "redirect the remount of the overlay by a symlink to a read-only mount, to make that writable",
    "only the overlay itself is remounted, opened without following symlinks",
)
@pytest.mark.parametrize(("target", "probe"), [("/", "/planted"), ("/dev", "/dev/planted")])
def test_d28_refreshing_the_view_changes_no_other_mount(agent_dev: AgentDev, target: str, probe: str) -> None:
    assert refreshed(agent_dev, target, probe) == (False, "shut")


def test_the_view_of_an_unmoved_repository_is_refreshed(agent_dev: AgentDev) -> None:
    assert refreshed(agent_dev, "-", "/planted") == (True, "shut")
