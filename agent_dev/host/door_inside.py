"""Inside the sandbox: `tx COMMAND`, and `agent-dev tx`, `checkpoint` and `rollback`, said to the door of the session.

Run there as a script of its own: nothing of agent-dev is there.
"""

import os
import signal
import socket
import sys
import time

_DOOR = "/run/agent-dev/door"
_FAILED, _USAGE, _TIMED_OUT, _NOT_STARTED, _NOT_EXECUTABLE, _NOT_FOUND = 1, 2, 124, 125, 126, 127
_SIGNALLED = 128
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_LONGEST = 1000  # bytes of a request
_OURS = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and what it starts would
_UNKNOWN: "dict[str, object]" = {"session": None, "merge": None, "taken": [], "left": [], "commits": 0}  # known outside alone
_HELP = """\
usage: tx [OPTIONS] [--] COMMAND [ARGS…]
       agent-dev tx [OPTIONS] [--] COMMAND [ARGS…]
       agent-dev checkpoint [-m TEXT]
       agent-dev rollback CHECKPOINT

  --validate CMD   a shell command that must pass afterwards; may be repeated
  --timeout T      for all of it: 90, 90s, 5m, 1h; what the command started is killed then
  --take PATH      keep only what changed at PATH and below it, and roll the rest back; may be repeated
  --json           one JSON document on stdout; the command's own output goes to stderr

You are in a sandbox of agent-dev's. `tx` runs a command: when it ends with 0, what it changed in the repository stays, else all
of it is rolled back, with whatever else changed there meanwhile. The exit code is the command's. Transactions may lie in one
another; two that lie side by side take turns. Home and /tmp are not rolled back. 124: timeout, 1: validation, 125: not started.
`checkpoint` keeps what the repository holds now, `rollback` brings it back to a checkpoint, after taking one.
"""


class Refused(Exception):
    """What the door said no to, and why."""


class Misused(Exception):
    """Words that are not understood, and why."""


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


def say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"agent-dev: {text}\n")


def tell(text: str) -> int:
    """Write a line to stdout; all is done."""
    sys.stdout.write(f"{text}\n")
    return 0


def main(words: "list[str]") -> int:
    """Carry out the words and return the exit code."""
    if os.path.basename(words[0]) == "tx":
        words = ["agent-dev", "tx", *words[1:]]
    verb, rest = (words[1], words[2:]) if len(words) > 1 else ("", [])
    act = {"tx": transact, "checkpoint": checkpoint, "rollback": roll_back}.get(verb)
    if act is None and verb and verb not in ("-h", "--help", "help"):
        say(f"{verb!a} is not for inside a session")
        say("→ tx, agent-dev checkpoint or agent-dev rollback; each with --help")
        return _USAGE
    if act is None or rest[:1] in (["-h"], ["--help"]):
        (sys.stdout if rest or verb in ("-h", "--help", "help") else sys.stderr).write(_HELP)
        return 0 if rest or verb in ("-h", "--help", "help") else _USAGE
    try:
        return act(rest)
    except Misused as error:
        say(f"{verb}: {error}")
        say(f"→ agent-dev {verb} --help")
        return _USAGE
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
    if not command:
        raise Misused("which command?")
    stdout = os.dup(1)
    if wish.is_json:
        os.dup2(2, 1)
    for number in _OURS:
        signal.signal(number, signal.SIG_IGN)  # the command decides what they mean
    attempt = Attempt(command, wish)
    try:
        attempt.carry_out()
    except Refused as error:
        attempt.fail("", f"not started: {error}", _NOT_STARTED)
    except OSError as error:
        attempt.fail("", f"not started: the door of this session: {error.strerror}", _NOT_STARTED)
    if attempt.reason:
        say(attempt.reason)
    if wish.is_json:
        with open(stdout, "w", encoding="utf-8") as file:
            file.write(attempt.document())
    return attempt.code


class Wish:
    """What the words of a transaction ask for."""

    def __init__(self) -> None:
        self.validations: list[str] = []
        self.take: list[str] = []
        self.timeout = 0.0  # seconds; 0: none
        self.is_json = False

    def read(self, words: "list[str]") -> "list[str]":
        """Take the options up; return the command. Raises Misused for words that are not understood."""
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "--":
            word = rest.pop(0)
            name, has_value, value = word.partition("=")
            if word == "--json":
                self.is_json = True
                continue
            if name in ("--validate", "--take", "--timeout") and not has_value and rest:
                value = rest.pop(0)
            if name not in ("--validate", "--take", "--timeout"):
                raise Misused(f"{word!a} is no option of it")
            if not value or not self._set(name, value):
                raise Misused(f"{name} wants {'a time such as 90s or 5m' if name == '--timeout' else 'a value'}")
        return rest[1:] if rest[:1] == ["--"] else rest

    def _set(self, name: str, value: str) -> bool:
        if name == "--timeout":
            self.timeout = seconds(value)
            return self.timeout > 0
        into = {"--validate": self.validations, "--take": self.take}.get(name)
        if into is not None:
            into.append(quoted(os.path.abspath(value)) if name == "--take" else value)  # now: the command may take the place away
        return into is not None


def seconds(text: str) -> float:
    """Return a time such as `90`, `90s`, `5m` in seconds; 0 for what is none."""
    number = text.rstrip("smh")
    try:
        found = float(number) * _UNITS[text[len(number) :] or "s"]
    except (KeyError, ValueError):
        return 0
    return found if 0.001 <= found < 1e9 else 0


def quoted(path: str) -> str:
    """Return a path of which each byte but for visible ASCII stands as %XX."""
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in os.fsencode(path))


class Late(Exception):
    """The time is over."""


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
        if self.wish.timeout:
            adopt()
            signal.signal(signal.SIGALRM, late)
            signal.setitimer(signal.ITIMER_REAL, self.wish.timeout)
        try:
            door = Door()
            self.begun = door.ask("begin", " ".join(self.command))
            self._run_all()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Late:
            end_all()
            self.fail("timeout", f"it was not done within {self.wish.timeout:g} s", _TIMED_OUT)
        if self.begun:
            self._settle(door)

    def _run_all(self) -> None:
        code = self._step(self.command)
        if code > _SIGNALLED:
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
        code = run(command)
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

    def document(self) -> str:
        """Return what --json prints: as outside, where what is taken and left is known too."""
        import json  # with --json alone

        row: dict[str, object] = {"version": 1, "state": "not started", "exit": self.code, "reason": self.reason or None}
        if self.code != _NOT_STARTED or self.begun:
            row |= {"state": "failed" if self.cause else "merged", "cause": self.cause or None, **_UNKNOWN, "steps": self.steps}
        return json.dumps(row, indent=1) + "\n"


def late(_number: int, _frame: object) -> None:
    """End what is waited for."""
    raise Late


def adopt() -> None:
    """Become the parent of whatever the command leaves behind, so that all of it can be ended."""
    import ctypes  # with --timeout alone

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def end_all() -> None:
    """Kill what was started, and what that leaves us, until nothing is left."""
    while True:
        for pid in children():
            os.kill(pid, signal.SIGKILL)  # a child that is not waited for keeps its number
        try:
            os.wait()
        except ChildProcessError:
            return


def children() -> "list[int]":
    """Return the processes whose parent this is."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb", 0) as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has gone
        if parent == os.getpid():
            found.append(int(name))
    return found


def run(command: "list[str]") -> int:
    """Run a command to its end; return its exit code, 128 + n for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            become(command)
        finally:
            os._exit(_NOT_EXECUTABLE)
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _frame: os.kill(pid, number))
    _, status = os.waitpid(pid, 0)
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_IGN)  # it was asked to end, and has: what is left to do is done
    code = os.waitstatus_to_exitcode(status)
    return _SIGNALLED - code if code < 0 else code


def become(command: "list[str]") -> None:
    """Be the command; returns only when it could not be started."""
    for number in (*_OURS, *_PYTHONS):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        say(f"{command[0]}: not found")
        os._exit(_NOT_FOUND)
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    sys.exit(main(sys.argv))
