"""The cost of writing and importing a bundle of many files, in processor time."""

import io
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_dev.bundle import importing
from agent_dev.bundle.export import SessionExport
from agent_dev.overlay import lower_snapshot_take
from agent_dev.overlay.lower_snapshot_request import SnapshotRequest
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from benchmarks import measure
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Bundles"
_DIRECTORIES, _FILES, _LIMIT = 100, 99, 1000.0  # 10,000 entries; ms
_GIT = "/usr/bin/git"
_MEMORY = "/dev/shm"


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Export and import sessions with 10,000 new entries, and with 10,000 entries of which git has the base versions."""
    with _fast_folder(workdir) as folder:
        (folder / "empty").mkdir()
        names = [name for name, _ in _files("")]
        edited = repository(folder / "edited", workdir.env, {name: f"base of {name}\n".encode() for name in names})
        subjects = [
            Subject("new", lambda: _once(workdir, folder, SnapshotRequest(roots=(f"{folder}/empty",)))),
            Subject("edited", lambda: _once(workdir, folder, _git_request(edited, workdir))),
        ]
        found = measure.in_turns(subjects, measure.rounds(4))
        rows = tuple(
            Row(f"{what} of {name} entries", measure.spread(figures), limit=_LIMIT)
            for name, by_what in found.items()
            for what, figures in by_what.items()
        )
        where = "in memory" if str(folder).startswith(_MEMORY) else "on the disk"
    about = "Processor time for a session with 10,000 entries, in ms. Git tracks the edited files."
    return (Section(TITLE, about, rows, (f"All files were {where}.",)),)


@contextmanager
def _fast_folder(workdir: WorkingDirectory) -> Iterator[Path]:
    """Yield a folder in memory if it can hold attributes, else on the disk.

    ext4 searches for inodes that were not deleted recently, which after some rounds takes most of the time there.
    """
    with TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else workdir.folder, prefix="agent-dev-bench-") as name:
        try:
            os.setxattr(name, "user.agent-dev", b"")
        except OSError:
            with TemporaryDirectory(dir=workdir.folder) as other:
                yield Path(other)
            return
        yield Path(name)


def _git_request(root: Path, workdir: WorkingDirectory) -> SnapshotRequest:
    return SnapshotRequest(roots=(str(root),), git=f"{root}/.git", program=_GIT, environ=dict(workdir.env))


def _files(text: str) -> Iterator[tuple[str, str]]:
    for number in range(_DIRECTORIES):
        for name in range(_FILES):
            yield f"{number}/{name}", f"{text} {number} {name}\n"


def _used() -> float:
    return sum(one.ru_utime + one.ru_stime for one in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _once(workdir: WorkingDirectory, folder: Path, request: SnapshotRequest) -> dict[str, float]:
    (root,) = request.roots
    with TemporaryDirectory(dir=folder) as state:
        context = CommandContext(store.Store(f"{state}/state"), root, root, dict(workdir.env))
        session = _session(context, request)
        start = _used()
        data = io.BytesIO()
        export = SessionExport(session, store.read_record(session), context.environ)
        export.write(export.collect(), b"", data)
        export.close()
        middle = _used()
        data.seek(0)
        importing.import_bundle(importing.open_bundle(data, lambda *_: ""), context, importing.ImportRequest())
        took = {"bundle": (middle - start) * 1000, "import": (_used() - middle) * 1000}
        store.unlock_session(session)
        return took


def _session(context: CommandContext, request: SnapshotRequest) -> store.Session:
    session = store.create_session(context.store)
    upper = Path(store.add_root(session, 0, context.root).upper)
    lower_snapshot_take.take_snapshot(session.lower_snapshot, request)
    for number in range(_DIRECTORIES):
        (upper / str(number)).mkdir()
    for name, text in _files("text"):
        (upper / name).write_text(text)
    record: store.Record = {**store.BLANK, "state": store.WAITING, "root": context.root, "roots": [context.root]}
    store.write_record(session, record)
    return session
