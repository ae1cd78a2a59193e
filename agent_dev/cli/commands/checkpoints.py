"""The words about a session's checkpoints."""

from agent_dev.checkpoint import checkpoint, rollback
from agent_dev.checkpoint import deleted_files as trash
from agent_dev.checkpoint import history as log
from agent_dev.cli.commands.parser import Verb, add_session, below, parser_of
from agent_dev.cli.main import say
from agent_dev.cli.render import checkpoints as output
from agent_dev.errors import DONE, PARTLY, UsageError
from agent_dev.run.prepare import Options
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here, Listed

_JSON = "one JSON document on stdout"


def _checkpoint(words: list[str], where: Here, _options: Options) -> int:
    about = "Keep what a session holds now, running or ended, so that it can be rolled back to."
    parser = parser_of("checkpoint", about, "agent-dev checkpoint -m 'before the big rename'")
    add_session(parser)
    parser.add_argument("-m", "--message", default="", metavar="TEXT", help="what to remember of it")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(words)
    one, is_held = _reached(where, args.session)
    try:
        made = checkpoint.take(one, message=args.message)
    finally:
        if is_held:
            store.let_go(one.session)
    output.taken(one, made, as_json=args.json)
    for problem in made.problems:
        say(f"not as it should be: {visible(problem)}")
    return DONE


def _reached(where: Here, name: str) -> tuple[Listed, bool]:
    """Return a session, held when it has ended, and whether it is."""
    one = sessions.find(where, name)
    return (one, False) if one.state == store.RUNNING else (sessions.hold(one), True)


def _checkpoints(words: list[str], where: Here, _options: Options) -> int:
    about = "The checkpoints of a session: when, why, how much changed since the one before."
    parser = parser_of("checkpoints", about, "agent-dev checkpoints --of src/main.py")
    add_session(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)
    parser.add_argument("--of", default="", metavar="FILE", help="what one file was in each of them")
    parser.add_argument("--bring", type=int, default=0, metavar="K", help="with --of: bring back what it was in checkpoint K")
    parser.add_argument("--thin", action="store_true", help="let go of those that need not be kept")
    parser.add_argument("--dry-run", action="store_true", help="with --thin: only say which")
    args = parser.parse_args(words)
    if (args.dry_run and not args.thin) or (args.bring and not args.of):
        words_of = "--dry-run goes with --thin" if args.dry_run else "--bring goes with --of FILE"
        raise UsageError(message=words_of, hint="agent-dev checkpoints --help")
    one = sessions.find(where, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if args.bring:
        return _roll_back(where, (args.session, args.bring), (args.of,), as_json=args.json)
    _tell_damaged(one)
    if args.thin:
        gone = checkpoint.thin(where, one, is_dry=args.dry_run)
        output.thinned(one, gone, is_dry=args.dry_run, as_json=args.json)
    elif args.of:
        output.versions(checkpoint.versions(one, below(args.of, where, one)), as_json=args.json)
    else:
        output.checkpoints(one, checkpoint.listed(one), as_json=args.json)
    return DONE


def _tell_damaged(one: Listed) -> None:
    for number in checkpoint.damaged(one):
        say(f"checkpoint {number} is damaged, and left out")


def _rollback(words: list[str], where: Here, _options: Options) -> int:
    about = (
        "Bring a session back to a checkpoint, or only some paths. The real tree is not touched, and a checkpoint is taken first."
    )
    parser = parser_of("rollback", about, "agent-dev rollback 3 src/main.py")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="its number (agent-dev checkpoints)")
    parser.add_argument("paths", nargs="*", default=[], metavar="PATH", help="only these, and what is below them")
    parser.add_argument("--session", default="", metavar="SESSION", help="an id or a --name; else the newest here")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(words)
    number = _number(args.checkpoint)
    return _roll_back(where, (args.session, number), tuple(args.paths), as_json=args.json)


def _roll_back(where: Here, what: tuple[str, int], typed: tuple[str, ...], *, as_json: bool) -> int:
    """Roll a session back, found by its name, to a checkpoint of that number, or only paths as typed."""
    name, number = what
    one = sessions.find(where, name)
    paths = tuple(below(path, where, one) for path in typed)
    if paths:
        checkpoint.require(one, paths, checkpoint.listed(one, number))
    if one.state == store.RUNNING:
        done = rollback.roll_back_live(one, number, paths)
    else:
        one = sessions.hold(one)
        try:
            done = rollback.roll_back(one, number, paths)
        finally:
            store.let_go(one.session)
    output.rolled_back(one, done, as_json=as_json)
    return PARTLY if done.problems else DONE


def _number(word: str) -> int:
    if not word.isdecimal():
        raise UsageError(message=f"rollback: {word!r} is no checkpoint's number", hint="agent-dev checkpoints lists them")
    return int(word)


def _log(words: list[str], where: Here, _options: Options) -> int:
    about = "What became of a session: its start, checkpoints, rollbacks, merges and end. A log that was changed is told."
    parser = parser_of("log", about, "agent-dev log --changes")
    add_session(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--commands", action="store_true", help="what the agent started, where a policy was on")
    what.add_argument("--changes", action="store_true", help="what changed from checkpoint to checkpoint")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(words)
    one = sessions.find(where, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if args.changes:
        _tell_damaged(one)
        output.changes(one, log.changes(one), as_json=args.json)
        return DONE
    told = log.commands(one) if args.commands else log.events(one)
    output.log(one, told, what="commands" if args.commands else "events", as_json=args.json)
    if told.problem:
        say(f"the log of session {one.name} is not as it was written: {told.problem}")
    return PARTLY if told.problem else DONE


def _trash(words: list[str], where: Here, _options: Options) -> int:
    about = "What was deleted in a session: of the repository, or of what the agent had made and a checkpoint still holds."
    parser = parser_of("trash", about, "agent-dev trash --bring src/main.py")
    add_session(parser)
    parser.add_argument("--bring", default="", metavar="PATH", help="bring PATH back, and all below it")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(words)
    one, is_held = _reached(where, args.session)
    try:
        _tell_damaged(one)
        if not args.bring:
            output.deleted(one, trash.deleted(one), as_json=args.json)
            return DONE
        done = trash.bring(one, below(args.bring, where, one))
    finally:
        if is_held:
            store.let_go(one.session)
    output.brought(one, done, as_json=args.json)
    return PARTLY if done.problems else DONE


VERBS: dict[str, Verb] = {
    "checkpoint": _checkpoint,
    "checkpoints": _checkpoints,
    "rollback": _rollback,
    "log": _log,
    "trash": _trash,
}
