"""The words that end a session or go on with it."""

from agent_dev.cli.commands.parser import Verb, session_parser
from agent_dev.cli.main import say
from agent_dev.cli.render.format import line
from agent_dev.errors import DONE
from agent_dev.run.prepare import Options, Request
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here


def _discard(words: list[str], where: Here, _options: Options) -> int:
    args = session_parser("discard", "Put a session into the trash; nothing of it is merged.").parse_args(words)
    one = sessions.find(where, args.session, sessions.OPEN)
    place = sessions.discard(where, one)
    line(f"session {one.name} is in the trash: {place}")
    return DONE


def _stop(words: list[str], where: Here, _options: Options) -> int:
    args = session_parser("stop", "End a running session; what it holds is kept.").parse_args(words)
    one = sessions.find(where, args.session, (store.RUNNING,) if not args.session else sessions.OPEN)
    ended = sessions.stop(where, one)
    line(f"session {one.name} had changed nothing and is gone" if not ended.state else f"session {one.name} is {ended.state}")
    return DONE


def _resume(words: list[str], where: Here, options: Options) -> int:
    parser = session_parser("resume", "Run a session's agent again on what it left, or COMMAND instead of it.")
    parser.usage = "agent-dev resume [-h] [SESSION] [-- COMMAND [ARGS…]]"
    before, after = _split(words)
    args = parser.parse_args(before)
    one = sessions.find(where, args.session, (store.WAITING, store.KILLED))
    from agent_dev.cli.after_run import after_run

    request = Request(tuple(after), options, where.environ, is_command=bool(after))
    from agent_dev.run import resume

    outcome = resume.resume(sessions.hold(one), request, say)
    if outcome.why:
        say(visible(outcome.why))
    return after_run(outcome, request) if outcome.is_kept else outcome.code


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words before `--` and those after it."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


VERBS: dict[str, Verb] = {"discard": _discard, "stop": _stop, "resume": _resume}
