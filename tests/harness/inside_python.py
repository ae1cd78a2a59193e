"""A Python program inside one sandbox that runs pieces of code, so that many tests share one start."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.program import PYTHON, AgentDev

# Inside: each line is a piece of code as JSON, which runs in a process of its own and prints one line.
_PROGRAM = """
import json, os, sys, traceback
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            exec(json.loads(line), {"__name__": "__main__"})
        except BaseException:
            print(json.dumps({"failed": traceback.format_exc()}))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


class InsidePython:
    """Python inside a running sandbox; `program` started it."""

    def __init__(self, program: AgentDev, process: subprocess.Popen[str], messages: Path) -> None:
        self.program, self.process, self._messages = program, process, messages

    def run(self, code: str) -> Any:
        """Run code that prints one line of JSON; return its value."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self._messages.read_text(errors="replace")
        value = json.loads(line)
        if isinstance(value, dict) and "failed" in value:
            raise AssertionError(value["failed"])
        return value


@contextmanager
def inside_python(program: AgentDev, *options: str, **keywords: Any) -> Iterator[InsidePython]:
    """Run Python inside until the end."""
    messages = program.home.parent / "messages"  # a file: nobody reads a pipe
    with (
        messages.open("w") as stderr,
        program.start(*options, "--", PYTHON, "-I", "-c", _PROGRAM, stderr=stderr, **keywords) as process,
    ):
        yield InsidePython(program, process, messages)
        process.communicate(timeout=60)
