"""Parse, call one command, print, exit: the launch path's own parser, since argparse costs twice what bubblewrap does."""

import os
import sys

from agent_dev import trace as debug
from agent_dev.errors import PARTLY, AgentDevError, CommandNotFound, UsageError, UsageOfRun
from agent_dev.run.prepare import Options, Request, limit_of
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VALUES = {
    "-C": "directory",
    "--home": "home",
    "--net": "net",
    "--name": "name",
    "--profile": "profile_file",
    "--config": "config",
}
_SWITCHES = {"--no-merge": {"merge": False}, "--debug": {"debug": True}}
_LISTS = {"--ro": "ro", "--rw": "rw", "--overlay": "overlay", "--env": "env", "--share": "share", "--limit": "limit"}
AREAS = {  # the words, by the module of agent_dev/cli/commands that knows them
    "status": ("status", "sessions"),
    "commits": ("commits",),
    "diff": ("diff",),
    "merge": ("merge",),
    "undo": ("undo", "redo", "merges"),
    "restore": ("restore",),
    "backup": ("backup",),
    "session": ("discard", "stop", "resume"),
    "checkpoints": ("checkpoint", "checkpoints", "rollback", "log", "trash"),
    "show": ("show", "profiles", "doctor"),
    "policy": ("policy", "approve"),
    "home": ("home", "trust", "clean", "config"),
}
_VERBS = {word: area for area, words in AREAS.items() for word in words}
_WRITERS = (
    "agent_dev.cli.main",
    "agent_dev.output",
    "agent_dev.cli.commands.dispatch",
    "agent_dev.cli.tx_many",
    "agent_dev.cli.screen.choose_frontend",
)  # to stdout
_OTHERS = ("run", "tx", "help")  # words that need no argparse
RESERVED = (
    "shell",
    "install",
    "network",
)


def parse(words: list[str]) -> tuple[Options, list[str], bool]:
    """Return our options, the words after them untouched, and whether `--` stood between. Raises UsageError."""
    values: dict[str, Any] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            return Options(**values), rest, True
        if word in ("-h", "--help", "--version"):
            return Options(**values), [word], False
        if word in _SWITCHES:
            values |= _SWITCHES[word]
        else:
            _take_value(values, word, rest)
    return Options(**values), rest, False


def _take_value(values: "dict[str, Any]", word: str, rest: list[str]) -> None:
    name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
    if name not in _VALUES and name not in _LISTS:
        hint = "agent-dev --help; options of the agent's own follow its name"
        raise UsageError(message=f"unknown option {word}", hint=hint)
    if not has_value:
        if not rest:
            raise UsageError(message=f"{name} needs a value", hint="agent-dev --help")
        value = rest.pop(0)
    _set(values, name, value)


def takes_value(word: str) -> bool:
    """Whether an option's value is the word after it."""
    return word in _VALUES or word in _LISTS


def _set(values: "dict[str, Any]", name: str, value: str) -> None:
    if not value and name != "-C":  # as git: -C "" is where we are
        raise UsageError(message=f"{name} needs a value, and got an empty one", hint="agent-dev --help")
    if name == "--limit":
        limit_of(value)  # a wrong one is a mistake of the command line, not of the run
    if name in ("--env", "--share"):
        _check(name, value.partition("=")[0] if name == "--env" else value)
    if name in _LISTS:
        before = values.get(_LISTS[name], ())
        values[_LISTS[name]] = (*before, value)
        return
    if name == "--net" and value not in ("host", "none"):
        raise UsageError(message=f"--net {value}: it is host or none", hint="--net none")
    if name == "--name" and (not value or not value.replace("-", "").replace("_", "").replace(".", "").isalnum()):
        raise UsageError(message=f"--name {value!r}: letters, digits, `.`, `-` and `_` only", hint="--name fix-login")
    values[_VALUES[name]] = value


def _check(name: str, value: str) -> None:
    from agent_dev.config import schema  # only where one is given, and read then in any case

    wrong = schema.one(name.removeprefix("--"), name, [value])
    if wrong:
        raise UsageError(message=wrong[0], hint="agent-dev --help")


def run(words: list[str], environ: dict[str, str]) -> int:
    """Carry out one command line and return the exit code. Raises AgentDevError."""
    options, rest, is_command = parse(words)
    if options.debug:
        debug.switch_on()
    if not rest or rest[0] in ("-h", "--help"):
        from agent_dev.cli import help as usage  # rare

        out(usage.HELP)
        return 0 if rest else UsageError.code
    if rest[0] == "--version" and not is_command:
        from agent_dev import __version__

        out(f"agent-dev {__version__}\n")
        return 0
    if is_command:
        return _run_agent(Request(tuple(rest), options, environ, is_command=True))
    return _say_word(rest, options, environ)


def _say_word(rest: list[str], options: Options, environ: dict[str, str]) -> int:
    """Carry out a word of ours, or run an agent."""
    if rest[0] == "tx":
        from agent_dev.cli import tx as transaction  # a word without argparse: it starts as quickly as a run

        return transaction.run(rest[1:], options, environ)
    if rest[0] in _VERBS:
        from agent_dev.cli.commands.dispatch import run_verb  # argparse, json: not on the launch path

        return run_verb((_VERBS[rest[0]], rest[0]), rest[1:], options, environ)
    if rest[0] == "help":
        from agent_dev.cli import help as usage  # rare

        return run(usage.asked_for(rest[1:], (*_VERBS, *_OTHERS)), environ)
    if rest[0] in RESERVED:
        raise UsageError(
            message=f"`{rest[0]}` is a word of agent-dev's that this version cannot do yet",
            hint=f"agent-dev -- {rest[0]}",
        )
    if rest[0] == "run":
        return _run_named(rest[1:], options, environ)
    return _run_or_suggest(Request(tuple(rest), options, environ))


def _run_named(rest: list[str], options: Options, environ: dict[str, str]) -> int:
    if rest[:1] in (["-h"], ["--help"]):
        from agent_dev.cli import help as usage  # rare

        out(usage.RUN)
        return 0
    rest, is_command, options = _after_run(rest, options)
    return _run_agent(Request(tuple(rest), options, environ, is_command))


def _run_or_suggest(request: Request) -> int:
    """Run an agent; of one that is not there say which word of ours may have been meant."""
    try:
        return _run_agent(request)
    except CommandNotFound as error:
        from agent_dev.run import command_not_found as missing  # rare

        error.hint = missing.or_word(error.hint, request, (*_VERBS, *_OTHERS))
        raise


def _after_run(rest: list[str], options: Options) -> tuple[list[str], bool, Options]:
    """Return an agent and its words, whether it is a command (`run -- COMMAND` is `-- COMMAND`), and the options."""
    if rest and rest[0].partition("=")[0] == "--direct":
        options = options.but(direct=rest[0].partition("=")[2] or "auto")
        rest = rest[1:]
    is_command = rest[:1] == ["--"]
    rest = rest[is_command:]
    if not rest:
        raise UsageError(message="run which profile?", hint="agent-dev profiles")
    if rest[0].startswith("-") and not is_command:
        raise UsageError(message=f"unknown option {rest[0]} of run", hint="options of agent-dev's come before `run`")
    return rest, is_command, options


def _run_agent(request: Request) -> int:
    from agent_dev.run import run as command

    if request.options.name:
        from agent_dev.session import naming  # most have none

        naming.check(request.options, request.environ)
    try:
        if request.options.direct:
            from agent_dev.direct import direct  # snapshots, and all of the merge engine

            outcome = direct.run_direct(request, say)
        else:
            outcome = command.run(request, say)
    except UsageError as error:
        raise UsageOfRun(message=error.message, hint=error.hint) from None
    if outcome.why:
        say(visible(outcome.why))
    if not outcome.is_kept:
        return outcome.code
    from agent_dev.cli.after_run import after_run  # what follows an agent is not on the launch path

    return after_run(outcome, request)


def say(line: str) -> None:
    """Tell the user something: on stderr, which is for talk."""
    try:
        os.write(2, f"agent-dev: {line}\n".encode("utf-8", "replace"))
    except OSError:
        return  # a terminal that went away: nobody is there to be told


def out(text: str) -> None:
    """Write data to stdout."""
    sys.stdout.write(text)
    sys.stdout.flush()


def report(error: AgentDevError) -> None:
    """Print an error: one line, and what to do."""
    for line in error.message.splitlines():
        say(line)
    if error.hint:
        say(f"→ {visible(error.hint)}")


def have_streams() -> None:
    """Let those of stdin, stdout and stderr that are closed be /dev/null, for us and for all that is started from here.

    What is opened next would get such a number, a journal say, and what is printed would be written into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free: this one
            os.set_inheritable(number, True)
            stream = open(number, "w" if number else "r", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _flushed(code: int, *, is_told: bool) -> int:
    """Write what is not written yet and return the exit code; `is_told`: that the output fails was said."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        return 141
    except OSError as error:
        if not is_told:
            _tell_unwritten(error)
        return code or PARTLY
    return code


def _tell_unwritten(error: OSError) -> None:
    say(f"the output could not be written: {error.strerror}")


def _is_of_output(error: OSError) -> bool:
    """Whether writing to stdout failed: the roof opens files, which have names, and writes to nothing else."""
    trace, module = error.__traceback__, ""
    while trace is not None:
        module, trace = trace.tb_frame.f_globals.get("__name__", ""), trace.tb_next
    return not error.filename and module.startswith(_WRITERS)


def main() -> None:
    """Be the program `agent-dev`. Never returns."""
    have_streams()
    is_told = False
    try:
        code = run(sys.argv[1:], dict(os.environ))
    except AgentDevError as error:
        report(error)
        code = error.code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 141
    except OSError as error:
        code, is_told = PARTLY, _is_of_output(error)
        if is_told:
            _tell_unwritten(error)
        else:  # a disk or a terminal that fails where no one step could tell what it means
            text = error.strerror or str(error)
            say(visible(f"{text}: {error.filename}" if error.filename else text))
    code = _flushed(code, is_told=is_told)
    # Nothing is registered to run at exit: taking the interpreter apart would only cost 2 ms.
    os._exit(code)
