"""The end of an attachment to a session: a message, or the review if its agent has ended."""

import os
import select

from agent_dev.cli.console import notify, warn
from agent_dev.cli.run_result import RunResult, kept_result, parse_result, remove_result
from agent_dev.config import load
from agent_dev.config.detach_key import TerminalKey, parse_detach_key
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.linux import users
from agent_dev.run.request import RunRequest
from agent_dev.sandbox.attaching import client
from agent_dev.sandbox.attaching.protocol import Greeting
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.run.job import RunOutcome
    from agent_dev.session.sessions import ListedSession

    Review = Callable[[RunOutcome, RunRequest], int]  # shows the changes of a run, and returns its exit code

_KILLED = 128 + 9


def keys_of(options: RunOptions, environ: dict[str, str]) -> tuple[TerminalKey, TerminalKey]:
    """Return the detach key of the settings."""
    request = load.SettingsRequest("", users.home_directory(environ), environ, options.config)
    return parse_detach_key(load.load_settings(request).profile.detach_key)


def finish_attachment(attachment: client.Attachment, greeting: Greeting, request: RunRequest, review: "Review") -> int:
    """Say how an attachment ended; if the agent has ended, review its changes. Return the exit code."""
    name = greeting.name
    if attachment.end == client.DETACHED:
        _end_line()
        notify(f"detached; agent-dev attach {name}")
        return SUCCESS
    if attachment.end == client.TAKEN:
        _end_line()
        notify(f"session {name} is attached to another terminal now")
        return SUCCESS
    if attachment.end == client.LOST:
        _end_line()
        warn(f"session {name}: its launcher was killed; agent-dev sessions")
        return _KILLED
    _wait_for_exit(greeting.launcher)
    return finish_run(parse_result(attachment.result), greeting.session, request, review)


def _end_line() -> None:
    """End the line at which the agent's output stopped, and clear what an agent without the alternate screen drew below it."""
    try:
        os.write(2, b"\n\x1b[J" if os.isatty(2) else b"\n")
    except OSError:
        return  # the terminal is gone


def _wait_for_exit(pid: int) -> None:
    """Wait until the launcher has exited, which holds the session's lock."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return  # it has exited
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll()
    os.close(fd)


def finish_run(result: RunResult, session: str, request: RunRequest, review: "Review") -> int:
    """Show the launcher's messages, and review the changes as after any run; return the agent's exit code."""
    for line in result.messages.splitlines():
        os.write(2, f"{visible(line)}\n".encode())
    if result.fields.get("limit_notice"):
        warn(visible(result.fields["limit_notice"]))
    if not (result.fields.get("changes") or result.fields.get("commits") or _is_kept(result)):
        return result.code
    from agent_dev.merge import session_access  # for a session with changes
    from agent_dev.session import sessions

    context = sessions.command_context(request.options, request.environ)
    locked = session_access.lock_ended(sessions.find_session(context, session))
    outcome = result.outcome(locked.session)
    remove_result(locked.session.folder)
    return review(outcome, request) if outcome else result.code


def _is_kept(result: RunResult) -> bool:
    return bool(result.fields.get("refs") or result.fields.get("kept_notice"))


def review_ended(one: "ListedSession", request: RunRequest, review: "Review") -> int | None:
    """Review a session whose agent ended while it was detached; None if it was reviewed already."""
    result = kept_result(one.session.folder)
    if result is None:
        return None
    notify(f"session {one.name} ended while it was detached, exit code {result.code}")
    return finish_run(result, one.session.id, request, review)
