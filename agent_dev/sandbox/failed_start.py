"""Find out why an agent never started: build the sandbox again and capture bubblewrap's output."""

import os

from agent_dev.errors import AgentDevError, BwrapFailed, CommandDoesNotStart
from agent_dev.sandbox import launch
from agent_dev.sandbox.failure_hints import bwrap_hint
from agent_dev.sandbox.plan import CONTROL, SandboxPlan


def explain_failed_start(plan: SandboxPlan, program: str, version: tuple[int, int, int], empty: str) -> AgentDevError:
    """Return the error of a sandbox in which the agent never started.

    Bubblewrap's message went to the user's terminal, so the same sandbox is built again around `true` with its output captured.
    If that works, the command itself could not be executed.
    """
    output, output_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((nothing, 0), (output_w, 1), (output_w, 2)):  # not the terminal: the user has it back
                os.dup2(source, target)
            _build_again(_without_services(plan).replace(command=("/bin/true",)), program, version, empty)
        finally:
            os._exit(0)
    os.close(output_w)
    with os.fdopen(output, "rb") as file:
        text = file.read().decode("utf-8", "replace").strip().removeprefix("bwrap: ")
    os.waitpid(pid, 0)
    if text:
        return BwrapFailed(message=text, hint=_hint(text))
    hint = "it is a dangling link, or its interpreter is missing, inside the sandbox"
    return CommandDoesNotStart(command=plan.command[0], hint=hint)


def _hint(text: str) -> str:
    """Return a hint for a message of bubblewrap's; in a container, all missing flags at once."""
    from agent_dev.sandbox.containers.outer_flags import missing_flags  # few starts fail

    flags = missing_flags()
    return f"start this container with {' '.join(flags)}" if flags else bwrap_hint(text)


def _without_services(plan: SandboxPlan) -> SandboxPlan:
    """Return a plan without the control socket, which is removed when its server ends."""
    return plan.replace(mounts=tuple(one for one in plan.mounts if one.target != CONTROL))


def _build_again(plan: SandboxPlan, program: str, version: tuple[int, int, int], empty: str) -> None:
    sandbox = launch.build_with_fallback(plan, program, version, empty, launch.SetupProcess())
    launch.start_agent(sandbox)
    launch.has_sandbox_ended(sandbox, 5000)
    launch.kill_sandbox(sandbox)
    launch.exit_code(sandbox)
    launch.reap(sandbox)
