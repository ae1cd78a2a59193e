"""The words of agent-dev beside running an agent: their arguments, what they call, and the exit code."""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from agent_dev import output, taking
from agent_dev.after import screen
from agent_dev.cli import say
from agent_dev.commands import export, merge, pick, recover, retention, sessions, undo
from agent_dev.commands.prepare import Options, Request
from agent_dev.commands.review import Review, open_review
from agent_dev.commands.sessions import Here, Listed
from agent_dev.core.commits import Commit
from agent_dev.core.merge import MergePlan
from agent_dev.errors import DONE, PARTLY, CannotStart, CommandFailed, RecoveryRequired, SessionBusy, UsageError
from agent_dev.host import commits, load, refs, store

Environ = dict[str, str]


class _Parser(argparse.ArgumentParser):
    """argparse that fails as the rest of the program does: one line, exit code 2."""

    def error(self, message: str) -> "None":  # type: ignore[override]
        raise UsageError(message=f"{self.prog.removeprefix('agent-dev ')}: {message}", hint=f"{self.prog} --help")


def _parser(verb: str, about: str, example: str) -> _Parser:
    return _Parser(
        prog=f"agent-dev {verb}",
        description=about,
        epilog=f"example:  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _status(words: list[str], where: Here, _options: Options) -> int:
    parser = _parser("status", "What a session holds: its changes with their risks, and its commits.", "agent-dev status --json")
    _add_session(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    one = sessions.find(where, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if one.state == store.RUNNING:
        raise SessionBusy(session=one.name, hint=f"agent-dev stop {one.name}, or wait until the agent has ended")
    with _opened(one, where) as review:
        made = _commits_of(review, where)
        counted = review.counted()
        output.status(replace(one, record=review.record), counted, made, as_json=args.json)
    return DONE


@contextmanager
def _opened(one: Listed, where: Here) -> Iterator[Review]:
    """Hold a session and open it; let go at the end."""
    held = sessions.hold(one)
    try:
        review = open_review(held.session, where.environ)
        try:
            yield review
        finally:
            review.close()
    finally:
        store.let_go(held.session)


def _commits_of(review: Review, where: Here) -> tuple[Commit, ...]:
    """Return a session's commits; when git cannot read them that is said, and hides nothing else."""
    try:
        return commits.made(review.session, review.record, where.environ)
    except CommandFailed as error:
        say(f"its commits cannot be read: {error.message}")
        return ()


def _diff(words: list[str], where: Here, _options: Options) -> int:
    parser = _parser("diff", "The changes of a session as a patch on stdout.", "agent-dev diff src/ | less -R")
    parser.usage = "agent-dev diff [-h] [--stat] [--blocks] [SESSION] [PATH…]"
    text = "a session's id or --name (else the newest here), then paths; all after -- are paths"
    parser.add_argument("words", nargs="*", metavar="[SESSION] [PATH…]", help=text)
    parser.add_argument("--stat", action="store_true", help="numbers instead of the patch")
    parser.add_argument("--blocks", action="store_true", help="with the numbers by which merge --take PATH:1,3 takes blocks")
    args = parser.parse_args(words)
    names = list(args.words)
    given = words[: words.index("--")] if "--" in words else words
    is_named = bool(names) and names[0] in given and sessions.is_session(sessions.listed(where.store), names[0]) is not None
    one = sessions.find(where, names.pop(0) if is_named else "")
    with _opened(one, where) as review:
        output.diff(review, taking.keys(names, review, where), is_stat=args.stat, with_blocks=args.blocks)
    return DONE


def _merge(words: list[str], where: Here, _options: Options) -> int:
    parser = _parser(
        "merge",
        "Bring chosen changes into the real tree. Without flags that choose: the screen.",
        "agent-dev merge --take src/ --take README.md:1,3",
    )
    _add_session(parser)
    taking.add_flags(parser)
    parser.add_argument("--atomic", action="store_true", help="merge nothing when something chosen is in conflict")
    parser.add_argument("--yes-delete-many", action="store_true", help="delete a large share of the tree's files")
    parser.add_argument("--export", default="", metavar="DIR|FILE.patch", help="write it there instead of merging it")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    with _opened(sessions.find(where, args.session), where) as review:
        if not taking.chooses(args):
            code = screen(review, where.store)
            retention.thin(where, say)
            return code
        chosen, asked = pick.choose(review, taking.wish(args, review, where))
        planned = merge.plan(review, chosen, asked)
        if args.export:
            return _export(review, planned, args.export)
        if not args.dry_run and not args.yes_delete_many:
            taking.guard(review, planned, where)
        stops = args.dry_run or (args.atomic and bool(planned.conflicts))
        merged = (
            merge.preview(review, planned) if stops else merge.carry_out(review, planned, where.store, say, is_atomic=args.atomic)
        )
        if args.atomic and planned.conflicts and not args.dry_run:
            merged = replace(merged, taken=())
        output.merged(merged, review, is_dry=args.dry_run, as_json=args.json)
        retention.thin(where, say)
        return PARTLY if merged.conflicts or ((args.take or args.patch) and not merged.taken) else DONE


def _export(review: Review, planned: MergePlan, target: str) -> int:
    roots = review.record["roots"]
    gone = export.export(review, planned, target, lambda key: os.fsencode(output.name(key, roots).lstrip("/")))
    output.exported(len(planned.taken), target, [output.name(key, roots) for key in gone])
    return PARTLY if planned.conflicts else DONE


def _undo(words: list[str], where: Here, _options: Options) -> int:
    about = "Take a merge back: what was there comes back, but for what you changed since; its changes are in the session again."
    parser = _parser("undo", about, "agent-dev undo")
    parser.add_argument("merge", nargs="?", default="", metavar="MERGE", help="the newest here when none is named")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    return _told(undo.undo(where, args.merge, say), as_json=args.json, word="undone")


def _redo(words: list[str], where: Here, _options: Options) -> int:
    parser = _parser("redo", "Do a merge again that was undone.", "agent-dev redo")
    parser.add_argument("merge", nargs="?", default="", metavar="MERGE", help="the one undone last when none is named")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    return _told(undo.redo(where, args.merge, say), as_json=args.json, word="merged again")


def _told(done: undo.Undone, *, as_json: bool, word: str) -> int:
    output.undone(done, as_json=as_json, word=word)
    return PARTLY if done.left else DONE


def _merges(words: list[str], where: Here, _options: Options) -> int:
    parser = _parser("merges", "What was merged here, newest last, and what of it stands.", "agent-dev merges")
    parser.add_argument("--all", action="store_true", help="of every repository")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    output.merges(undo.recorded(where, every=args.all), as_json=args.json, with_roots=args.all)
    return DONE


def _add_session(parser: _Parser) -> None:
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help="an id or a --name; else the newest here")


def _session_parser(verb: str, about: str) -> _Parser:
    parser = _parser(verb, about, f"agent-dev {verb}")
    _add_session(parser)
    return parser


def _discard(words: list[str], where: Here, _options: Options) -> int:
    args = _session_parser("discard", "Put a session into the trash; nothing of it is merged.").parse_args(words)
    one = sessions.find(where, args.session, sessions.OPEN)
    place = sessions.discard(where, one)
    output.line(f"session {one.name} is in the trash: {place}")
    return DONE


def _stop(words: list[str], where: Here, _options: Options) -> int:
    args = _session_parser("stop", "End a running session; what it holds is kept.").parse_args(words)
    one = sessions.find(where, args.session, (store.RUNNING,) if not args.session else sessions.OPEN)
    ended = sessions.stop(where, one)
    output.line(
        f"session {one.name} had changed nothing and is gone" if not ended.state else f"session {one.name} is {ended.state}"
    )
    return DONE


def _resume(words: list[str], where: Here, options: Options) -> int:
    parser = _session_parser("resume", "Run a session's agent again on what it left, or COMMAND instead of it.")
    parser.usage = "agent-dev resume [-h] [SESSION] [-- COMMAND [ARGS…]]"
    before, _, after = _split(words)
    args = parser.parse_args(before)
    one = sessions.find(where, args.session, (store.WAITING, store.KILLED))
    from agent_dev.after import after_run

    request = Request(tuple(after), options, where.environ, is_command=bool(after))
    from agent_dev.commands import resume

    outcome = resume.resume(sessions.hold(one), request, say)
    return after_run(outcome, request) if outcome.is_kept else outcome.code


def _split(words: list[str]) -> tuple[list[str], str, list[str]]:
    if "--" in words:
        at = words.index("--")
        return words[:at], "--", words[at + 1 :]
    return words, "", []


def _commits(words: list[str], where: Here, _options: Options) -> int:
    parser = _session_parser("commits", "The commits that the agent made: id and subject. They stay in the session for now.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    one = sessions.find(where, args.session)
    held = sessions.hold(one)
    try:
        made = commits.made(held.session, held.record, where.environ)
        output.commits(made, refs.moved(held.session, held.record), as_json=args.json)
    finally:
        store.let_go(held.session)
    return DONE


def _sessions(words: list[str], where: Here, _options: Options) -> int:
    parser = _parser("sessions", "Sessions of this repository that are running or wait for a merge.", "agent-dev sessions --all")
    parser.add_argument("--all", action="store_true", help="of every repository, merged ones too")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    output.sessions(sessions.of_root(where, every=args.all), as_json=args.json, with_roots=args.all)
    return DONE


def _show(words: list[str], where: Here, options: Options) -> int:
    from agent_dev.commands import show

    parser = _parser(
        "show",
        "What a run of AGENT would look like: values, their origins, the plan. Runs nothing.",
        "agent-dev show claude",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="AGENT [ARGS…]", help="as for a run")
    args = parser.parse_args(words)
    names = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not names:
        raise UsageError(message="show which agent?", hint="agent-dev show claude")
    shown = show.show(Request(tuple(names), options, where.environ, is_command=args.words[:1] == ["--"]))
    output.shown(shown, as_json=args.json)
    return DONE


def _profiles(words: list[str], where: Here, _options: Options) -> int:
    parser = _parser("profiles", "The profiles there are, or the text of one.", "agent-dev profiles claude")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="print this one")
    parser.add_argument("--json", action="store_true", help="the list as one JSON document on stdout")
    args = parser.parse_args(words)
    if args.json and args.name:
        raise UsageError(message="--json is for the list of profiles", hint=f"agent-dev show --json {args.name}")
    known = load.names(os.path.realpath(where.environ.get("HOME", "/")), where.environ)
    if args.name:
        path = next((path for name, path, _ in known if name == args.name), None)
        if path is None:
            raise UsageError(message=f"no profile {args.name}", hint=", ".join(name for name, _, _ in known))
        with open(path, encoding="utf-8") as file:
            sys.stdout.write(f"# {path}\n{file.read()}")
        return DONE
    output.profiles(known, as_json=args.json)
    return DONE


def _doctor(words: list[str], where: Here, options: Options) -> int:
    from agent_dev.commands import doctor  # it tries programs, and needs much for that

    parser = _parser("doctor", "What this machine can do, found by trying, and what to do about the rest.", "agent-dev doctor")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    findings = doctor.examine(where, options)
    output.findings(findings, as_json=args.json)
    return PARTLY if any(finding.is_wrong for finding in findings) else DONE


_TABLE: dict[str, Callable[[list[str], Here, Options], int]] = {
    "status": _status,
    "diff": _diff,
    "merge": _merge,
    "undo": _undo,
    "redo": _redo,
    "merges": _merges,
    "discard": _discard,
    "resume": _resume,
    "stop": _stop,
    "commits": _commits,
    "sessions": _sessions,
    "show": _show,
    "profiles": _profiles,
    "doctor": _doctor,
}


def run_verb(verb: str, words: list[str], options: Options, environ: Environ) -> int:
    """Carry out one word and return the exit code. Raises AgentDevError; the codes of a run are for runs alone."""
    gc.set_threshold(100_000)  # changes come by the ten thousand and hold no cycles: looking for some takes a tenth of a merge
    try:
        where = sessions.here(options, environ)
        _recover(verb, where)
        return _TABLE[verb](words, where, options)
    except CannotStart as error:
        if verb != "resume":
            error.code = PARTLY
        raise


def _recover(verb: str, where: Here) -> None:
    """Bring to rest what was interrupted here; what is not understood stops only what would build on it."""
    try:
        recover.recover_here(where.store, where.root, where.environ, say)
    except RecoveryRequired as error:
        if verb in ("merge", "redo", "resume"):
            raise
        say(error.message)
        say(f"→ {error.hint}")
