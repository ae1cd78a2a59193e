"""The word that backs a directory up."""

import json
import os
import sys
import time

from agent_dev.backup import jobs as backup
from agent_dev.backup.jobs import Done, Terms
from agent_dev.cli.commands.parser import Parser, Verb, parser_of
from agent_dev.cli.main import say
from agent_dev.cli.render.format import line, numbered, size
from agent_dev.errors import DONE, PARTLY, UsageError
from agent_dev.run.prepare import Options
from agent_dev.sanitize import visible
from agent_dev.session.sessions import Here

_PAUSE = 1.0  # seconds between two lines of progress


def _backup(words: list[str], where: Here, _options: Options) -> int:
    args = _parser().parse_args(words)
    if not 0 < args.interval < 1 << 20:
        raise UsageError(message=f"backup: --interval {args.interval:g}: minutes, more than 0", hint="--interval 5")
    if args.keep < 0:
        raise UsageError(message=f"backup: --keep {args.keep}: how many, or 0 for all", hint="--keep 100")
    source, target = (os.path.join(where.cwd, path) for path in (args.source, args.to))
    terms = backup.checked(Terms(source, target, tuple(args.exclude), args.interval, args.keep))
    progress = _Progress().show if args.progress else lambda _files, _bytes: None

    def shown(done: Done | str) -> None:
        _show(done, as_json=args.json)
        sys.stdout.flush()

    if args.how == "every":
        backup.every(terms, progress, shown, skip_first=args.skip_first)
    done = backup.once(terms, progress)
    shown(done)
    return PARTLY if done.made and done.made.problems else DONE


def _parser() -> Parser:
    about = (
        "Back a directory up into one that is named by the time; what did not change is a hard link to the backup before.\n"
        "Nothing is written when nothing changed. A .backupignore at the top of DIR says what is left out, as .gitignore does."
    )
    parser = parser_of("backup", about, "agent-dev backup every ~/src/shop --to /mnt/backups/shop")
    parser.add_argument("how", choices=("once", "every"), metavar="once|every", help="once, or again and again until it is ended")
    parser.add_argument("source", metavar="DIR", help="what is backed up")
    parser.add_argument("--to", required=True, metavar="DIR", help="where the backups lie")
    parser.add_argument("--exclude", action="append", default=[], metavar="PATTERN", help="as a line of .backupignore")
    parser.add_argument("--interval", type=float, default=5, metavar="MIN", help="minutes between two (5)")
    parser.add_argument("--keep", type=int, default=100, metavar="N", help="so many, the older the sparser; 0: all (100)")
    parser.add_argument("--skip-first", action="store_true", help="with every: wait before the first one")
    parser.add_argument("--progress", action="store_true", help="say on stderr how far it is")
    parser.add_argument("--json", action="store_true", help="one JSON document a backup, each in a line of its own")
    return parser


class _Progress:
    """Says how far a backup is, once a second."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def show(self, files: int, copied: int) -> None:
        now = time.monotonic()
        if now - self._said >= _PAUSE:
            self._said = now
            say(f"{numbered(files, 'file')}, {size(copied)} copied")


def _show(done: Done | str, *, as_json: bool) -> None:
    if as_json:
        line(json.dumps({"version": 1, **_row(done)}))
    elif isinstance(done, str):
        say(visible(done))
    elif done.made is None:
        line("nothing changed since the last one")
    else:
        made = done.made
        files = numbered(made.files, "file")
        line(f"{visible(made.path)}  {files}, {made.linked:,} of them shared, {size(made.copied)} copied")
        for problem in made.problems:
            say(f"not as it should be: {visible(problem)}")
        for one in done.gone:
            line(f"let go: {visible(one.name)}")


def _row(done: Done | str) -> dict[str, object]:
    if isinstance(done, str):
        return {"backup": None, "failed": done}
    made, gone = done.made, [one.name for one in done.gone]
    if made is None:
        return {"backup": None, "gone": gone}
    numbers = {"files": made.files, "linked": made.linked, "copied": made.copied}
    return {"backup": made.name, "path": made.path, **numbers, "problems": list(made.problems), "gone": gone}


VERBS: dict[str, Verb] = {"backup": _backup}
