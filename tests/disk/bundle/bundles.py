"""Bundles of sessions that were created on disk without a sandbox, and their import over a copy of the root."""

import io
import subprocess
from pathlib import Path

from agent_dev.bundle import importing
from agent_dev.bundle.archive import BLOCK, END, MANIFEST, header
from agent_dev.bundle.export import SessionExport
from agent_dev.fs import checksummed_json
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from tests.harness.ended_session import ENVIRON, EndedSession


def exported(session: EndedSession, signature: bytes = b"") -> bytes:
    """Return the bundle of a session."""
    export = SessionExport(session.session, store.read_record(session.session), ENVIRON)
    try:
        return bundle_of(export, signature).getvalue()
    finally:
        export.close()


def bundle_of(export: SessionExport, signature: bytes = b"") -> io.BytesIO:
    """Return the bundle of an open export, to be read from its start."""
    out = io.BytesIO()
    export.write(export.collect(), signature, out)
    out.seek(0)
    return out


def context_at(root: Path, state: Path) -> CommandContext:
    """Return the context of a command in a root without git."""
    return CommandContext(store.Store(str(state)), str(root), str(root), ENVIRON)


def imported(data: bytes, context: CommandContext, find_signer: importing.FindSigner = lambda *_: "somebody") -> store.Session:
    """Import a bundle."""
    bundle = importing.open_bundle(io.BytesIO(data), find_signer)
    return importing.import_bundle(bundle, context, importing.ImportRequest())


def reopened(session: store.Session, context: CommandContext) -> EndedSession:
    """Return an imported session, locked."""
    one = EndedSession.__new__(EndedSession)
    one.real, one.store, one.session = Path(context.root), context.store, store.lock_session(session)
    return one


def copied_root(real: Path, copy: Path) -> Path:
    """Copy a root exactly, as another clone has it."""
    subprocess.run(["cp", "-a", real, copy], check=True)
    return copy


def members(data: bytes) -> list[tuple[str, bytes]]:
    """Return the members of a good bundle."""
    found, at = [], 0
    while data[at : at + len(END)] != END:
        name, size = data[at : at + 100].rstrip(b"\0").decode(), int(data[at + 124 : at + 135], 8)
        found.append((name, data[at + BLOCK : at + BLOCK + size]))
        at += BLOCK + size + -size % BLOCK
    return found


def joined(parts: list[tuple[str, bytes]]) -> bytes:
    """Return a bundle of these members."""
    return b"".join(header(name, len(data)) + data + bytes(-len(data) % BLOCK) for name, data in parts) + END


def with_manifest(data: bytes, value: object) -> bytes:
    """Return a bundle with another manifest, its checksum renewed."""
    return joined([(MANIFEST, checksummed_json.dumps(value)), *members(data)[1:]])  # type: ignore[arg-type]
