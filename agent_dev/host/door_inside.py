"""Inside the sandbox: `tx COMMAND`, and `agent-dev tx`, `checkpoint` and `rollback`, said to the door of the session.

Run there as a script of its own: nothing of agent-dev is there.
"""

import os
import signal
import socket
import sys

_DOOR = "/run/agent-dev/door"
_FAILED, _USAGE, _NOT_STARTED, _NOT_EXECUTABLE, _NOT_FOUND = 1, 2, 125, 126, 127
_LONGEST = 1000  # bytes of a request
_OURS = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and what it starts would
_HELP = """\
usage: tx [--] COMMAND [ARGS…]
       agent-dev tx [--] COMMAND [ARGS…]
       agent-dev checkpoint [-m TEXT]
       agent-dev rollback CHECKPOINT

You are in a sandbox of agent-dev's. `tx` runs a command: when it ends with 0, what it changed in the repository stays, else all
of it is rolled back, with whatever else changed there meanwhile. The exit code is the command's. Transactions may lie in one
another; two that lie side by side take turns. Home and /tmp are not rolled back.
`checkpoint` keeps what the repository holds now, `rollback` brings it back to a checkpoint, after taking one.
"""


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
    if act is None or rest[:1] in (["-h"], ["--help"]):
        (sys.stdout if rest or verb in ("-h", "--help", "help") else sys.stderr).write(_HELP)
        return 0 if rest or verb in ("-h", "--help", "help") else _USAGE
    try:
        return act(rest)
    except Refused as error:
        say(str(error))
        return _FAILED
    except OSError as error:
        say(f"the door of this session: {error.strerror}")
        return _FAILED


def checkpoint(words: "list[str]") -> int:
    """Take a checkpoint."""
    if words and (len(words) != 2 or words[0] not in ("-m", "--message")):
        return _misuse()
    return tell(f"checkpoint {Door().ask('checkpoint', words[1] if words else '')}")


def roll_back(words: "list[str]") -> int:
    """Go back to a checkpoint."""
    if len(words) != 1 or not (words[0].isascii() and words[0].isdigit()):
        return _misuse()
    return tell(f"as at checkpoint {Door().ask('rollback', words[0])}")


def transact(words: "list[str]") -> int:
    """Run a command, and roll back what it changed unless it ends with 0; return its exit code."""
    command = words[1:] if words[:1] == ["--"] else words
    if not command or (command is words and command[0].startswith("-")):
        return _misuse()
    for number in _OURS:
        signal.signal(number, signal.SIG_IGN)  # the command decides what they mean
    try:
        door = Door()
        begun = door.ask("begin", " ".join(command))
    except Refused as error:
        say(f"not started: {error}")
        return _NOT_STARTED
    except OSError as error:
        say(f"not started: the door of this session: {error.strerror}")
        return _NOT_STARTED
    code = run(command)
    if code == 0:
        door.ask("commit")
        return 0
    try:
        door.ask("rollback")
        say(f"rolled back to checkpoint {begun}, since {command[0]} ended with {code}")
    except (Refused, OSError) as error:
        say(f"not rolled back to checkpoint {begun}: {error}")
    return code


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
    return 128 - code if code < 0 else code


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


def _misuse() -> int:
    sys.stderr.write(_HELP)
    return _USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv))
