"""Inside the sandbox: `tx COMMAND`, and `agent-dev tx`, `checkpoint` and `rollback`, said to the door of the session.

Run there as a script of its own, behind `door_running.py` and `door_wish.py`: nothing of agent-dev is there.
"""

import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # they stand above, in the one file that all are inside
    from agent_dev.inside.tx_options import Misused, Wish  # noqa: TC004
    from agent_dev.inside.tx_process import Late, adopt, asked, end_all, have_streams, late, run, say  # noqa: TC004

_DOOR = "/run/agent-dev/door"
_FAILED, _USAGE, _TIMED_OUT, _NOT_STARTED = 1, 2, 124, 125
_SIGNALLED = 128
_FILE_TOO_LARGE = _SIGNALLED + signal.SIGXFSZ
_VERBS = ("tx", "checkpoint", "rollback")
_LONGEST = 1000  # bytes of a request
_OURS = (signal.SIGINT, signal.SIGQUIT)
_UNKNOWN: "dict[str, object]" = {
    "session": None,
    "merge": None,
    "taken": [],
    "left": [],
    "unchanged": [],
    "commits": 0,
}  # known outside alone
_HELP = """\
usage: tx [OPTIONS] [--] COMMAND [ARGS…]
       tx [OPTIONS] --many FILE [--first]
       checkpoint [-m TEXT]
       rollback CHECKPOINT
each also behind agent-dev: agent-dev tx …

  --validate CMD   a shell command that must pass afterwards; may be repeated
  --timeout T      for all of it: 90, 90s, 5m, 1h; what the command started is killed then
  --take PATH      keep only what changed at PATH and below it, and roll the rest back; may be repeated
  --limit N=VALUE  time, or for each process memory, file-size or open-files; may be repeated
  --json           one JSON document on stdout; the command's own output goes to stderr
  --many FILE      a transaction for each line of FILE (-: stdin), as a shell reads it, one after the other
  --first          until one has passed
  --jobs 1         no more at once: all change the one tree that the session shows

You are in a sandbox of agent-dev's. `tx` runs a command: when it ends with 0, what it changed in the repository stays, else all
of it is rolled back, with whatever else changed there meanwhile. The exit code is the command's. Transactions may lie in one
another; two that lie side by side take turns. Home and /tmp are not rolled back. 124: timeout, 1: validation or limit, 125: not
started. Risks are judged later, by the user: --allow and its like change nothing here.
`checkpoint` keeps what the repository holds now, `rollback` brings it back to a checkpoint, after taking one."""


class Refused(Exception):
    """What the door said no to, and why."""


class Door:
    """A connection; what was begun on it is rolled back when it ends."""

    def __init__(self) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.connect(_DOOR)
        self._heard = b""

    def ask(self, word: str, text: str = "") -> int:
        """Say a word; return the checkpoint that the answer names. Raises Refused, OSError."""
        said = f"{word} {text}".strip() if text.isprintable() else f"{word} {text!a}"
        self._line.sendall(said.encode("utf-8", "replace")[:_LONGEST].decode("utf-8", "ignore").encode() + b"\n")
        return self._heeded()

    def keep(self, paths: str) -> int:
        """Commit all, or some paths alone, which are said as `quoted` has them. Raises Refused, OSError."""
        self._line.sendall(f"commit {paths}".rstrip().encode() + b"\n")
        return self._heeded()

    def _heeded(self) -> int:
        while True:
            answer, _, rest = self._answer().partition(" ")
            if answer == "ok":
                return int(rest)
            if answer != "wait":
                raise Refused(rest)
            say("another transaction is open; waiting for its end")

    def _answer(self) -> str:
        while b"\n" not in self._heard:
            piece = self._line.recv(4096)
            if not piece:
                raise Refused("the door was shut")
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode("utf-8", "replace")


def tell(text: str) -> int:
    """Write a line to stdout; all is done."""
    return 0 if written(os.dup(1), text) else _FAILED


def main(words: "list[str]") -> int:
    """Carry out the words and return the exit code."""
    have_streams()
    called = os.path.basename(words[0])
    if called in _VERBS:
        words = ["agent-dev", called, *words[1:]]
    verb, rest = (words[1], words[2:]) if len(words) > 1 else ("", [])
    act = {"tx": transact, "checkpoint": checkpoint, "rollback": roll_back}.get(verb)
    if act is None and verb and verb not in ("-h", "--help", "help"):
        say(f"{verb!a} is not for inside a session")
        say("→ tx, checkpoint or rollback; each with --help")
        return _USAGE
    if act is None or rest[:1] in (["-h"], ["--help"]):
        is_asked = bool(rest or verb)
        written(os.dup(1 if is_asked else 2), _HELP)
        return 0 if is_asked else _USAGE
    try:
        return act(rest)
    except Misused as error:
        why, *what_to_do = error.args
        say(f"{verb}: {why}")
        say(f"→ {what_to_do[0] if what_to_do else f'agent-dev {verb} --help'}")
        return _NOT_STARTED if verb == "tx" else _USAGE
    except Refused as error:
        say(str(error))
        return _FAILED
    except OSError as error:
        say(f"the door of this session: {error.strerror}")
        return _FAILED


def checkpoint(words: "list[str]") -> int:
    """Take a checkpoint."""
    if words and (len(words) != 2 or words[0] not in ("-m", "--message")):
        raise Misused("nothing but -m TEXT goes with it")
    return tell(f"checkpoint {Door().ask('checkpoint', words[1] if words else '')}")


def roll_back(words: "list[str]") -> int:
    """Go back to a checkpoint."""
    if len(words) != 1 or not (words[0].isascii() and words[0].isdigit()):
        raise Misused("one checkpoint's number goes with it")
    return tell(f"as at checkpoint {Door().ask('rollback', words[0])}")


def transact(words: "list[str]") -> int:
    """Run a command, and roll back what it changed unless it and every validation ends with 0; return the exit code."""
    wish = Wish()
    command = wish.read(words)
    stdout = os.dup(1)
    if wish.is_json:
        os.dup2(2, 1)
    for number in _OURS:
        signal.signal(number, signal.SIG_IGN)  # the command decides what they mean
    code, row = many(wish) if wish.many else one(command, wish)
    if wish.is_json:
        import json  # with it alone

        document = json.dumps({"version": 1, **row}, indent=1)
        return code if written(stdout, document) else code or _FAILED
    return code


def written(output: int, text: str) -> bool:
    """Write a line to a descriptor; where that cannot be done say so, for what was run is done all the same."""
    try:
        with open(output, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        say(f"the output could not be written: {error.strerror}")
        return False
    return True


def one(command: "list[str]", wish: "Wish") -> "tuple[int, dict[str, object]]":
    """Carry one transaction out, and say why nothing stays; return its exit code and its row for --json."""
    attempt = Attempt(command, wish)
    try:
        attempt.carry_out()
    except Refused as error:
        attempt.fail("", f"not started: {error}", _NOT_STARTED)
    except OSError as error:
        attempt.fail("", f"not started: the door of this session: {error.strerror}", _NOT_STARTED)
    if attempt.reason:
        say(attempt.reason)
    return attempt.code, attempt.row()


def many(wish: "Wish") -> "tuple[int, dict[str, object]]":
    """Carry a transaction out for each line of a file, until one has passed if that is wished; return the same."""
    lines = wish.lines()
    codes: list[int] = []
    rows: list[dict[str, object]] = []
    for line in lines:
        row = not_run()
        if not asked and not (wish.is_first and 0 in codes):
            say(f"{len(rows) + 1} of {len(lines)}: {line if line.isprintable() else ascii(line)}")
            code, row = one(["/bin/sh", "-c", line], wish)
            codes.append(code)
        rows.append({"line": line, **row})
    is_good = 0 in codes if wish.is_first else codes == [0] * len(lines)
    return int(not is_good), {"state": "merged" if is_good else "failed", "exit": int(not is_good), "jobs": rows}


def not_run() -> "dict[str, object]":
    """Return the row of one that was not begun, since another had passed or we were asked to end."""
    cause, reason = ("signal", "it was asked to end") if asked else ("not needed", "another had passed")
    return {"state": "failed", "exit": _FAILED, "cause": cause, "reason": reason, **_UNKNOWN, "steps": []}


class Attempt:
    """A transaction: what was run, and how it ended."""

    def __init__(self, command: "list[str]", wish: Wish) -> None:
        self.command, self.wish = command, wish
        self.code = self.begun = 0
        self.cause = self.reason = ""
        self.steps: list[dict[str, object]] = []

    def fail(self, cause: str, reason: str, code: int) -> None:
        """Note why nothing stays."""
        self.cause, self.reason, self.code = cause, reason, code

    def carry_out(self) -> None:
        """Begin, run, and end it. Raises Refused, OSError when nothing was run."""
        if len(" ".join(self.wish.take)) > _LONGEST:
            raise Refused("these are more paths than can be said")
        time_left = min(filter(None, (self.wish.timeout, self.wish.limit)), default=0)
        if time_left:
            adopt()
            signal.signal(signal.SIGALRM, late)
            signal.setitimer(signal.ITIMER_REAL, time_left)
        try:
            door = Door()
            self.begun = door.ask("begin", " ".join(self.command))
            self._run_all()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Late:
            end_all()
            self._fail_late(time_left)
        if self.begun:
            self._settle(door)

    def _fail_late(self, after: float) -> None:
        if after == self.wish.timeout:
            self.fail("timeout", f"it was not done within {after:g} s", _TIMED_OUT)
        else:
            self.fail("limit", f"the limit time={after:g}s was reached", _FAILED)

    def _run_all(self) -> None:
        code = self._step(self.command)
        if code == _FILE_TOO_LARGE and "file-size" in self.wish.limits:
            self.fail("limit", f"the limit file-size={self.wish.limits['file-size']} was reached", _FAILED)
        elif code > _SIGNALLED:
            self.fail("signal", f"{self.command[0]} ended with {code}", code)
        elif code:
            self.fail("command", f"{self.command[0]} ended with {code}", code)
        for validation in [] if code else self.wish.validations:
            code = self._step(["/bin/sh", "-c", validation])
            if code:
                self.fail("validation", f"the validation ended with {code}: {validation}", _FAILED)
                return

    def _step(self, command: "list[str]") -> int:
        since = time.monotonic()
        code = run(command, self.wish.limits)
        self.steps.append({"command": command, "exit": code, "milliseconds": int((time.monotonic() - since) * 1000)})
        return code

    def _settle(self, door: Door) -> None:
        if not self.code and self._is_kept(door):
            return
        try:
            door.ask("rollback")
            self.reason = f"rolled back to checkpoint {self.begun}, since {self.reason}"
        except (Refused, OSError) as error:
            self.reason = f"not rolled back to checkpoint {self.begun}: {error} ({self.reason})"

    def _is_kept(self, door: Door) -> bool:
        """Commit; return whether nothing is left to do: that, or it is no longer open."""
        try:
            door.keep(" ".join(self.wish.take))
        except Refused as error:
            self.fail("door", str(error), _FAILED)
        except OSError as error:
            self.fail("door", f"the door of this session: {error.strerror}", _FAILED)
        return not self.cause or not self.wish.take

    def row(self) -> "dict[str, object]":
        """Return what --json says of it: as outside, where what is taken and left is known too."""
        row: dict[str, object] = {"state": "not started", "exit": self.code, "reason": self.reason or None}
        if self.code != _NOT_STARTED or self.begun:
            row |= {"state": "failed" if self.cause else "merged", "cause": self.cause or None, **_UNKNOWN, "steps": self.steps}
        return row


if __name__ == "__main__":
    sys.exit(main(sys.argv))
