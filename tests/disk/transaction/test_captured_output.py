"""Output of commands that is passed on, and whose end is kept."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from agent_dev.transaction import captured_output

CODE = """
import os, subprocess, sys
from agent_dev.transaction.captured_output import capture_stdout
with capture_stdout(10) as finish:
    left = subprocess.Popen(["sh", "-c", {script!r}], stdout=1) if {script!r} else None
    os.write(1, b"x" * 100_000 + b"the last\\n")
    found = finish()
os.write(1, b"after\\n")
os.write(2, found)
if left: left.kill()
"""


def capture(script: str = "") -> "subprocess.CompletedProcess[bytes]":
    code = CODE.format(script=script)
    folder = Path(__file__).parents[3]
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, timeout=60, check=True, env={**os.environ}
    )


def test_output_is_passed_on_in_order_and_its_end_is_kept() -> None:
    done = capture()
    assert done.stdout == b"x" * 100_000 + b"the last\nafter\n"
    assert done.stderr == b"xthe last\n"


def test_a_process_that_is_left_is_not_waited_for() -> None:
    assert capture("exec sleep 1000").stderr == b"xthe last\n"


def test_a_process_that_writes_forever_does_not_prevent_the_end() -> None:
    wake, end = os.pipe()
    os.write(end, b"!")
    signal.alarm(60)  # ends the test if the copy does not end
    with open("/dev/zero", "rb", 0) as source, open(os.devnull, "wb", 0) as target:
        assert captured_output._pass_on(source.fileno(), wake, target.fileno(), 10) == bytes(10)
    signal.alarm(0)
    os.close(wake)
    os.close(end)
