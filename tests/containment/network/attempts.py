"""Run attempts inside a sandbox with `net: allow`, in the small internet."""

from typing import Any

from tests.containment.support.world import Machine
from tests.harness.internet import CLIENT, PORT, in_internet

API, EVIL = "api.example.org", "evil.example.net"
RULES = (f"{API}:80,443,{PORT}", *(f"{name}.example.org:{PORT}" for name in ("rebound", "meta", "loop", "corp")))


def attempt(world: Machine, code: str, *options: str) -> Any:
    """Run code inside, in the small internet; it assigns `result`."""
    words = [word for rule in RULES for word in ("--allow", rule)]
    code = f"{CLIENT}\n{code}\nprint(json.dumps(result))"
    return world.program.run_python_inside(code, "--net", "allow", *words, *options, before=in_internet())
