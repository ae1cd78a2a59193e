"""A worker prepares a commit, whatever killed tasks have left."""

import io
import json
import os
from pathlib import Path

from agent_dev.fleet import worker

COMMIT = "1" * 40


def test_a_task_killed_before_its_checkout_does_not_stop_the_next(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    checkouts = tmp_path / "data/agent-dev-fleet/checkouts"
    checkouts.mkdir(parents=True)
    (checkouts / f"{COMMIT}-01234567.lock").touch()  # the checkout itself was not made

    with (tmp_path / "greeting").open("w+b") as target:
        worker.prepare_commit(COMMIT, io.BufferedReader(io.BytesIO()), target.fileno(), environ)
        target.seek(0)
        assert json.loads(target.readline())["has_commit"] is False
