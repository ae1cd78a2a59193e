"""The subcommand `tx --on`: transactions on other machines, with a table at the end."""

from agent_dev.cli import console
from agent_dev.cli.render import fleet as output
from agent_dev.errors import FAILURE, NOT_STARTED, SUCCESS, AgentDevError
from agent_dev.fleet import coordinator
from agent_dev.fleet.coordinator import FleetRequest
from agent_dev.fleet.places import parse_places
from agent_dev.fleet.task_table import TaskTable
from agent_dev.session import session_names, sessions
from agent_dev.transaction.result import MERGED, TransactionSpec


def run(lines: tuple[str, ...], own_options: dict[str, object], spec: TransactionSpec) -> int:
    """Run `agent-dev tx --many --on` and return the exit code. Raises AgentDevError if nothing ran."""
    table = run_tasks(lines, own_options, spec)
    for_review = bool(own_options["review"])
    results = [task.result for task in table.tasks]
    is_good = (any if own_options["first"] else all)(result is not None and result.state == MERGED for result in results)
    code = SUCCESS if is_good else FAILURE
    if own_options["json"]:
        console.write_stdout(output.table_as_json(table, code, for_review=for_review))
    else:
        output.print_table(table, for_review=for_review)
    return code


def run_tasks(lines: tuple[str, ...], own_options: dict[str, object], spec: TransactionSpec) -> TaskTable:
    """Run tasks on other machines and report the progress. The attempts of `--best` are not merged.

    Raises AgentDevError if nothing ran.
    """
    context = sessions.command_context(spec.request.options, spec.request.environ)
    _require_unused_names(len(lines), own_options, spec, context)
    jobs, retries = own_options["jobs"], own_options["retries"]
    request = FleetRequest(
        lines=lines,
        spec=spec,
        places=parse_places(str(own_options["on"]), context.profile.engines),
        jobs=jobs if isinstance(jobs, int) else 0,
        retries=retries if isinstance(retries, int) else 2,
        only_first=bool(own_options["first"]),
        for_review=bool(own_options["review"] or own_options["best"]),
        resumes=bool(own_options["resume"]),
        prefix="best" if own_options["best"] else "many",
    )
    reporter = output.FleetReporter()
    try:
        return coordinator.run_fleet(request, context, reporter)
    except AgentDevError as error:
        error.code = NOT_STARTED
        raise
    finally:
        reporter.close()


def _require_unused_names(
    count: int, own_options: dict[str, object], spec: TransactionSpec, context: sessions.CommandContext
) -> None:
    """Raise UsageError if an open session has the name of a task, unless an interrupted run goes on: it may be its own."""
    options = spec.request.options
    if not options.name or own_options["resume"]:
        return
    names = {f"{options.name}-{number}" for number in range(1, count + 1)}
    for one in sessions.sessions_of_repository(context):
        if one.name in names:
            session_names.require_unused_name(options.replace(name=one.name), spec.request.environ)
