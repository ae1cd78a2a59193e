"""Run an agent in a new session: start the setup process at once, then everything else."""

from agent_dev.errors import SYSTEM_ERRORS, agent_not_started
from agent_dev.sandbox import launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.run.job import RunOutcome
    from agent_dev.run.request import Notice, PreparedRun, RunRequest


# Referenced until the program exits: freeing it and all that it refers to takes 0.5 ms, after a fork whose pages are copied then.
_LAST_SETUP: list[launch.SetupProcess] = []


def run(
    request: "RunRequest", notice: "Notice", before: "Callable[[PreparedRun], PreparedRun | None] | None" = None
) -> "RunOutcome":
    """Run an agent in a new session. `notice` shows a line to the user. Raises AgentDevError if it never started.

    `before`: called before anything starts; if it returns a PreparedRun, that one is run instead.
    """
    try:
        launch.close_inherited()
        # First, so that it creates namespaces and control groups while we plan.
        setup = launch.SetupProcess(terminal=request.terminal)
        _LAST_SETUP[:] = [setup]
    except SYSTEM_ERRORS as error:
        raise agent_not_started(error) from None
    try:
        begin_recording(setup, request)
        try:
            from agent_dev.run import new_session  # most of the launch path, while the setup process works
        except SYSTEM_ERRORS as error:
            raise agent_not_started(error) from None
        return new_session.start_and_wait(request, setup, notice, before)
    except BaseException:
        abandon(setup, request)
        raise


def begin_recording(setup: launch.SetupProcess, request: "RunRequest") -> None:
    """Begin the recording that a run asks for. Raises CannotStart."""
    if request.options.record:
        from agent_dev.sandbox.terminal import recording_file  # rare

        recording_file.begin(setup.terminal, request.options.record)


def abandon(setup: launch.SetupProcess, request: "RunRequest") -> None:
    """Kill the setup process of a run that did not start, and remove its empty recording."""
    setup.kill()
    if request.options.record:
        from agent_dev.sandbox.terminal import recording_file  # rare

        recording_file.remove_unused(setup.terminal, request.options.record)
