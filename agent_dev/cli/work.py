"""The subcommand `work`: run one transaction for another machine. It parses without argparse, as `tx` does."""

import os
import re
import sys

from agent_dev.cli import console
from agent_dev.errors import SUCCESS, CommandFailed, Refused, RunUsageError
from agent_dev.fleet import worker

HELP = """\
usage: agent-dev work <TICKET >BUNDLE
       agent-dev work --prepare COMMIT <PACK

Run the transaction of a ticket and write its result and changes as a bundle.
`agent-dev tx --on` starts it on other machines, by ssh or another program.

  --prepare COMMIT   greet in one line of JSON, then store COMMIT from a pack

The transaction ends when nobody reads the bundle any more. Messages and the
output of the command are on stderr.

exit status: 0 a bundle was written, whatever the command's own status is,
75 the commit is not stored here, 125 not started, 141 nobody read the bundle
"""


def run(argv: list[str], environ: dict[str, str]) -> int:
    """Run `agent-dev work ARGUMENTS` and return the exit code. Raises AgentDevError."""
    if argv in (["-h"], ["--help"]):
        console.write_stdout(HELP)
        return SUCCESS
    is_preparation = len(argv) == 2 and argv[0] == "--prepare" and bool(re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", argv[1]))
    if argv and not is_preparation:
        raise RunUsageError(message=f"work: unknown argument {argv[0]}", hint="agent-dev work --help")
    if os.isatty(0):
        raise RunUsageError(message="work reads a ticket from stdin", hint="agent-dev tx --many TASKS --on HOST")
    sys.stdout.flush()
    target = os.dup(1)
    os.dup2(2, 1)  # output of the command is a message; stdout is the bundle's
    try:
        with os.fdopen(os.dup(0), "rb", buffering=1 << 16) as source:
            _close_stdin()
            if is_preparation:
                worker.prepare_commit(argv[1], source, target, environ)
            else:
                worker.run_ticket(worker.read_ticket(source), source, target, environ)
    except (worker.CancelledError, BrokenPipeError):
        return worker.NOT_READ
    except (OSError, CommandFailed) as error:
        reason = error.strerror if isinstance(error, OSError) else error.message
        raise Refused(message=f"the commit or its checkout cannot be stored here: {reason}") from None
    return SUCCESS


def _close_stdin() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
