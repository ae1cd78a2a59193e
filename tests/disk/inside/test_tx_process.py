"""The process that runs a transaction's command in the sandbox records signals that arrive as the command exits."""

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
print(door_running.run(["true"], {}), door_running.received_signals == [signal.SIGTERM])
"""


def test_a_signal_at_the_end_of_the_command_is_recorded_and_not_forwarded() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("0 True\n", "")
