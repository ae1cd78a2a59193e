"""Whole commands of real tools inside: `npm ci`, `cargo build`, `make`, and a PostgreSQL server with initdb and pgbench."""

import contextlib
import glob
import gzip
import io
import json
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import WorkingDirectory, remove, repository

TITLE = "Real tools"
_ROUNDS, _WITHIN = 7, 240.0  # seconds, for all tools
_FILES_EACH = 10  # of a package
_FUNCTIONS = 40  # of a module
_SERVER = """set -e
bin=$1
rm -rf db
"$bin/initdb" -D db -A trust --no-locale -E UTF8
"$bin/pg_ctl" -D db -w -o "-k /tmp -c listen_addresses=''" -l db/log start
"$bin/pgbench" -h /tmp -i -q -s 2 postgres
"$bin/pgbench" -h /tmp -c 2 -t 200 postgres
"$bin/pg_ctl" -D db -w stop
"""


@dataclass(frozen=True, slots=True)
class _Tool:
    """A command, its files, its output directory, and the maximum ratio to the command without a sandbox."""

    what: str
    words: tuple[str, ...]
    files: dict[str, bytes]
    left: str
    target: float


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure the installed tools."""
    packages, modules, units = measure.size((100, 12, 150), (2, 2, 3))
    tools, remarks = _tools(packages, modules, units)
    rows: list[Row] = []
    for number, tool in enumerate(tools):
        files = {**tool.files, ".gitignore": f"/{tool.left}/\n".encode()}
        repo = repository(workdir.folder / f"tools-{number}", workdir.env, files)
        with contextlib.chdir(repo):
            subjects = [_bare(tool, repo, workdir), _inside(tool, workdir)]
            found = measure.in_turns(subjects, _ROUNDS, 0, in_order=False, within=_WITHIN / len(tools))
        bare, inside = found["bare"]["took"], found["inside"]["took"]
        rows.append(Row(f"{tool.what}: no sandbox", measure.spread(bare)))
        against = "no sandbox"
        rows.append(Row(f"{tool.what}: agent-dev", measure.spread(inside), against, measure.ratio(inside, bare), tool.target))
    about = (
        f"From start to exit. {packages} packages of {_FILES_EACH} files, from tarballs in the repository; a crate of "
        f"{modules} modules without dependencies; {units} files of C, compiled two at a time, and linked; initdb, a server, "
        "pgbench with 200,000 rows and 400 transactions, in a directory of the repository. git ignores what they create."
    )
    return (Section(TITLE, about, tuple(rows), remarks),)


def _tools(packages: int, modules: int, units: int) -> tuple[list[_Tool], tuple[str, ...]]:
    """Return the tools that can be run here, and remarks on the others."""
    npm, cargo, make, cc = (shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") for name in ("npm", "cargo", "make", "cc"))
    servers = [os.path.dirname(path) for path in sorted(glob.glob("/usr/lib/postgresql/*/bin/pgbench"))]
    found, remarks = [], []
    if npm:
        options = ("--offline", "--no-audit", "--no-fund", "--ignore-scripts")
        found.append(_Tool("npm ci", (npm, "ci", *options), _packages(packages), "node_modules", 1.15))
    if cargo:
        found.append(_Tool("cargo build", (cargo, "build", "--offline", "--quiet"), _crate(modules), "target", 1.3))
    if make and cc:
        found.append(_Tool("make, of C files", (make, "--silent", "-j2"), _c_program(units), "built", 1.3))
    if servers and os.getuid():
        argv = ("/bin/sh", "server.sh", servers[-1])
        found.append(_Tool("initdb and pgbench", argv, {"server.sh": _SERVER.encode()}, "db", 1.3))
    elif servers:
        remarks.append("PostgreSQL was not measured: it refuses to be run as root.")
    present = {"npm": npm, "cargo": cargo, "make": make, "a C compiler": cc, "PostgreSQL": servers}
    remarks += [f"{name} was not measured: it is not installed." for name, found_at in present.items() if not found_at]
    return found, tuple(remarks)


def _bare(tool: _Tool, repo: Path, workdir: WorkingDirectory) -> Subject:
    def once() -> dict[str, float]:
        took = process.elapsed_time(tool.words, workdir.env)
        remove(repo / tool.left)
        return {"took": took}

    return Subject("bare", once)


def _inside(tool: _Tool, workdir: WorkingDirectory) -> Subject:
    env = workdir.env_with(workdir.bwraps[0])

    def once() -> dict[str, float]:
        took = process.elapsed_time((workdir.program, "--no-merge", "--name", "tool", "--", *tool.words), env)
        process.output((workdir.program, "discard", "tool"), env)
        process.output((workdir.program, "clean", "--all"), env)
        return {"took": took}

    return Subject("inside", once)


def _packages(count: int) -> dict[str, bytes]:
    """Return a package with tarballs as dependencies, and its lock file."""
    names = [f"p{number}" for number in range(count)]
    wanted = {name: f"file:packed/{name}.tgz" for name in names}
    root = {"name": "bench", "version": "1.0.0", "dependencies": wanted}
    locked: dict[str, object] = {"": root}
    for name in names:
        locked[f"node_modules/{name}"] = {"version": "1.0.0", "resolved": wanted[name]}
    lock = {"name": "bench", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": locked}
    files = {f"packed/{name}.tgz": _tarball(name) for name in names}
    return files | {"package.json": json.dumps(root).encode(), "package-lock.json": json.dumps(lock).encode()}


def _tarball(name: str) -> bytes:
    files = {"package/package.json": json.dumps({"name": name, "version": "1.0.0", "main": "lib/0.js"}).encode()}
    files |= {f"package/lib/{n}.js": f"exports.n = {n};\n".encode() * 60 for n in range(_FILES_EACH - 1)}
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _c_program(units: int) -> dict[str, bytes]:
    """Return a program of so many files, and its Makefile."""
    function = "int m{0}_f{1}(int n) {{ return n < {1} ? n * {1} : m{0}_f{1}(n - {0} - 1) + {1}; }}\n"
    files = {f"m{m}.c": "".join(function.format(m, f) for f in range(_FUNCTIONS)).encode() for m in range(units)}
    files["main.c"] = b"int m0_f0(int n);\nint main(int count, char **words) { return m0_f0(0 * count) * !words; }\n"
    objects = "$(patsubst %.c,built/%.o,$(wildcard *.c))"
    rules = f"built/program: {objects}\n\tcc -o $@ $^\nbuilt/%.o: %.c | built\n\tcc -O1 -c -o $@ $<\nbuilt:\n\tmkdir $@\n"
    return {**files, "Makefile": rules.encode()}


def _crate(modules: int) -> dict[str, bytes]:
    """Return a program of many small generic functions."""
    function = "pub fn f{0}<T: Clone + Into<u64>>(a: &[T]) -> u64 {{ a.iter().cloned().map(Into::into).sum::<u64>() * {0} }}\n"
    module = "".join(function.format(n) for n in range(_FUNCTIONS))
    calls = "".join(f"    n += m{m}::f{f}(&[1u8, 2]);\n" for m in range(modules) for f in range(_FUNCTIONS))
    main = "".join(f"mod m{m};\n" for m in range(modules)) + "fn main() {\n    let mut n = 0u64;\n" + calls
    files = {f"src/m{m}.rs": module.encode() for m in range(modules)}
    files["src/main.rs"] = (main + '    println!("{}", n);\n}\n').encode()
    return files | {"Cargo.toml": b'[package]\nname = "bench"\nversion = "1.0.0"\nedition = "2021"\n'}
