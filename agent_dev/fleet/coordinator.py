"""Run many transactions on other machines: prepare them, start the jobs, import what comes back, and merge it one by one."""

import os
import select
import time
from typing import Protocol

from agent_dev.errors import CommandFailed, UsageError
from agent_dev.fleet import jobs as parallel_jobs
from agent_dev.fleet import run_folder
from agent_dev.fleet.answer import WorkerGreeting, agree_on_protocol
from agent_dev.fleet.delivery import LOST, REFUSED, Delivery
from agent_dev.fleet.hosts import SourceRepository, prepare_places
from agent_dev.fleet.jobs import JobsRequest, ParallelJobs
from agent_dev.fleet.places import ENGINE_JOBS, Engine, JobEnd, Places, place_names
from agent_dev.fleet.run_folder import FleetRun
from agent_dev.fleet.task_table import Task, TaskState, TaskTable
from agent_dev.fleet.ticket import MAX_TICKET, Ticket, checkout_name, encode_ticket, is_sent_branch, sent_options
from agent_dev.merge import recover
from agent_dev.quick_dataclass import dataclass, field, replace
from agent_dev.run.request import COMMAND
from agent_dev.session import sessions
from agent_dev.session.sessions import CommandContext
from agent_dev.transaction import child_process
from agent_dev.transaction.job_batch import NOT_NEEDED
from agent_dev.transaction.result import EXIT_REFUSED, FAILED, MERGED, TransactionResult, TransactionSpec

_LOOK_INTERVAL = 0.1  # seconds between two looks at the files of GNU parallel


class Reporter(Protocol):
    """Shows what happens."""

    def message(self, task: Task, text: str) -> None:
        """Show a line that a task wrote. It is untrusted."""

    def finished(self, task: Task) -> None:
        """Show how a task ended."""

    def progress(self, table: TaskTable, seconds: float) -> None:
        """Show the progress on a terminal."""

    def warn(self, text: str) -> None:
        """Show a warning."""


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """Tasks, where they run, how many at a time on each host (0: one per processor), and what is merged.

    `lines`: commands for a shell. If the spec has a command, each task runs that one, and its line is only shown.
    """

    lines: tuple[str, ...]
    spec: TransactionSpec
    places: Places
    jobs: int = 0
    retries: int = 2
    only_first: bool = False
    for_review: bool = False  # merge nothing
    resumes: bool = False
    prefix: str = "many"  # of the sessions' names


@dataclass(slots=True)
class _FleetWork:
    request: FleetRequest
    context: CommandContext
    run: FleetRun
    delivery: Delivery
    reporter: Reporter
    table: TaskTable
    wake: int = -1  # readable when the user has interrupted
    started: float = field(default_factory=time.monotonic)
    is_over: bool = False  # the first has passed
    was_ended: bool = False  # interrupted by the user

    def finish(self, number: int, result: TransactionResult) -> None:
        """Finish a task in the table and report it."""
        before = self.table
        self.table = before.finish(number, result)
        if self.table is not before:
            self.reporter.finished(self.table.tasks[number])


def run_fleet(request: FleetRequest, context: CommandContext, reporter: Reporter) -> TaskTable:
    """Run all tasks and return the table. Raises AgentDevError if nothing ran."""
    program, source = parallel_jobs.find_parallel(context), SourceRepository(context)
    commit, branch = source.head()
    run = _open_run(request, context, commit, reporter)
    is_complete = False
    try:
        name = request.spec.request.options.name or f"{request.prefix}-{run.id[-4:]}"
        taken = frozenset(one.name for one in sessions.sessions_of_repository(context))
        delivery = Delivery(run, request.spec, context, name, taken)
        table = TaskTable(tuple(Task(number, line) for number, line in enumerate(request.lines)))
        work = _FleetWork(request, context, run, delivery, reporter, table)
        if request.resumes:
            _recall(work)
        jobs = _prepare(work, source, branch) if work.table.missing() else None
        with child_process.wake_on_signals() as work.wake:
            if jobs is not None:
                _run_jobs(work, program, jobs)
            _merge_arrived(work)
            is_complete = not _has_lost(work) and not work.was_ended
            _finish_rest(work)
        is_complete = is_complete or not run.events()
        return replace(work.table, is_resumable=not is_complete)
    finally:
        run.close(is_complete=is_complete or not run.events())


def _open_run(request: FleetRequest, context: CommandContext, commit: str, reporter: Reporter) -> FleetRun:
    if request.resumes:
        return run_folder.resume_run(context.store.path, context.root, request.lines)
    if run_folder.is_interrupted(context.store.path, context.root, commit, request.lines):
        reporter.warn("an earlier run of these tasks was interrupted; --resume runs only what is missing")
    return run_folder.start_run(context.store.path, context.root, commit, request.lines)


def _recall(work: _FleetWork) -> None:
    """Take over what an interrupted run has received and merged."""
    recover.recover_root(work.context.store, work.context.root, work.context.environ, work.reporter.warn)
    known = work.delivery.recall()
    for number, (result, is_finished) in known.items():
        work.table = work.table.finish(number, result) if is_finished else work.table.arrive(number, result)
    work.delivery.remove_unnoted(set(known))
    for number, path in work.delivery.sent_files(work.table.missing()):
        if work.table.tasks[number].result is None:
            _receive(work, number, path, is_final=False)


def _prepare(work: _FleetWork, source: SourceRepository, branch: str) -> JobsRequest:
    """Send the commit to the hosts, and return the jobs for the tasks without a result."""
    places = work.request.places
    tickets = tuple((number, _ticket(work, number, branch)) for number in work.table.missing())
    uncommitted = source.count_uncommitted()
    if uncommitted:
        work.reporter.warn(f"{uncommitted} uncommitted file{'s are' if uncommitted > 1 else ' is'} not sent to the workers")
    greetings = prepare_places(places, work.run.commit, source, work.context, work.reporter.warn)
    version, _ = agree_on_protocol(greetings)
    if isinstance(places, Engine) and not os.path.exists(f"{work.run.folder}/pack"):
        source.write_pack(work.run.commit, f"{work.run.folder}/pack")
    lines = tuple((number, encode_ticket(replace(ticket, version=version))) for number, ticket in tickets)
    return JobsRequest(lines, places, _jobs(work.request, greetings), work.request.retries)


def _run_jobs(work: _FleetWork, program: str, request: JobsRequest) -> None:
    folder = work.run.new_attempt(tuple(number for number, _ in request.tickets))
    running = parallel_jobs.start_jobs(program, folder, request, work.context)
    try:
        _watch(work, running)
    finally:
        running.stop()
    if running.process.returncode > 0 and not any(task.starts for task in work.table.tasks):
        raise CommandFailed(program="parallel", reason=running.last_error())


def _ticket(work: _FleetWork, number: int, branch: str) -> Ticket:
    """Return the ticket of a task. Raises UsageError if it is too long."""
    spec, root = work.request.spec, work.context.root
    command = spec.request.arguments
    below = os.path.relpath(work.context.cwd, root)
    ticket = Ticket(
        id=work.run.task_id(number),
        commit=work.run.commit,
        branch=branch if is_sent_branch(branch) else "",
        name=checkout_name(root),
        directory="" if below == "." else below,
        arguments=command or ("/bin/sh", "-c", work.request.lines[number]),
        kind=spec.request.kind if command else COMMAND,
        validations=spec.validations,
        timeout=spec.timeout,
        options=sent_options(spec.request.options),
        score=spec.score,
    )
    if len(encode_ticket(ticket)) >= MAX_TICKET:
        raise UsageError(message=f"tx: task {number + 1} is too long", hint=f"at most {MAX_TICKET >> 10} KiB")
    return ticket


def _jobs(request: FleetRequest, greetings: dict[str, WorkerGreeting]) -> dict[str, int]:
    if isinstance(request.places, Engine):
        return {request.places.name: request.jobs or ENGINE_JOBS}
    return {name: request.jobs or greeting.processors for name, greeting in greetings.items()}


def _watch(work: _FleetWork, running: ParallelJobs) -> None:
    """Follow the jobs until all have ended, or until the rest is not needed."""
    poll = select.poll()
    poll.register(running.pidfd, select.POLLIN)
    poll.register(work.wake, select.POLLIN)
    has_ended = False
    while not has_ended and not work.is_over:
        ready = {fd for fd, _ in poll.poll(_LOOK_INTERVAL * 1000)}
        has_ended = running.pidfd in ready
        for number, host in running.started():
            _start(work, number, host or place_names(work.request.places)[0])
        for number, text in running.messages():
            work.reporter.message(work.table.tasks[number], text)
        work.was_ended = work.was_ended or work.wake in ready
        if work.was_ended:
            break
        for number, end in running.ended():
            _take(work, running, number, end)
            work.reporter.progress(work.table, time.monotonic() - work.started)
        _merge_arrived(work)
        work.reporter.progress(work.table, time.monotonic() - work.started)
    work.table = work.table.stop()


def _start(work: _FleetWork, number: int, host: str) -> None:
    before = work.table.tasks[number]
    work.table = work.table.start(number, host)
    if before.starts and before.result is None:
        where = "" if host == before.host else f" on {host}"
        work.reporter.warn(f"task {number + 1}: no result from {before.host}; started again{where}")


def _take(work: _FleetWork, running: ParallelJobs, number: int, end: JobEnd) -> None:
    path = f"{running.folder}/out/{end.number}"
    limit = work.context.profile.max_bundle_mib << 20
    size = os.path.getsize(path) if os.path.exists(path) else 0
    if end.code == 0 or size >= limit:
        _receive(work, number, path, is_final=True)
    else:
        reason = running.last_message(end.number) or f"exited with status {end.code}"
        work.finish(number, TransactionResult(FAILED, EXIT_REFUSED, (), LOST, f"no result from the worker: {reason}"))
    if os.path.exists(path):
        os.truncate(path, 0)  # it was imported, or refused


def _receive(work: _FleetWork, number: int, path: str, *, is_final: bool) -> None:
    """Import what a worker sent; `is_final`: a bad bundle finishes the task."""
    result = work.delivery.receive(number, path)
    if result.cause == REFUSED and not is_final:
        return
    if result.state == MERGED and result.session and not work.request.for_review:
        work.table = work.table.arrive(number, result)
        return
    work.finish(number, result)
    work.is_over = work.is_over or (work.request.only_first and result.state == MERGED)


def _merge_arrived(work: _FleetWork) -> None:
    """Merge what can be merged now: in the order of the list, or with `only_first` the first one that can be merged."""
    while not work.was_ended:
        numbers = work.table.mergeable(in_order=not work.request.only_first)
        if not numbers:
            return
        number = numbers[0]
        result = work.table.tasks[number].result
        assert result is not None  # noqa: S101  (it has arrived)
        if work.is_over:
            work.delivery.discard(result)
            result = _not_needed(result)
            work.delivery.finish(number, result)
        else:
            result = work.delivery.merge(number, result, work.reporter.warn)
            work.is_over = work.request.only_first and result.state == MERGED
        work.finish(number, result)


def _not_needed(result: TransactionResult) -> TransactionResult:
    reason = "another transaction passed first"
    return result.replace(state=FAILED, code=EXIT_REFUSED, cause=NOT_NEEDED, reason=reason, session="")


def _has_lost(work: _FleetWork) -> bool:
    """Return whether a task has no result of its own, so that `--resume` can run it again."""
    causes = {task.result.cause if task.result else None for task in work.table.tasks}
    return not work.is_over and bool(causes & {None, LOST, REFUSED})


def _finish_rest(work: _FleetWork) -> None:
    """Give each other task a result; the journal does not have it, so `--resume` goes on with them."""
    for task in work.table.tasks:
        blank = task.result or TransactionResult(FAILED, EXIT_REFUSED, ())
        if task.state in (TaskState.WAITING, TaskState.RUNNING, TaskState.ARRIVED):
            interrupted = blank.replace(state=FAILED, code=EXIT_REFUSED, cause="signal", reason="interrupted before the merge")
            work.finish(task.number, _not_needed(blank) if work.is_over else interrupted)
