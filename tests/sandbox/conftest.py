"""What the sandbox tests need of the machine, found by trying."""

import os
import subprocess

import pytest


@pytest.fixture(scope="session", autouse=True)
def namespaces() -> None:
    """User namespaces, by bubblewrap."""
    bwrap = os.environ.get("AGENT_DEV_BWRAP", "bwrap")
    try:
        words = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"{bwrap}: {error}")
    if done.returncode:
        pytest.skip(f"no sandbox here: {done.stderr}")
