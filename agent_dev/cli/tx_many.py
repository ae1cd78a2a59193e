"""The commands of `tx --many`, and the report on each."""

import os
import sys

from agent_dev.cli import console
from agent_dev.cli.render.transaction import print_result, result_as_json
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.sanitize import visible
from agent_dev.session import sessions
from agent_dev.transaction import job_batch
from agent_dev.transaction.job_batch import TransactionBatch
from agent_dev.transaction.result import MERGED, TransactionResult, TransactionSpec


def run(own_options: dict[str, object], spec: TransactionSpec) -> int:
    """Run `agent-dev tx --many` and return the exit code. Raises AgentDevError if nothing ran."""
    lines = read_lines(str(own_options["many"]))
    if own_options["on"]:
        from agent_dev.cli import tx_on  # imports bundles

        return tx_on.run(lines, own_options, spec)
    context = sessions.command_context(spec.request.options, spec.request.environ)
    specs = job_batch.shell_specs(lines, spec)
    batch = TransactionBatch(specs, count_jobs(own_options), only_first=bool(own_options["first"]))

    def report(number: int, result: TransactionResult, output: bytes) -> None:
        show_output(f"{number + 1} of {len(lines)}: {visible(lines[number])}", output, as_json=bool(own_options["json"]))
        if result.cause:
            console.warn(f"not merged: {visible(result.reason)}")

    results = job_batch.run_batch(batch, context.store, console.notify, report)
    is_good = (any if batch.only_first else all)(result.state == MERGED for result in results)
    code = SUCCESS if is_good else FAILURE
    if own_options["json"]:
        jobs_done = [{"line": line, **result.as_json()} for line, result in zip(lines, results, strict=True)]
        console.write_stdout(result_as_json({"state": MERGED if is_good else "failed", "exit": code, "jobs": jobs_done}))
    for line, result in zip(lines, results, strict=True):
        console.notify(f"{visible(line)}:")
        print_result(result)
    return code


def count_jobs(own_options: dict[str, object]) -> int:
    """Return how many transactions run at a time on this machine."""
    return own_options["jobs"] if isinstance(own_options["jobs"], int) else len(os.sched_getaffinity(0))


def show_output(title: str, output: bytes, *, as_json: bool) -> None:
    """Show the output of a transaction that has ended; with a JSON document on stdout, on stderr."""
    stream = sys.stderr if as_json else sys.stdout
    console.notify(title)
    stream.flush()
    stream.buffer.write(output)
    stream.flush()


def read_lines(path: str) -> tuple[str, ...]:
    """Return the commands of a file or stdin. Raises UsageError."""
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UsageError(message=f"tx: --many {path}: {why}", hint="--many reads a text file with one command per line") from None
    lines = tuple(line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    if not lines or any("\0" in line for line in lines):
        raise UsageError(message=f"tx: --many {path}: no commands", hint="one shell command per line")
    return lines
