"""Container images of programs that are installed here, as tar files for `podman import`: no registry is asked."""

import os
import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

POSTGRES = Path("/usr/lib/postgresql")  # Debian has one directory per version
_TOOLS = ("/bin/sh", "/bin/cat", "/bin/ls", "/usr/bin/id", "/bin/sleep")
_FOLDERS = ("tmp", "proc", "sys", "dev", "etc", "var/lib/postgresql/data")
_ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\npostgres:x:999:999::/var/lib/postgresql:/bin/sh\n",
    "etc/group": "root:x:0:\npostgres:x:999:\n",
}
_START = """\
#!/bin/sh
set -e
cd /tmp
data=/var/lib/postgresql/data/db
{bin}/initdb -N -U postgres -A trust -D $data
echo 'host all all all trust' >>$data/pg_hba.conf
exec {bin}/postgres -D $data -h '*' -k /tmp -c fsync=off
"""


def make_tools_image(path: Path) -> None:
    """Write an image of a shell and a few tools."""
    with tarfile.open(path, "w") as tar:
        _add_base(tar)
        _add_programs(tar, _TOOLS)


def make_postgres_image(path: Path) -> None:
    """Write an image of Debian's PostgreSQL; its program /start makes a database and serves it on port 5432."""
    version = max(POSTGRES.iterdir(), key=lambda folder: int(folder.name))
    binaries = version / "bin"
    with tarfile.open(path, "w") as tar:
        _add_base(tar)
        _add_programs(tar, (*_TOOLS, *(str(binaries / name) for name in ("initdb", "postgres"))))
        tar.add(f"/usr/share/postgresql/{version.name}", f"usr/share/postgresql/{version.name}")
        for name in ("plpgsql.so", "dict_snowball.so"):
            tar.add(version / "lib" / name, str(version / "lib" / name)[1:])
        tar.add("/usr/share/zoneinfo/UTC", "usr/share/zoneinfo/UTC")
        _add_text(tar, "start", _START.format(bin=binaries), 0o755)


def _add_base(tar: tarfile.TarFile) -> None:
    for name in _FOLDERS:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(entry)
    for name, text in _ACCOUNTS.items():
        _add_text(tar, name, text, 0o644)


def _add_text(tar: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    from io import BytesIO

    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text), mode
    tar.addfile(entry, BytesIO(text.encode()))


def _add_programs(tar: tarfile.TarFile, programs: Iterable[str]) -> None:
    """Add programs with the libraries that they need."""
    libraries = (path for program in programs for path in _libraries(program))
    for path in dict.fromkeys((*programs, *libraries)):
        tar.add(os.path.realpath(path), path[1:])


def _libraries(program: str) -> list[str]:
    shown = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return re.findall(r"/\S+(?= \()", shown)
