"""Write to the user's terminal, and report errors there."""

import io
import os
import sys

from agent_dev.errors import FAILURE, AgentDevError, describe_system_error
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer

OUT_OF_MEMORY = -1  # in place of an exit code

_is_quiet = False


def silence() -> None:
    """Omit notices, progress and confirmations from now on, as `-q` asks."""
    global _is_quiet  # noqa: PLW0603  (one terminal for the whole process)
    _is_quiet = True
    from agent_dev import progress  # not on the launch path

    progress.silence()


def is_quiet() -> bool:
    """Return whether notices and confirmations are omitted."""
    return _is_quiet


def notify(line: str) -> None:
    """Write a notice to stderr, unless the user asked for quiet: something that went as it should."""
    if not _is_quiet:
        warn(line)


def warn(line: str) -> None:
    """Write a message to stderr, wrapped on a terminal; control characters of file names or an agent's text are escaped."""
    text = f"agent-dev: {visible(line)}"
    try:
        os.write(2, f"{_wrapped(text)}\n".encode("utf-8", "replace"))
    except OSError:
        return  # the terminal is gone


def _wrapped(text: str) -> str:
    """Return a text as rows that fit the terminal: it would break words and commands at its edge."""
    width = os.get_terminal_size(2).columns if os.isatty(2) else 0
    if not 0 < width < len(text):
        return text
    from agent_dev.cli.wrapping import wrap_line  # rarely needed

    return "\n".join(wrap_line(text, width, "    "))


class OutputFailure(OSError):
    """Writing to stdout failed, for example because its disk is full."""


class _Output(io.FileIO):
    """The descriptor of stdout; a failed write has an exception type of its own."""

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFailure(error.errno, error.strerror) from None


def open_output() -> io.TextIOWrapper:
    """Return a stdout whose failed writes raise OutputFailure; it escapes characters that its encoding lacks, as stderr does."""
    raw = _Output(1, "wb", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), sys.stdout.encoding, "backslashreplace", line_buffering=raw.isatty())


def write_stdout(text: str) -> None:
    """Write data to stdout."""
    sys.stdout.write(text)
    sys.stdout.flush()


def report_error(error: AgentDevError) -> None:
    """Print an error and its hint."""
    for line in error.message.splitlines():
        warn(line)
    if error.hint:
        warn(f"hint: {visible(error.hint)}")


def guard(call: "Callable[[], int]") -> tuple[int, bool]:
    """Return the exit code of a call whose errors are reported here, and whether a failure of the output was reported."""
    try:
        return call(), False
    except AgentDevError as error:
        report_error(error)
        return error.code, False
    except KeyboardInterrupt:
        return 130, False
    except BrokenPipeError:
        return 141, False
    except (OSError, ImportError) as error:
        return FAILURE, _report_failure(error)
    except (MemoryError, SystemError):
        return OUT_OF_MEMORY, False
    except Exception as error:  # a defect of agent-dev: Python prints the traceback
        _report_crash(error)
        raise


def _report_crash(error: Exception) -> None:
    from agent_dev.bug_report import crash  # only then

    path = crash.write_crash_report(error, sys.argv[1:], os.environ)
    warn("internal error: please report it" + (f" with {visible(path)}" if path else ""))


def _report_failure(error: OSError | ImportError) -> bool:
    """Report a system failure that no command explained, such as a full disk; return whether it is the output."""
    if isinstance(error, OutputFailure):
        report_output_failure(error)
        return True
    reason, hint = describe_system_error(error)
    report_error(AgentDevError(message=reason, hint=hint))
    return False


def report_output_failure(error: OSError) -> None:
    """Report that stdout could not be written."""
    warn(f"cannot write the output: {error.strerror}")
