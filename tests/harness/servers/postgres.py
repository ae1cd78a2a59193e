"""A PostgreSQL server of the distribution, on 127.0.0.1 and on a socket file, for one test."""

import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "tester"
LIBRARY = Path("/usr/lib/postgresql")  # Debian has one directory per version

PATIENCE = 60  # seconds


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server that trusts every client: its port on 127.0.0.1, the directory of its socket file, user and database."""

    port: int
    socket_dir: Path
    pid: int
    user: str = USER
    database: str = "postgres"

    @property
    def socket(self) -> Path:
        """Return the path of the socket file."""
        return self.socket_dir / f".s.PGSQL.{self.port}"

    def psql(self, sql: str, *, by_socket: bool = False) -> list[str]:
        """Return a psql command line that prints the rows of a query unaligned, and fails if the query fails."""
        host = str(self.socket_dir) if by_socket else "127.0.0.1"
        place = ["-h", host, "-p", str(self.port), "-U", self.user, "-d", self.database]
        return ["psql", "-X", "-w", "-A", "-t", "-v", "ON_ERROR_STOP=1", *place, "-c", sql]


@contextmanager
def postgres(certificate: Path | None = None) -> Iterator[Postgres]:
    """Start a server with new data as an ordinary user; stop it and remove its data at the end.

    `certificate`: a file with a certificate and its key, for TLS.
    """
    if shutil.which("psql") is None:
        raise RuntimeError("psql is not installed")
    work = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        server = _start(work, certificate)
        try:
            yield server
        finally:
            _stop(server.pid)
    finally:
        shutil.rmtree(work)


def _start(work: Path, certificate: Path | None) -> Postgres:
    data, sockets, port = work / "data", work / "sockets", _free_port()
    sockets.mkdir()
    work.chmod(0o755)
    sockets.chmod(0o755)
    owner = _ordinary_user()
    for path in (work, sockets):
        os.chown(path, owner.pw_uid, owner.pw_gid)
    fresh = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    _run([_program("initdb"), "-D", data, *fresh], owner, work)
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={sockets} -c fsync=off"
    if certificate is not None:
        copy = Path(shutil.copy(certificate, work / "certificate.pem"))
        copy.chmod(0o600)
        os.chown(copy, owner.pw_uid, owner.pw_gid)
        options += f" -c ssl=on -c ssl_cert_file={copy} -c ssl_key_file={copy}"
    waiting: list[str | Path] = ["-w", "-t", str(PATIENCE), "-l", work / "log", "-o", options]
    _run([_program("pg_ctl"), "start", "-D", data, *waiting], owner, work)
    return Postgres(port, sockets, int((data / "postmaster.pid").read_text().splitlines()[0]))


def _stop(pid: int) -> None:
    """Stop a server with its connections, and wait until it has exited."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # the test stopped it
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGINT)
        if not select.select([pidfd], [], [], PATIENCE)[0]:
            signal.pidfd_send_signal(pidfd, signal.SIGQUIT)
            raise RuntimeError(f"PostgreSQL, process {pid}, did not exit within {PATIENCE} s")
    finally:
        os.close(pidfd)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _program(name: str) -> Path:
    """Return the path of a server program: of Debian's newest version, or the one in PATH."""
    versions = sorted(LIBRARY.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    found = versions[-1] if versions else shutil.which(name)
    if found is None:
        raise RuntimeError(f"PostgreSQL's {name} is neither in {LIBRARY} nor in PATH")
    return Path(found)


def _ordinary_user() -> pwd.struct_passwd:
    """Return the user to run the server: this one, or another one instead of root, which PostgreSQL refuses."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid())
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _run(argv: Sequence[str | Path], user: pwd.struct_passwd, cwd: Path) -> None:
    if os.getuid() == 0:
        switch = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
        argv = [*switch, *argv]
    # Files, not pipes: the server inherits them, and a pipe would stay open.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
        if done.returncode != 0:
            output.seek(0)
            raise RuntimeError(f"{' '.join(map(str, argv))}:\n{output.read().decode(errors='replace')}")
