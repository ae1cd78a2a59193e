"""Parse the command line and run one command. The launch path has its own parser: argparse costs twice what bubblewrap does."""

import os
import sys

from agent_dev import debug, import_cache
from agent_dev.cli.console import OUT_OF_MEMORY, guard, notify, open_output, report_output_failure, silence, warn, write_stdout
from agent_dev.cli.options import given_run_options, parse
from agent_dev.config.detachable import may_detach
from agent_dev.config.options import RunOptions
from agent_dev.errors import (
    FAILURE,
    SUCCESS,
    SYSTEM_ERRORS,
    AgentNotInstalled,
    AgentNotStarted,
    RunUsageError,
    UnknownAgent,
    UsageError,
    agent_not_started,
)
from agent_dev.run.request import AGENT, COMMAND, RunRequest
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.job import RunOutcome

VERB_GROUPS = {  # subcommands by the package of agent_dev/cli/commands that has a module for each of them
    "run": ("restore",),
    "review": ("merge", "undo", "redo", "merges", "status", "diff", "commits", "worktrees"),
    "sessions": (
        *("sessions", "watch", "exec", "shell", "attach", "resume", "fork", "stop", "discard", "undiscard"),
        *("checkpoint", "checkpoints", "rollback", "deleted", "log", "approve", "bundle", "import"),
    ),
    "settings": (
        *("init", "install", "outdated", "why", "learn", "show", "profiles", "config", "doctor"),
        *("policy", "trust", "home", "clean", "backup"),
    ),
}
_VERBS = {verb: group for group, verbs in VERB_GROUPS.items() for verb in verbs}
_PLAIN_VERBS = ("run", "tx", "work", "help", "completion")  # subcommands without a repository, or without argparse
SUBCOMMANDS = (*_VERBS, *_PLAIN_VERBS)
MIN_ADDRESS_SPACE = 64 << 20  # bytes of address space: twice what any command needs in a small repository
NO_MEMORY = b"agent-dev: out of memory\nagent-dev: hint: free memory, or raise the limit: ulimit -v\n"
RESERVED_VERBS = ("network",)


def run(argv: list[str], environ: dict[str, str]) -> int:
    """Run one command line and return the exit code. Raises AgentDevError."""
    options, rest, is_command = parse(argv)
    if options.debug:
        debug.enable()
    if options.quiet:
        silence()
    if not rest:
        return _show_overview(options, environ, is_command=is_command)
    if rest[0] in ("-h", "--help"):
        from agent_dev.cli import help_text  # rare

        write_stdout(help_text.HELP)
        return 0
    if rest[0] == "--version" and not is_command:
        from agent_dev import __version__

        write_stdout(f"agent-dev {__version__}\n")
        return 0
    if rest[0] in ("completion", "__complete") and not is_command:
        from agent_dev.cli.completion import command  # not on the launch path

        return command.run(rest[1:]) if rest[0] == "completion" else command.complete(rest[1:], environ)
    _require_memory(is_run=is_command or rest[0] not in (*_VERBS, "help"))
    if is_command:
        return _run_agent(RunRequest(tuple(rest), options, environ, COMMAND))
    return _run_subcommand(rest, options, environ)


def _require_memory(*, is_run: bool) -> None:
    """Exit if the address space is too small: CPython 3.11 can loop forever if it cannot allocate an exception."""
    try:
        fd = os.open("/proc/self/limits", os.O_RDONLY | os.O_CLOEXEC)  # the module `resource` takes longer to import
    except OSError:
        return
    row = os.read(fd, 4096).partition(b"Max address space")[2].split(maxsplit=1)
    os.close(fd)
    if row and row[0].isdigit() and int(row[0]) < MIN_ADDRESS_SPACE:
        os.write(2, b"agent-dev: not enough memory: the limit is %d MiB, agent-dev needs 64\n" % (int(row[0]) >> 20))
        os.write(2, b"agent-dev: hint: raise the limit: ulimit -v\n")
        os._exit(AgentNotStarted.code if is_run else FAILURE)


def _run_subcommand(rest: list[str], options: RunOptions, environ: dict[str, str]) -> int:
    """Run a subcommand or an agent."""
    _refuse_run_options(rest[0], options)
    if rest[0] in ("tx", "work"):
        return _run_transaction(rest, options, environ)
    if rest[0] in _VERBS:
        from agent_dev.cli.commands.dispatch import run_verb  # argparse, json: not on the launch path

        return run_verb((_VERBS[rest[0]], rest[0]), rest[1:], options, environ)
    if rest[0] == "help":
        from agent_dev.cli import help_text  # rare

        if rest[1:] == ["--all"]:
            write_stdout(help_text.ALL)
            return 0
        return run(help_text.resolve_help(rest[1:], SUBCOMMANDS), environ)
    if rest[0] in RESERVED_VERBS:
        raise UsageError(
            message=f"`{rest[0]}` is not implemented yet",
            hint=f"agent-dev -- {rest[0]}",
        )
    if rest[0] == "run":
        return _run_named(rest[1:], options, environ)
    return _run_agent(RunRequest(tuple(rest), options, environ))


def _run_transaction(rest: list[str], options: RunOptions, environ: dict[str, str]) -> int:
    """Run `tx` or `work`, without argparse: they start as quickly as a run."""
    if rest[0] == "work":
        from agent_dev.cli import work  # imports bundles

        return work.run(rest[1:], environ)
    import_cache.import_start()
    from agent_dev.cli import tx  # not needed by a run

    return tx.run(rest[1:], options, environ)


def _refuse_run_options(word: str, options: RunOptions) -> None:
    """Raise UsageError if a subcommand is given an option of a run."""
    if word in _VERBS and word != "resume" and (options.record or options.detachable or options.detach):
        given = "--record FILE" if options.record else "--detach" if options.detach else "--detachable"
        name = given.partition(" ")[0]
        raise UsageError(message=f"{word}: {name} is only for a run and for resume", hint=f"agent-dev {given} resume")
    if options.worktree and word in SUBCOMMANDS and word not in ("run", "tx"):  # `tx` refuses it itself
        raise UsageError(message=f"{word}: --worktree is only for a new run", hint="agent-dev --worktree NAME AGENT")
    if options.name and word == "resume":
        raise UsageError(message="resume: --name is only for a new session", hint="agent-dev sessions rename SESSION NAME")


def _show_overview(options: RunOptions, environ: dict[str, str], *, is_command: bool) -> int:
    """Show the state of the repository. Raises UsageError if `--` or options of a run were given, but no agent."""
    if is_command or given_run_options(options):
        hint = "agent-dev -p PROMPT AGENT" if options.prompt else "agent-dev --help"
        raise UsageError(message=f"{'a command' if is_command else 'an agent'} is missing", hint=hint)
    _require_memory(is_run=False)
    from agent_dev.cli.commands.dispatch import run_verb  # imports what a run does not need

    return run_verb(("", "overview"), [], options, environ)


def _run_named(rest: list[str], options: RunOptions, environ: dict[str, str]) -> int:
    if rest[:1] in (["-h"], ["--help"]):
        from agent_dev.cli import help_text  # rare

        write_stdout(help_text.RUN)
        return 0
    rest, is_command, options = _parse_run(rest, options)
    return _run_agent(RunRequest(tuple(rest), options, environ, COMMAND if is_command else AGENT))


def _parse_run(rest: list[str], options: RunOptions) -> tuple[list[str], bool, RunOptions]:
    """Return an agent with its arguments, whether it is a command (`run -- COMMAND` is `-- COMMAND`), and the options."""
    while rest and rest[0].partition("=")[0] in ("--direct", "--detach"):
        name, separator, value = rest[0].partition("=")
        if separator and not value:
            raise UsageError(message=f"the value of {name} is empty", hint="agent-dev run --help")
        options = options.replace(direct=value or "auto") if name == "--direct" else options.replace(detach=True)
        rest = rest[1:]
    is_command = rest[:1] == ["--"]
    rest = rest[is_command:]
    if not rest:
        raise UsageError(message="run needs a profile", hint="agent-dev profiles")
    if rest[0].startswith("-") and not is_command:
        raise UsageError(message=f"run: unknown option {rest[0]}", hint="options of agent-dev come before `run`")
    return rest, is_command, options


def _run_agent(request: RunRequest) -> int:
    if request.options.worktree:
        from agent_dev.cli import worktree_run  # rare

        return worktree_run.run_in_work_tree(request, _run_agent)
    if may_detach(request.options, request.environ):
        from agent_dev.cli import detachable  # few runs

        return detachable.run(request, _run_to_end, guard, _review)
    request = request.replace(reviews_next=True)
    try:
        outcome = _run_to_end(request)
    except AgentNotInstalled as error:
        from agent_dev.cli import offer_install  # rare

        if not offer_install.offer_install(str(error.values["agent"]), request.options, request.environ):
            raise
        outcome = _run_to_end(request)
    if import_cache.can_be_renewed():
        _renew_import_cache()
    if outcome.limit_notice:
        warn(visible(outcome.limit_notice))
    if not outcome.is_kept:
        return outcome.exit_code
    return _review(outcome, request)


def _renew_import_cache() -> None:
    """Write the file of modules that a start needs, in a process that nobody waits for."""
    from agent_dev.fs.background_removal import run_in_background  # rare

    def work(_: int) -> None:
        os.closerange(3, 4096)  # includes our locks
        os.nice(10)
        import_cache.renew()

    run_in_background(work)


def _review(outcome: "RunOutcome", request: RunRequest) -> int:
    from agent_dev.cli.post_run_review import review_run  # not on the launch path

    return review_run(outcome, request)


def _run_to_end(request: RunRequest) -> "RunOutcome":
    try:
        import_cache.import_start()
        from agent_dev.run import run as command

        if request.options.name:
            from agent_dev.session import session_names  # rare

            session_names.require_unused_name(request.options, request.environ)
    except SYSTEM_ERRORS as error:
        raise agent_not_started(error) from None
    try:
        if request.options.direct:
            from agent_dev.direct import direct_run  # imports snapshots and the merge engine

            return direct_run.run_direct(request, warn)
        return command.run(request, notify)
    except UsageError as error:
        raise RunUsageError(message=error.message, hint=error.hint) from None
    except UnknownAgent as error:
        from agent_dev.cli import suggestions  # rare

        error.hint = suggestions.unknown_word_hint(request, SUBCOMMANDS)
        raise


def ensure_standard_streams() -> None:
    """Open /dev/null as stdin, stdout or stderr where one is closed, for this process and its children.

    Otherwise the next file opened, such as a journal, would get that number, and output would be written into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(number, True)
            stream = open(number, "w" if number else "r", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _flush(code: int, *, is_reported: bool) -> int:
    """Flush the output and return the exit code; `is_reported`: a failure of the output was already reported."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        return 141
    except OSError as error:
        if not is_reported:
            report_output_failure(error)
        return code or FAILURE
    return code


def _run_to_exit(argv: list[str], environ: dict[str, str]) -> int:
    """Run one command line and return the exit code, also if argparse exits after `--help`: the output is not flushed yet."""
    try:
        return run(argv, environ)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else SUCCESS


def main() -> None:
    """Run the program `agent-dev`. Never returns."""
    ensure_standard_streams()
    sys.stdout = open_output()
    code, is_reported = guard(lambda: _run_to_exit(sys.argv[1:], dict(os.environ)))
    if code == OUT_OF_MEMORY:  # here no frame holds the memory any more
        os.write(2, NO_MEMORY)
        os._exit(FAILURE)
    code = _flush(code, is_reported=is_reported)
    # Nothing is registered to run at exit, and finalizing the interpreter costs 2 ms.
    os._exit(code)
