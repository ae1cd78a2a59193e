"""Risks of commands that ran: they send files to other machines, or write to `.git`. Hints for a review; nothing is denied.

A command is judged by its argv, `sh -c` by each pipeline of its script. Programs can do the same without being noticed.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from agent_dev.policy.command_rules import Command, unwrap
from agent_dev.quick_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class CommandRisk:
    """A reason to look at a command: the rule's name, one sentence, and what to check."""

    rule: str
    why: str
    check: str


SENDS = CommandRisk(
    "sends-data", "This sends a file, or the output of a command, to another machine.", "what it sent, and where to"
)
WRITES_GIT = CommandRisk(
    "writes-git",
    "This writes into .git or sets what git runs. That is the session's own copy; yours is unchanged.",
    "why it was needed",
)

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))
# Parsing a script takes up to a millisecond per 1,000 characters; most commands have none of these words.
_MAY_RISK = re.compile(
    r"\b(?:curl|wget|nc|ncat|netcat|socat|telnet|openssl|ssh|scp|rsync|sftp|rclone|nslookup|dig|host|ping|getent|config)\b"
    r"|/dev/(?:tcp|udp)/|\.git(?:/|$)"
)
_LONGEST = 20_000  # characters of a script
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1(.*?)\n(.*?)\n\s*\2(?=\n|$)", re.DOTALL)
# The output of a command that reads files or variables, used in an argument.
_OUTPUT = "\uf8ff"
_SUBSTITUTION = re.compile(
    r"(?:\$\(|`)\s*(?:(?:cat|base64|env|printenv|tar|xxd|od|hexdump|gzip|zip|head|tail|openssl|find|ls|git)\b|<)[^()`]*[)`]"
)
_OPERATORS = frozenset(";&|()\n")

_LOCAL = re.compile(r"(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1\]?|host\.docker\.internal)(?![\w.-])")
_DEVICE = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/")
_PLAIN_SOURCES = frozenset(("echo", "printf", "yes", "seq", "true", "sleep"))  # they read no file
_SOCKETS = frozenset(("nc", "ncat", "netcat", "socat", "telnet"))
_NO_SEND = ("-l", "--listen", "-z", "-lk", "-lvp", "-lp", "-vz", "-zv", "-lvnp", "-h", "--help", "--version")
_LOOKUPS = frozenset(("nslookup", "dig", "host", "ping", "curl", "wget", "getent"))
# Options of curl and wget whose value, with an @ before it, names a file (- is standard input).
_BODIES = ("-d", "--data", "--data-binary", "--data-ascii", "--json")
_FIELDS = ("-F", "--form", "--data-urlencode")  # the @ follows a name
_DATA = (*_BODIES, *_FIELDS)
_FILES = ("-T", "--upload-file", "--post-file", "--body-file")
_COPIERS = frozenset(("scp", "rsync", "sftp", "rclone"))
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]{2,}:(?!//|\\)|rsync://|sftp://")

_WRITERS = frozenset(("tee", "touch", "truncate", "mkdir", "chmod", "chown", "rm", "unlink", "shred"))
_LAST_WRITERS = frozenset(("cp", "mv", "install", "ln", "rsync"))
_IN_GIT = re.compile(r"(?:^|/)\.git/(?P<rest>.*)")
# Files below .git that ordinary work writes: locks, messages, the list of a rebase, the agent's own ignored files.
_USUAL = re.compile(r".*(?:\.lock|_EDITMSG|_MSG)|info/exclude|rebase-(?:merge|apply)(?:/.*)?|lfs(?:/.*)?|gc\.(?:pid|log)")
_GIT_PROGRAMS = re.compile(
    r"core\.(?:hookspath|fsmonitor|sshcommand|gitproxy|askpass|alternaterefscommand)|filter\..+|diff\..+\.(?:command|textconv)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Simple:
    """A simple command of a script: its words, and the files that it is redirected to and from."""

    words: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""


def find_command_risks(argv: Sequence[str]) -> tuple[CommandRisk, ...]:
    """Return the risks of a command."""
    if not any(map(_MAY_RISK.search, argv)):
        return ()
    pipelines = list(_pipelines(tuple(argv), 3))
    found = [SENDS] if any(map(_sends, pipelines)) else []
    if any(_writes_git(one) for pipeline in pipelines for one in pipeline):
        found.append(WRITES_GIT)
    return tuple(found)


def _pipelines(argv: tuple[str, ...], depth: int) -> Iterator[list[_Simple]]:
    """Yield the pipelines of a command: of a shell's script, else the command alone."""
    if not argv:
        return
    script = _script(argv)
    if script is None or not depth:
        yield [_unwrapped(_Simple(list(argv)))]
        return
    for pipeline in _parse(script[:_LONGEST]):
        yield pipeline
        for one in pipeline:
            if _script(tuple(one.words)) is not None:
                yield from _pipelines(tuple(one.words), depth - 1)


def _script(argv: tuple[str, ...]) -> str | None:
    """Return the script of `sh -c SCRIPT`; None for another command."""
    if not argv or argv[0].rpartition("/")[2] not in _SHELLS:
        return None
    rest = iter(argv[1:])
    for argument in rest:
        if not argument.startswith("-"):
            return None
        if "c" in argument and not argument.startswith("--"):
            return next((one for one in rest if not one.startswith("-")), None)
    return None


def _parse(script: str) -> list[list[_Simple]]:
    text = _SUBSTITUTION.sub(_OUTPUT, _HERE_DOCUMENT.sub(r"\3", script))
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = list(lexer)
    except ValueError:  # an open quote
        tokens = text.split()
    pipelines, current = [[_Simple()]], _Simple()
    pipelines[0][0] = current
    rest = iter(tokens)
    for word in rest:
        if set(word) <= _OPERATORS:
            current = _Simple()
            if word in ("|", "|&"):
                pipelines[-1].append(current)
            else:
                pipelines.append([current])
        elif set(word) <= {"<", ">", "&", "|"}:
            target = next(rest, "")
            (current.inputs if word == "<" else current.outputs if ">" in word else []).append(target)
        else:
            current.words.append(word)
    return [[_unwrapped(one) for one in pipeline] for pipeline in pipelines]


def _unwrapped(one: _Simple) -> _Simple:
    """Return the command without assignments and without `env`, `timeout` and the like."""
    words = one.words
    while words and (re.match(r"\w+=", words[0]) or words[0] in ("if", "then", "else", "do", "while", "!", "{", "time")):
        words = words[1:]
    for _ in range(4):
        inner = unwrap(Command(words[0], tuple(words))) if words else None
        if inner is None:
            break
        words = list(inner.argv)
    return _Simple(words, one.outputs, one.inputs)


# Sending


def _sends(pipeline: list[_Simple]) -> bool:
    is_fed = False
    for one in pipeline:
        is_fed = is_fed or bool(one.inputs)
        if _sends_alone(one) or (is_fed and _sends_input(one)):
            return True
        is_fed = is_fed or not _is_plain(one)
        device = next((match for path in one.outputs if (match := _DEVICE.match(path))), None)
        if device is not None and is_fed and not _LOCAL.match(device[1]):
            return True
    return False


def _is_plain(one: _Simple) -> bool:
    """Return whether a command's output is only what its command line says."""
    is_plain = one.name in _PLAIN_SOURCES or (one.name == "jq" and bool({"-n", "--null-input", "-nc", "-nr"} & {*one.words}))
    return is_plain and _OUTPUT not in "".join(one.words)


def _sends_input(one: _Simple) -> bool:
    """Return whether a command sends its standard input to another machine."""
    if _is_local(one):
        return False
    if one.name in _SOCKETS:
        return len(one.words) > 1 and not any(word in _NO_SEND for word in one.words)
    if one.name == "openssl":
        return "s_client" in one.words
    if one.name == "ssh":
        return True
    return one.name in ("curl", "wget") and any(value in ("-", "/dev/stdin") or value.endswith("@-") for value in _uploads(one))


def _sends_alone(one: _Simple) -> bool:
    """Return whether a command sends a file that it names, or the output of another in its arguments."""
    if one.name in _COPIERS:
        operands = [word for word in one.words[1:] if not word.startswith("-")]
        return len(operands) > 1 and _REMOTE.match(operands[-1]) is not None and not _LOCAL.match(operands[-1])
    if _is_local(one):
        return False
    if one.name in ("curl", "wget"):
        if any(_is_file(value) for value in _uploads(one)):
            return True
        urls = [word for word in one.words[1:] if "://" in word]
        return any(_OUTPUT in value for value in (*_data(one, (*_DATA, "--post-data")), *urls))
    return one.name in _LOOKUPS and any(_OUTPUT in word for word in one.words)


def _is_file(value: str) -> bool:
    return value not in ("-", "/dev/stdin") and not value.endswith("@-")


def _uploads(one: _Simple) -> Iterator[str]:
    """Yield the values of options that name a file to send."""
    yield from _data(one, _FILES)
    yield from (value for value in _data(one, _BODIES) if value.startswith("@"))
    yield from (value for value in _data(one, _FIELDS) if re.match(r"[\w.\[\]-]*=?[@<]", value))


def _data(one: _Simple, options: tuple[str, ...]) -> Iterator[str]:
    words = iter(one.words[1:])
    for word in words:
        name, equals, value = word.partition("=")
        if word in options:
            yield next(words, "")
        elif equals and name.startswith("--") and name in options:
            yield value
        elif word[:2] in options and len(word) > 2 and not word.startswith("--"):
            yield word[2:]


def _is_local(one: _Simple) -> bool:
    """Return whether a command connects only to this machine."""
    urls = [word for word in one.words[1:] if "://" in word]
    return all(map(_LOCAL.match, urls)) if urls else any(map(_LOCAL.match, one.words[1:]))


# Writing into .git


def _writes_git(one: _Simple) -> bool:
    operands = [word for word in one.words[1:] if not word.startswith("-")]
    if one.name == "git" and "config" in operands[:3]:  # after -c NAME=VALUE or -C DIRECTORY
        operands = operands[operands.index("config") :]
        reads = {"--get", "--get-all", "--list", "-l", "--unset", "--get-regexp"} & {*one.words}
        return not reads and len(operands) > 2 and _GIT_PROGRAMS.fullmatch(operands[1]) is not None
    targets = list(one.outputs)
    if one.name in _WRITERS:
        targets += operands
    elif one.name in _LAST_WRITERS:
        targets += operands[-1:]
    elif one.name in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", word) for word in one.words[1:]):
        targets += operands
    elif one.name == "dd":
        targets += [word[3:] for word in operands if word.startswith("of=")]
    return any(_is_git_file(path) for path in targets)


def _is_git_file(path: str) -> bool:
    match = _IN_GIT.search(path)
    return match is not None and _USUAL.fullmatch(match["rest"]) is None
