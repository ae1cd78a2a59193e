"""The cost of writing and importing a bundle of many files, in processor time."""

import io
import resource
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_dev.bundle import importing
from agent_dev.bundle.export import SessionExport
from agent_dev.overlay import lower_snapshot_request, lower_snapshot_take
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from benchmarks import measure
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import WorkingDirectory

TITLE = "Bundles"
_DIRECTORIES, _FILES, _LIMIT = 100, 99, 1000.0  # 10,000 entries; ms


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Export and import a session with 10,000 new entries."""
    found = measure.in_turns([Subject("bundle", lambda: _once(workdir))], measure.rounds(4))["bundle"]
    rows = tuple(Row(name, measure.spread(found[name]), limit=_LIMIT) for name in found)
    return (Section(TITLE, "Processor time for a session with 10,000 entries, in ms.", rows),)


def _used() -> float:
    return sum(one.ru_utime + one.ru_stime for one in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _once(workdir: WorkingDirectory) -> dict[str, float]:
    with TemporaryDirectory(dir=workdir.folder) as folder:
        root = Path(folder) / "root"
        root.mkdir()
        context = CommandContext(store.Store(f"{folder}/state"), str(root), str(root), dict(workdir.env))
        session = _session(context)
        start = _used()
        data = io.BytesIO()
        export = SessionExport(session, store.read_record(session), context.environ)
        export.write(export.collect(), b"", data)
        export.close()
        middle = _used()
        data.seek(0)
        importing.import_bundle(importing.open_bundle(data, lambda *_: ""), context, importing.ImportRequest())
        store.unlock_session(session)
        return {"bundle": (middle - start) * 1000, "import": (_used() - middle) * 1000}


def _session(context: CommandContext) -> store.Session:
    session = store.create_session(context.store)
    upper = Path(store.add_root(session, 0, context.root).upper)
    lower_snapshot_take.take_snapshot(session.lower_snapshot, lower_snapshot_request.SnapshotRequest(roots=(context.root,)))
    for number in range(_DIRECTORIES):
        (upper / str(number)).mkdir()
        for name in range(_FILES):
            (upper / f"{number}/{name}").write_text(f"text {number} {name}\n")
    record: store.Record = {**store.BLANK, "state": store.WAITING, "root": context.root, "roots": [context.root]}
    store.write_record(session, record)
    return session
