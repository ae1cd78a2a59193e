"""The subcommand `backup`."""

import json
import os
import sys
import time
from contextlib import nullcontext

from agent_dev.backup import jobs
from agent_dev.backup.jobs import BackupJob, JobResult
from agent_dev.cli.console import notify, warn
from agent_dev.cli.parser import Parser, make_parser
from agent_dev.cli.render.format import print_line, print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.overlay.labels import format_count, format_size
from agent_dev.progress import show_progress
from agent_dev.sanitize import visible
from agent_dev.session.sessions import CommandContext

_PAUSE = 1.0  # seconds between two lines of progress


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `backup`."""
    args = _parser().parse_args(argv)
    if not 0 < args.interval < 1 << 20:
        raise UsageError(message=f"backup: --interval {args.interval:g} is not a positive number of minutes", hint="--interval 5")
    if args.keep < 0:
        raise UsageError(message=f"backup: --keep {args.keep} is negative; 0 keeps all", hint="--keep 100")
    source, target = (os.path.join(context.cwd, path) for path in (args.source, args.to))
    spec = jobs.check_job(BackupJob(source, target, tuple(args.exclude), args.interval, args.keep))
    progress = _Progress().show if args.progress else lambda _files, _bytes: None

    def report(done: JobResult | str) -> None:
        _show(done, as_json=args.json)
        sys.stdout.flush()

    if args.how == "every":
        jobs.back_up_periodically(spec, progress, report, skip_first=args.skip_first)
    with show_progress("backing up") if not args.progress else nullcontext():
        done = jobs.back_up_once(spec, progress)
    report(done)
    return FAILURE if done.problems else SUCCESS


def _parser() -> Parser:
    about = (
        "Back up a directory to a new one named after the time; unchanged files are hard links to the previous backup.\n"
        "If nothing changed, nothing is written. DIR/.backupignore excludes files; it has the syntax of .gitignore."
    )
    parser = make_parser("backup", about, "agent-dev backup every ~/src/shop --to /mnt/backups/shop")
    parser.add_argument("how", choices=("once", "every"), metavar="once|every", help="back up once, or periodically until killed")
    parser.add_argument("source", metavar="DIR", help="the directory to back up")
    parser.add_argument("--to", required=True, metavar="DIR", help="the directory for the backups")
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="exclude files that match PATTERN, as .backupignore does",
    )
    parser.add_argument("--interval", type=float, default=5, metavar="MIN", help="minutes between two backups (5)")
    parser.add_argument(
        "--keep", type=int, default=100, metavar="N", help="keep N backups, spaced wider as they get older; 0: all (100)"
    )
    parser.add_argument("--skip-first", action="store_true", help="with every: wait before the first backup")
    parser.add_argument("--progress", action="store_true", help="report progress on stderr")
    parser.add_argument("--json", action="store_true", help="print one line of JSON per backup")
    return parser


class _Progress:
    """Report the progress of a backup, at most once per second."""

    def __init__(self) -> None:
        self._reported = time.monotonic()

    def show(self, files: int, copied: int) -> None:
        now = time.monotonic()
        if now - self._reported >= _PAUSE:
            self._reported = now
            notify(f"{format_count(files, 'file')}, {format_size(copied)} copied")


def _show(done: JobResult | str, *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps({"version": 1, **_row(done)}))
        return
    if isinstance(done, str):
        warn(visible(done))
        return
    if done.backup is None:
        print_outcome("nothing changed since the last backup")
    else:
        new_backup = done.backup
        files = format_count(new_backup.files, "file")
        print_outcome(
            f"{visible(new_backup.path)}  {files}, {new_backup.linked:,} hard-linked, {format_size(new_backup.copied)} copied"
        )
    for problem in done.problems:
        warn(f"problem: {visible(problem)}")
    for one in done.removed:
        print_outcome(f"removed: {visible(one.name)}")


def _row(done: JobResult | str) -> dict[str, object]:
    if isinstance(done, str):
        return {"backup": None, "error": done}
    new_backup, removed = done.backup, [one.name for one in done.removed]
    if new_backup is None:
        return {"backup": None, "problems": list(done.problems), "removed": removed}
    numbers = {"files": new_backup.files, "linked": new_backup.linked, "copied": new_backup.copied}
    return {
        "backup": new_backup.name,
        "path": new_backup.path,
        **numbers,
        "problems": list(done.problems),
        "removed": removed,
    }
