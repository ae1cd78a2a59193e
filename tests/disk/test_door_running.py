"""The half of the script inside that runs a command: signals that come as it ends."""

import subprocess
import sys

LATE = """
import os, signal
from agent_dev.inside import tx_process as door_running
wait = os.waitpid
def late(pid, options):
    found = wait(pid, options)
    os.kill(os.getpid(), signal.SIGTERM)  # the command is not there any more, and nobody knows yet
    return found
os.waitpid = late
print(door_running.run(["true"], {}), door_running.asked == [signal.SIGTERM])
"""


def test_a_signal_that_comes_as_the_command_ends_is_noted_and_passed_on_to_nobody() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("0 True\n", "")
