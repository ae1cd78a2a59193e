"""Run the containment tests with `containers: true`, as an ordinary user.

Usage: `python -m tests.containment.with_containers [ARGUMENT…]`, with arguments of pytest. Profiles with `nested: false` and
`share: docker` and agents of root, which cannot have containers, are left as they are. Tests that compare with exact lists add
those of `tests/containment/support/containers.py`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from agent_dev.run import prepare
from agent_dev.run.request import PreparedRun
from tests.containment.support import containers

FOLDER = Path(__file__).parent
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {root!r})
from tests.containment.with_containers import switch_on
switch_on()
from agent_dev.cli.main import main
main()
"""


def switch_on() -> None:
    """Give every agent of this process containers, where its profile permits them."""
    with_containers = prepare._with_containers

    def changed(prepared: PreparedRun) -> PreparedRun:
        profile = prepared.settings.profile
        if not profile.nested or "docker" in profile.share or os.geteuid() == 0:
            return prepared
        settings = prepared.settings.replace(profile=profile.replace(containers=True))
        return with_containers(prepared.replace(settings=settings)).replace(settings=prepared.settings)

    prepare._with_containers = changed


def main(arguments: list[str]) -> int:
    """Run the tests; return pytest's exit code."""
    with tempfile.TemporaryDirectory(prefix="agent-dev-containers-") as folder:
        program = Path(folder) / "agent-dev"
        program.write_text(PROGRAM.format(python=sys.executable, root=str(FOLDER.parents[1])))
        program.chmod(0o755)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *(arguments or [str(FOLDER)]),
        ]
        return subprocess.run(
            command, env={**os.environ, "AGENT_DEV_TEST_PROGRAM": str(program), containers.SWITCH: "1"}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
