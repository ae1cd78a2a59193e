"""Install agents in the sandbox, in an empty directory, with the host's network. Only changes of the agent home are kept."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator

from agent_dev.agents.catalogue import Agent
from agent_dev.agents.install_script import install_command, newest_command
from agent_dev.agents.registries import find_registries
from agent_dev.config.options import RunOptions
from agent_dev.linux import users
from agent_dev.run import run
from agent_dev.run.job import RunOutcome
from agent_dev.run.request import COMMAND, RunRequest
from agent_dev.session import removal

_LARGEST_OUTPUT = 4096  # bytes


def install_agent(agent: Agent, version: str, options: RunOptions, environ: dict[str, str], notice: Callable[[str], None]) -> int:
    """Install an agent and run it with `--version`; return the exit code of both. Raises AgentDevError."""
    return _run_inside(agent, install_command(agent.entry, agent.program, version), options, environ, notice)


def newest_version(agent: Agent, options: RunOptions, environ: dict[str, str]) -> str:
    """Return the newest version of an agent's package; "" if it cannot be found out. Raises AgentDevError."""
    with _captured_stdout() as read:
        code = _run_inside(agent, newest_command(agent.entry), options, environ, lambda _: None)
        words = read().split()
    return words[-1].decode("utf-8", "replace") if words and not code else ""


def _run_inside(
    agent: Agent, command: tuple[str, ...], options: RunOptions, environ: dict[str, str], notice: Callable[[str], None]
) -> int:
    """Run a command in a session of an empty directory with an agent's home; what it writes there is not kept."""
    with tempfile.TemporaryDirectory(prefix="agent-dev-install-") as folder:
        own = find_registries(users.home_directory(environ), environ, options.ro)
        npmrc = _write_npmrc(f"{folder}/npmrc", own.npmrc)
        given = {word.partition("=")[0].upper() for word in options.env}
        if left_out := [name for name in own.left_out if name not in given]:
            notice(f"not passed, because they contain passwords or variables: {', '.join(left_out)}")
        inside = options.replace(
            directory=folder,
            home=agent.home,
            net="host",
            merge=False,
            name="",
            record="",
            env=(*own.env, *(f"NPM_CONFIG_USERCONFIG={path}" for path in npmrc), *options.env),
            ro=(*options.ro, *own.files),
        )
        outcome = run.run(RunRequest(command, inside, environ, COMMAND), notice)
        if outcome.is_kept:
            _remove(outcome)
        return outcome.exit_code


def _write_npmrc(path: str, text: str) -> tuple[str, ...]:
    """Write the settings of npm, if there are any, as a file of the session's directory; return its path."""
    if not text:
        return ()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return (path,)


def _remove(outcome: RunOutcome) -> None:
    removal.remove_session_now(outcome.session)


@contextlib.contextmanager
def _captured_stdout() -> Iterator[Callable[[], bytes]]:
    """Send the output of runs to a file for a while; the function returns what was written."""
    saved = os.dup(1)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 1)

            def read() -> bytes:
                file.seek(0)
                return file.read(_LARGEST_OUTPUT)

            yield read
    finally:
        os.dup2(saved, 1)
        os.close(saved)
