"""`tx COMMAND`, and `agent-dev tx`, `checkpoint` and `rollback`, inside the sandbox, through the control socket.

Runs as one script, after the other modules in `control/socket_file.py`; nothing of agent-dev is available inside.
"""

import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # defined above in the combined script
    from agent_dev.inside.tx_options import TxOptions, TxUsageError  # noqa: TC004
    from agent_dev.inside.tx_process import (  # noqa: TC004
        TimedOut,
        become_subreaper,
        kill_all,
        open_missing_streams,
        print_message,
        raise_timeout,
        received_signals,
        run,
    )

_CONTROL_SOCKET = "/run/agent-dev/control"
_FAILED, _USAGE, _TIMED_OUT, _NOT_STARTED = 1, 2, 124, 125
_SIGNALLED = 128
_FILE_TOO_LARGE = _SIGNALLED + signal.SIGXFSZ
_VERBS = ("tx", "checkpoint", "rollback")
_MAX_REQUEST = 1000  # bytes of a request
_COMMAND_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
_UNKNOWN: "dict[str, object]" = {
    "session": None,
    "merge": None,
    "applied": [],
    "skipped": [],
    "unchanged": [],
    "commits": 0,
}  # known outside only
_HELP = """\
usage: tx [OPTIONS] [--] COMMAND [ARGS…]
       tx [OPTIONS] --many FILE [--first]
       checkpoint [-m TEXT]
       rollback CHECKPOINT
       agent-dev tx …, agent-dev checkpoint …, agent-dev rollback …

Run a command in a transaction of this sandbox's session. If it exits with
status 0, its changes to the repository are kept; otherwise everything changed
there since the start is rolled back. Home and /tmp are not rolled back.

  --validate CMD   run a shell command afterwards that must succeed; repeatable
  --timeout T      kill everything after T: 90, 90s, 5m, 1h
  --take PATH      keep only changes at and below PATH; repeatable
  --limit N=VALUE  limit time, or memory, file-size, open-files per process
  --json           print one JSON document; the command's output goes to stderr
  --many FILE      run each line of FILE (-: stdin) as a transaction
  --first          with --many, stop after the first success
  --jobs 1         accepted; commands always run one after another here

`checkpoint` records the repository; `rollback` takes a checkpoint, then
restores the given one. Transactions can be nested; unrelated ones run one at a
time. The user reviews risks later, so --allow and the like have no effect.

exit status: the command's; 1 if a validation failed or a limit was reached, 124
after a timeout, 125 if not started"""


class RequestRefused(Exception):
    """The control socket refused a request, and why."""


class ControlClient:
    """A connection to the control socket; its transaction is rolled back when it closes."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(_CONTROL_SOCKET)
        self._received = b""

    def request(self, verb: str, text: str = "") -> int:
        """Send a request; return the checkpoint in the reply. Raises RequestRefused, OSError."""
        request = f"{verb} {text}".strip() if text.isprintable() else f"{verb} {text!a}"
        self._socket.sendall(request.encode("utf-8", "replace")[:_MAX_REQUEST].decode("utf-8", "ignore").encode() + b"\n")
        return self._wait_for_result()

    def commit(self, paths: str) -> int:
        """Commit everything, or only some percent-encoded paths. Raises RequestRefused, OSError."""
        self._socket.sendall(f"commit {paths}".rstrip().encode() + b"\n")
        return self._wait_for_result()

    def _wait_for_result(self) -> int:
        while True:
            reply, _, value = self._read_reply().partition(" ")
            if reply == "ok":
                return int(value)
            if reply != "wait":
                raise RequestRefused(value)
            print_message("waiting for another transaction to end")

    def _read_reply(self) -> str:
        while b"\n" not in self._received:
            chunk = self._socket.recv(4096)
            if not chunk:
                raise RequestRefused("the control socket was closed")
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("utf-8", "replace")


def print_line(text: str) -> int:
    """Write a line to stdout; return the exit code."""
    return 0 if write_line(os.dup(1), text) else _FAILED


def main(arguments: "list[str]") -> int:
    """Run the command line; return the exit code."""
    open_missing_streams()
    program_name = os.path.basename(arguments[0])
    if program_name in _VERBS:
        arguments = ["agent-dev", program_name, *arguments[1:]]
    verb, rest = (arguments[1], arguments[2:]) if len(arguments) > 1 else ("", [])
    action = {"tx": transact, "checkpoint": checkpoint, "rollback": roll_back}.get(verb)
    if action is None and verb and verb not in ("-h", "--help", "help"):
        print_message(f"{verb!a} is not available inside a session")
        print_message("hint: use tx, checkpoint or rollback; each accepts --help")
        return _USAGE
    if action is None or rest[:1] in (["-h"], ["--help"]):
        is_requested = bool(rest or verb)
        write_line(os.dup(1 if is_requested else 2), _HELP)
        return 0 if is_requested else _USAGE
    try:
        return action(rest)
    except TxUsageError as error:
        reason, *hints = error.args
        print_message(f"{verb}: {reason}")
        print_message(f"hint: {hints[0] if hints else f'agent-dev {verb} --help'}")
        return _NOT_STARTED if verb == "tx" else _USAGE
    except RequestRefused as error:
        print_message(str(error))
        return _FAILED
    except OSError as error:
        print_message(f"control socket: {error.strerror}")
        return _FAILED


def checkpoint(arguments: "list[str]") -> int:
    """Take a checkpoint."""
    if arguments and (len(arguments) != 2 or arguments[0] not in ("-m", "--message")):
        raise TxUsageError("the only option is -m TEXT")
    return print_line(f"checkpoint {ControlClient().request('checkpoint', arguments[1] if arguments else '')}")


def roll_back(arguments: "list[str]") -> int:
    """Roll back to a checkpoint."""
    if len(arguments) != 1 or not (arguments[0].isascii() and arguments[0].isdigit()):
        raise TxUsageError("expected the number of one checkpoint")
    return print_line(f"rolled back to checkpoint {ControlClient().request('rollback', arguments[0])}")


def transact(arguments: "list[str]") -> int:
    """Run a command and roll its changes back unless it and every validation succeed; return the exit code."""
    options = TxOptions()
    command = options.parse(arguments)
    stdout = os.dup(1)
    if options.is_json:
        os.dup2(2, 1)
    for number in _COMMAND_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the command handles them
    code, result = run_list(options) if options.list_file else run_transaction(command, options)
    if options.is_json:
        import json  # only with --json

        document = json.dumps({"version": 1, **result}, indent=1)
        return code if write_line(stdout, document) else code or _FAILED
    return code


def write_line(output: int, text: str) -> bool:
    """Write a line to a descriptor; a failure is reported, not raised, because the command has run."""
    try:
        with open(output, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        print_message(f"cannot write the output: {error.strerror}")
        return False
    return True


def run_transaction(command: "list[str]", options: "TxOptions") -> "tuple[int, dict[str, object]]":
    """Run one transaction and report why its changes are not kept; return its exit code and its row for --json."""
    attempt = Attempt(command, options)
    try:
        attempt.run()
    except RequestRefused as error:
        attempt.fail("", f"not started: {error}", _NOT_STARTED)
    except OSError as error:
        attempt.fail("", f"not started: control socket: {error.strerror}", _NOT_STARTED)
    if attempt.reason:
        print_message(attempt.reason)
    return attempt.code, attempt.row()


def run_list(options: "TxOptions") -> "tuple[int, dict[str, object]]":
    """Run a transaction for each line of a file, with --first until one succeeds; return exit code and row."""
    lines = options.read_commands()
    codes: list[int] = []
    rows: list[dict[str, object]] = []
    for line in lines:
        row = skipped_row()
        if not received_signals and not (options.is_first and 0 in codes):
            print_message(f"{len(rows) + 1} of {len(lines)}: {line if line.isprintable() else ascii(line)}")
            code, row = run_transaction(["/bin/sh", "-c", line], options)
            codes.append(code)
        rows.append({"line": line, **row})
    has_succeeded = 0 in codes if options.is_first else codes == [0] * len(lines)
    return int(not has_succeeded), {
        "state": "merged" if has_succeeded else "failed",
        "exit": int(not has_succeeded),
        "jobs": rows,
    }


def skipped_row() -> "dict[str, object]":
    """Return the row of a skipped command: another one succeeded, or a termination signal arrived."""
    cause, reason = ("signal", "interrupted by a signal") if received_signals else ("not needed", "another one succeeded")
    return {"state": "failed", "exit": _FAILED, "cause": cause, "reason": reason, **_UNKNOWN, "steps": []}


class Attempt:
    """A transaction: its command, steps and result."""

    def __init__(self, command: "list[str]", options: "TxOptions") -> None:
        self.command, self.options = command, options
        self.code = self.start_checkpoint = 0
        self.cause = self.reason = ""
        self.steps: list[dict[str, object]] = []

    def fail(self, cause: str, reason: str, code: int) -> None:
        """Record why the changes are not kept."""
        self.cause, self.reason, self.code = cause, reason, code

    def run(self) -> None:
        """Begin, run and end the transaction. Raises RequestRefused, OSError when nothing was run."""
        if len(" ".join(self.options.paths)) > _MAX_REQUEST:
            raise RequestRefused("too many paths for one request")
        time_left = min(filter(None, (self.options.timeout, self.options.time_limit)), default=0)
        if time_left:
            become_subreaper()
            signal.signal(signal.SIGALRM, raise_timeout)
            signal.setitimer(signal.ITIMER_REAL, time_left)
        try:
            client = ControlClient()
            import shlex  # what only lists does without it

            self.start_checkpoint = client.request("begin", shlex.join(self.command))
            self._run_all()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except TimedOut:
            kill_all()
            self._fail_timeout(time_left)
        if self.start_checkpoint:
            self._end_transaction(client)

    def _fail_timeout(self, seconds: float) -> None:
        if seconds == self.options.timeout:
            self.fail("timeout", f"timed out after {seconds:g} s", _TIMED_OUT)
        else:
            self.fail("limit", f"reached the limit time={seconds:g}s", _FAILED)

    def _run_all(self) -> None:
        code = self._run_step(self.command)
        if code == _FILE_TOO_LARGE and "file-size" in self.options.limits:
            self.fail("limit", f"reached the limit file-size={self.options.limits['file-size']}", _FAILED)
        elif code > _SIGNALLED:
            self.fail("signal", f"{self.command[0]} exited with status {code}", code)
        elif code:
            self.fail("command", f"{self.command[0]} exited with status {code}", code)
        for validation in [] if code else self.options.validations:
            code = self._run_step(["/bin/sh", "-c", validation])
            if code:
                self.fail("validation", f"the validation exited with status {code}: {validation}", _FAILED)
                return

    def _run_step(self, command: "list[str]") -> int:
        since = time.monotonic()
        code = run(command, self.options.limits)
        self.steps.append({"command": command, "exit": code, "milliseconds": int((time.monotonic() - since) * 1000)})
        return code

    def _end_transaction(self, client: ControlClient) -> None:
        if not self.code and self._has_committed(client):
            return
        try:
            client.request("rollback")
            self.reason = f"rolled back to checkpoint {self.start_checkpoint}: {self.reason}"
        except (RequestRefused, OSError) as error:
            self.reason = f"not rolled back to checkpoint {self.start_checkpoint}: {error} ({self.reason})"

    def _has_committed(self, client: ControlClient) -> bool:
        """Commit; return whether nothing is left to do: committed, or no longer open."""
        try:
            client.commit(" ".join(self.options.paths))
        except RequestRefused as error:
            self.fail("control socket", str(error), _FAILED)
        except OSError as error:
            self.fail("control socket", f"control socket: {error.strerror}", _FAILED)
        return not self.cause or not self.options.paths

    def row(self) -> "dict[str, object]":
        """Return the result for --json, in the format used outside, where selected and skipped changes are known too."""
        row: dict[str, object] = {"state": "not started", "exit": self.code, "reason": self.reason or None}
        if self.code != _NOT_STARTED or self.start_checkpoint:
            row |= {"state": "failed" if self.cause else "merged", "cause": self.cause or None, **_UNKNOWN, "steps": self.steps}
        return row


if __name__ == "__main__":
    sys.exit(main(sys.argv))
