"""`tx --many`: the commands of a file, and what is said of each."""

import os
import sys

from agent_dev.cli import main as cli
from agent_dev.cli.tx import document, tell
from agent_dev.errors import DONE, PARTLY, UsageError
from agent_dev.sanitize import visible
from agent_dev.session import sessions
from agent_dev.transaction import job_batch as many
from agent_dev.transaction.job_batch import Batch
from agent_dev.transaction.transact import MERGED, Result, Terms


def run(listed: dict[str, object], terms: Terms) -> int:
    """Carry out `agent-dev tx --many` and return the exit code. Raises AgentDevError when nothing ran."""
    lines = _lines(str(listed["many"]))
    where = sessions.here(terms.request.options, terms.request.environ)
    jobs = listed["jobs"] if isinstance(listed["jobs"], int) else len(os.sched_getaffinity(0))
    batch = Batch(lines, terms, jobs, bool(listed["first"]))
    stream = sys.stderr if listed["json"] else sys.stdout

    def shown(number: int, result: Result, output: bytes) -> None:
        cli.say(f"{number + 1} of {len(lines)}: {visible(lines[number])}")
        stream.flush()
        stream.buffer.write(output)
        stream.flush()
        if result.cause:
            cli.say(f"it will not be merged: {visible(result.reason)}")

    results = many.run(batch, where.store, cli.say, shown)
    is_good = (any if batch.is_first else all)(result.state == MERGED for result in results)
    code = DONE if is_good else PARTLY
    if listed["json"]:
        jobs_done = [{"line": line, **result.row()} for line, result in zip(lines, results, strict=True)]
        cli.out(document({"state": MERGED if is_good else "failed", "exit": code, "jobs": jobs_done}))
    for line, result in zip(lines, results, strict=True):
        cli.say(f"{visible(line)}:")
        tell(result)
    return code


def _lines(path: str) -> tuple[str, ...]:
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(message=f"tx: --many {path}: {why}", hint="a file with a command in each line") from None
    lines = tuple(line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    if not lines or any("\0" in line for line in lines):
        raise UsageError(message=f"tx: --many {path}: no command in it", hint="a command in each line, as a shell reads it")
    return lines
