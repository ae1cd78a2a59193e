"""The subcommand `tx --best`: several attempts of one command; the one with the best score is proposed, or merged.

`tx --compare SESSION` shows those of an earlier run again.
"""

import os
import shlex

from agent_dev.cli import console, tx_many
from agent_dev.cli.render import best as output
from agent_dev.cli.render.transaction import print_result
from agent_dev.cli.screen import frontend
from agent_dev.errors import FAILURE, NOT_STARTED, SUCCESS
from agent_dev.quick_dataclass import replace
from agent_dev.run.finish import has_merge
from agent_dev.sanitize import visible
from agent_dev.session import session_names, sessions, store
from agent_dev.session.sessions import CommandContext
from agent_dev.transaction import child_process, job_batch, kept_attempts, measure_attempts, merge_attempt
from agent_dev.transaction.best import PROPOSED, BestChoice, select_best
from agent_dev.transaction.job_batch import TransactionBatch
from agent_dev.transaction.kept_attempts import BestRun
from agent_dev.transaction.result import MERGED, TransactionAttempt, TransactionResult, TransactionSpec
from agent_dev.transaction.score import format_score


def run(own_options: dict[str, object], spec: TransactionSpec) -> int:
    """Run `agent-dev tx --best` or `--compare` and return the exit code. Raises AgentDevError if nothing ran."""
    context = sessions.command_context(spec.request.options, spec.request.environ)
    if own_options["compare"]:
        attempts, best_run = kept_attempts.find_attempts(str(own_options["compare"]), context)
    else:
        results, hosts = (_run_on_hosts if own_options["on"] else _run_here)(own_options, spec, context)
        attempts = measure_attempts.measure_attempts(results, hosts, context)
        best_run = BestRun(len(attempts), spec.score, is_lowest=bool(own_options["lowest"]))
        kept_attempts.keep_attempts(attempts, best_run, context)
    choice = select_best(attempts, is_lowest=best_run.is_lowest)
    if own_options["merge"]:
        choice = _merge_best(choice, spec, context)
    state, code = _end(choice, is_merged=bool(own_options["merge"]))
    if own_options["json"]:
        facts = {"state": state, "exit": code, "score": best_run.command, "lowest": best_run.is_lowest}
        console.write_stdout(output.attempts_as_json(choice, facts))
        return code
    output.print_attempts(choice)
    if choice.best is None:
        return code
    if own_options["merge"]:
        print_result(choice.best.result)
        is_merged = choice.best.result.state == MERGED
    else:
        is_merged = bool(own_options["opens_review"]) and _is_reviewed(choice, spec, context)
    if is_merged:
        output.print_other_attempts(_names_of_others(choice, context))
    elif not own_options["merge"]:
        output.print_next_commands(choice)
    return code


def _names_of_others(choice: BestChoice, context: CommandContext) -> list[str]:
    """Return the names of the attempts that are waiting, of which nothing was merged."""
    waiting = {one.session.id for one in sessions.sessions_of_repository(context) if not has_merge(one.session)}
    return [one.name for one in choice.attempts if one.result.session in waiting]


def _merge_best(choice: BestChoice, spec: TransactionSpec, context: CommandContext) -> BestChoice:
    """Merge the best attempt as a transaction, if there is one; return the choice with the result of the merge."""
    best = choice.best
    if best is None:
        return choice
    session = store.Session(best.result.session, f"{context.store.sessions}/{best.result.session}")
    locked = TransactionAttempt(best.result, child_process.lock_session(session))
    merged = replace(best, result=merge_attempt.merge_result(locked, spec, console.notify))
    return replace(choice, attempts=tuple(merged if one is best else one for one in choice.attempts), best=merged)


def _is_reviewed(choice: BestChoice, spec: TransactionSpec, context: CommandContext) -> bool:
    """Let the user compare the attempts on the screen, if there is one; return whether an attempt was merged."""
    if not frontend.has_screen(context.environ):
        return False
    from agent_dev.cli.attempts import comparison  # imports the screen

    return comparison.compare_attempts(choice, context, spec.request.options.replace(merge=True))


def _end(choice: BestChoice, *, is_merged: bool) -> tuple[str, int]:
    """Return the state and the exit code."""
    if choice.best is not None:
        return (choice.best.result.state, choice.best.result.code) if is_merged else (PROPOSED, SUCCESS)
    is_started = any(one.result.cause != "not started" for one in choice.attempts)
    return ("failed", FAILURE) if is_started else ("not started", NOT_STARTED)


def _run_here(
    own_options: dict[str, object], spec: TransactionSpec, context: CommandContext
) -> tuple[tuple[TransactionResult, ...], tuple[str, ...]]:
    """Run the attempts on this machine; return their results, and "" for the host of each."""
    count = int(str(own_options["best"]))

    def report(number: int, result: TransactionResult, written: bytes) -> None:
        title = f"attempt {number + 1} of {count}: {_end_text(result)}"
        tx_many.show_output(title, written, as_json=bool(own_options["json"]))

    batch = TransactionBatch(_specs(count, spec), tx_many.count_jobs(own_options), for_review=True)
    return job_batch.run_batch(batch, context.store, console.notify, report), ("",) * count


def _end_text(result: TransactionResult) -> str:
    if result.score is not None:
        return f"score {format_score(result.score)}"
    return visible(result.reason) or "no changes"


def _specs(count: int, spec: TransactionSpec) -> tuple[TransactionSpec, ...]:
    """Return a spec for each attempt, with the name of its session. Raises UsageError if an open session has one of them."""
    name, request = spec.request.options.name or f"best-{os.urandom(2).hex()}", spec.request
    options = [request.options.replace(name=f"{name}-{number}") for number in range(1, count + 1)]
    for one in options:
        session_names.require_unused_name(one, request.environ)
    return tuple(spec.replace(request=request.replace(options=one)) for one in options)


def _run_on_hosts(
    own_options: dict[str, object], spec: TransactionSpec, _context: CommandContext
) -> tuple[tuple[TransactionResult, ...], tuple[str, ...]]:
    """Run the attempts on other machines; return their results and hosts."""
    from agent_dev.cli import tx_on  # imports bundles

    count = int(str(own_options["best"]))
    line = shlex.join(("tx", "--best", str(count), "--score", spec.score, "--", *spec.request.arguments))  # what --resume finds
    tasks = tx_on.run_tasks((line,) * count, own_options, spec).tasks
    results = tuple(task.result for task in tasks if task.result is not None)  # every task has one at the end
    return results, tuple(task.host for task in tasks)
