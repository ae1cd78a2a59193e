"""Interactive shells for tests of job control."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.terminal import Shell


@contextmanager
def open_shell(folder: Path, **variables: str) -> Iterator[Shell]:
    """Open an interactive shell in a directory, with a home of its own and these variables."""
    home = folder / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        **variables,
        **{name: os.environ[name] for name in ("AGENT_DEV_BWRAP", "AGENT_DEV_OVERLAY") if name in os.environ},
    }
    with Shell(cwd=folder, env=environment, rows=24, cols=80) as shell:
        shell.wait_prompt()
        yield shell
