"""Run attempts inside a sandbox with `net: allow`, in the small internet."""

from typing import Any

from tests.harness.inside_python import InsidePython
from tests.harness.internet import CLIENT, PORT

API, EVIL = "api.example.org", "evil.example.net"
WIDE = f"8.0.0.0/6:{PORT}"  # with private addresses
RULES = (f"{API}:80,443,{PORT}", *(f"{name}.example.org:{PORT}" for name in ("rebound", "meta", "loop", "corp")), WIDE)
OPTIONS = ("--net", "allow", *(word for rule in RULES for word in ("--allow", rule)))


def attempt(sandbox: InsidePython, code: str) -> Any:
    """Run code inside; it assigns `result`."""
    return sandbox.run(f"{CLIENT}\n{code}\nprint(json.dumps(result))")
