"""Run an agent in a session that can be detached (docs/decisions/0046-detachable-sessions.md).

The process that the shell started becomes the first client; the launcher is its child, in a session of its own, and stays.
"""

import _socket
import os
import select

from agent_dev.cli.attachment import finish_attachment, keys_of
from agent_dev.cli.console import notify
from agent_dev.cli.run_result import keep_result, make_result
from agent_dev.config.detachable import is_foreground_terminal
from agent_dev.errors import FAILURE, AgentNotInstalled, UsageError
from agent_dev.fs import fast_json
from agent_dev.linux import signals
from agent_dev.run.request import RunRequest
from agent_dev.sandbox.attaching import client, protocol
from agent_dev.sandbox.attaching.host_terminal import HostTerminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.cli.attachment import Review
    from agent_dev.run.job import RunOutcome

    Start = Callable[[RunRequest], RunOutcome]
    Guard = Callable[[Callable[[], int]], tuple[int, bool]]

_MISSING = b"m"  # from the launcher: the agent is not installed
_FORWARDED = (signals.INT, signals.QUIT, signals.TERM)


def run(request: RunRequest, start: "Start", guard: "Guard", review: "Review") -> int:
    """Run an agent until it ends or the user detaches; return its exit code, 0 when detached.

    `start` runs it to its end, in the launcher; `guard` reports the errors of a call and returns its exit code;
    `review` shows the changes if the agent has ended.
    """
    options = request.options
    if options.record:
        raise UsageError(message="--record cannot be combined with a session that is detached", hint="drop one of the options")
    if not options.detach and not (is_foreground_terminal(0) and is_foreground_terminal(1)):
        raise UsageError(message="--detachable needs a terminal, in the foreground", hint="agent-dev --detach AGENT needs none")
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, protocol.KIND)
    pid = os.fork()
    if pid == 0:
        ours.close()
        code = FAILURE
        try:
            code = _Launcher(request, theirs).run(start, guard)
        finally:
            os._exit(code)
    theirs.close()
    try:
        return _follow(ours, pid, request, review)
    except AgentNotInstalled as error:
        from agent_dev.cli import offer_install  # rare

        if not offer_install.offer_install(str(error.values["agent"]), options, request.environ):
            raise
    return run(request, start, guard, review)


class _Launcher:
    """The launcher's process."""

    def __init__(self, request: RunRequest, connection: _socket.socket) -> None:
        self._request, self._connection = request, connection
        self._outcome: RunOutcome | None = None

    def run(self, start: "Start", guard: "Guard") -> int:
        """Run the agent and report the result; return the exit code."""
        os.setsid()
        terminal = None

        def call() -> int:
            nonlocal terminal
            terminal = HostTerminal(self._connection)
            try:
                self._outcome = start(self._request.replace(terminal=terminal))
            except AgentNotInstalled as error:
                self._connection.send(_MISSING + fast_json.dumps({**error.values, "hint": error.hint}))
                return error.code
            return self._outcome.exit_code

        code = max(guard(call)[0], 0) or (0 if self._outcome else FAILURE)
        if terminal is not None:
            result = make_result(code, terminal.own_messages(), self._outcome)
            if self._outcome and self._outcome.is_kept:
                keep_result(self._outcome.session.folder, result)
            terminal.send_result(result.encode())
        return code


def _follow(connection: _socket.socket, pid: int, request: RunRequest, review: "Review") -> int:
    """Attach to the session when it has started. Raises AgentNotInstalled."""
    saved = [(number, signals.catch(number, lambda n, _: os.kill(pid, n))) for number in _FORWARDED]
    try:
        message, greeted = _wait_for_start(connection, pid)
    finally:
        for number, action in saved:
            signals.restore(number, action)
    if message[:1] == _MISSING:
        os.waitpid(pid, 0)
        values = fast_json.loads(message[1:])
        raise AgentNotInstalled(**values) if isinstance(values, dict) else AgentNotInstalled()
    if greeted is None:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if request.options.detach:
        attachment = _wait_until_running(connection)
        if attachment.end == client.DETACHED:
            name = greeted.greeting.name
            notify(f"session {name} is running, detached; agent-dev attach {name}")
            return 0
    else:
        attachment = client.attach(greeted, keys_of(request.options, request.environ), is_first=True)
    return finish_attachment(attachment, greeted.greeting, request, review)


def _wait_for_start(connection: _socket.socket, pid: int) -> tuple[bytes, client.ServerConnection | None]:
    """Return the first message, and the connection if it is a greeting; b"" and None if the launcher has exited."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    poll.register(os.pidfd_open(pid), select.POLLIN)
    ready = dict(poll.poll())
    if not ready.get(connection.fileno(), 0) & select.POLLIN:
        return b"", None
    return client.receive_greeting(connection)


def _wait_until_running(connection: _socket.socket) -> client.Attachment:
    """Return an attachment that is detached once the agent runs, or that has ended."""
    while message := connection.recv(protocol.MAX_MESSAGE):
        if message == protocol.RUNNING:
            connection.close()
            return client.Attachment(client.DETACHED)
        if message == protocol.END:
            connection.send(protocol.OUTPUT_DONE)
        if message[:1] == protocol.RESULT:
            return client.Attachment(client.ENDED, message[1:])
    return client.Attachment(client.LOST)
