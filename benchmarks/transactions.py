"""Transactions: `agent-dev tx -- true` against `agent-dev -- true`, and `pip install` with and without a transaction."""

import base64
import contextlib
import hashlib
import io
import itertools
import shutil
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.process import PYTHON
from benchmarks.working_directory import WorkingDirectory, repository
from tests.harness.agents.web import Listener, QuietHandler, TestServer

TITLE = "Transactions"
LIMIT = 15.0  # ms more than a run
_INSTALLED = 1.03  # times the same without a transaction
_PACKAGES, _MODULES = measure.size((6, 100), (2, 2))
_BARE = "pip install, without agent-dev"
_OUTSIDE = ("agent-dev pip install", "agent-dev tx -- pip install")
_INSIDE = ("inside: pip install", "inside: tx pip install")
_TWICE = """import shutil, subprocess, sys, time
took, is_turned = {}, sys.argv[1] == "1"
for name in ("tx", "plain") if is_turned else ("plain", "tx"):
    before = ["tx"] if name == "tx" else []
    since = time.perf_counter()
    subprocess.run([*before, *sys.argv[2:], "--target", name], check=True)
    took[name] = (time.perf_counter() - since) * 1000
    shutil.rmtree(name)
print(took["plain"], took["tx"])
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure transactions with the first bubblewrap."""
    files = {f"src/part{n // 20}/file{n}.py": f"value = {n}\n".encode() * 50 for n in range(200)}
    repo = repository(workdir.folder / "transactions", workdir.env, files)
    bwrap = workdir.bwraps[0]
    env = workdir.env_with(bwrap)
    commands = {"agent-dev -- true": ("--", "true"), "agent-dev tx -- true": ("tx", "--", "true")}
    with contextlib.chdir(repo):
        subjects = [measure.program(name, (workdir.program, *arguments), env) for name, arguments in commands.items()]
        found = measure.in_turns(subjects, measure.rounds())
    run_alone, transaction = (found[name]["start"] for name in commands)
    more = measure.spread([one - other for one, other in zip(transaction, run_alone, strict=True)])
    rows = (
        Row("agent-dev -- true", measure.spread(run_alone)),
        Row("agent-dev tx -- true", measure.spread(transaction), "agent-dev -- true", measure.ratio(transaction, run_alone)),
        Row("the difference", more, limit=LIMIT),
    )
    start = Section(f"{TITLE}, bubblewrap {bwrap}", "From exec to exit, in a repository of 200 files.", rows)
    with _Index() as index, contextlib.chdir(repo):
        return start, _installed(workdir, env, index.url)


# An installation


def _installed(workdir: WorkingDirectory, env: dict[str, str], url: str) -> Section:
    """Measure `pip install` of packages from an index on this machine, each time into a new directory of the repository."""
    numbers = itertools.count()
    names = [f"left{number}" for number in range(_PACKAGES)]
    pip = (PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir", "--index-url", f"{url}/simple/")
    (workdir.folder / "inside.yaml").write_text("tx_inside: true\n")
    (workdir.folder / "transactions/twice.py").write_text(_TWICE)

    def outside(*before: str, is_merged: bool = True) -> dict[str, float]:
        target = f"lib{next(numbers)}"
        took = process.elapsed_time(("/usr/bin/env", *before, *pip, "--target", target, *names), env)
        if Path(target).is_dir() != is_merged:
            raise AssertionError(target)
        if is_merged:
            shutil.rmtree(target)
        else:
            process.output((workdir.program, "discard"), env)
        return {"took": took}

    def inside() -> dict[str, float]:
        argv = (workdir.program, "--config", str(workdir.folder / "inside.yaml"), "--no-merge", "--", PYTHON, "-I", "twice.py")
        times = process.output((*argv, str(next(numbers) % 2), *pip, *names), env)
        return {name: float(took) for name, took in zip(_INSIDE, times.split(), strict=True)}

    subjects = (
        Subject(_BARE, outside),
        Subject(_OUTSIDE[0], lambda: outside(workdir.program, "--no-merge", "--", is_merged=False)),
        Subject(_OUTSIDE[1], lambda: outside(workdir.program, "tx", "--include-risky", "--")),
        Subject("inside", inside),
    )
    found = measure.in_turns(subjects, measure.rounds(4), 1)
    figures = {name: found[name]["took"] for name in (_BARE, *_OUTSIDE)} | found["inside"]
    bare = measure.ratio(figures[_OUTSIDE[1]], figures[_BARE])
    rows = [Row(_BARE, measure.spread(figures[_BARE]))]
    for plain, ours in (_OUTSIDE, _INSIDE):
        rows.append(Row(plain, measure.spread(figures[plain])))
        ratio = measure.ratio(figures[ours], figures[plain])
        rows.append(Row(ours, measure.spread(figures[ours]), plain, ratio, _INSTALLED))
    about = f"{_PACKAGES} packages of {_MODULES} modules from an index on 127.0.0.1, compiled, into a new directory each time."
    about += f" The transaction with sandbox, review and merge takes {bare.median:.2f} times as long as pip alone."
    fastest = tuple(measure.fastest({name: figures[name] for name in pair}, pair[0]) for pair in (_OUTSIDE, _INSIDE))
    return Section(f"{TITLE}: pip install", about, tuple(rows), fastest)


class _Index(TestServer):
    """A simple index (PEP 503) and its wheels."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        super().__init__(_Listener(self))
        for number in range(_PACKAGES):
            name, wheel = f"left{number}", _wheel(f"left{number}")
            link = f"/files/{name}-1.0-py3-none-any.whl"
            self.files[link] = wheel
            page = f'<a href="{link}#sha256={hashlib.sha256(wheel).hexdigest()}">{link.rpartition("/")[2]}</a>'
            self.files[f"/simple/{name}/"] = page.encode()


class _Listener(Listener):
    def __init__(self, index: _Index) -> None:
        self.index = index
        super().__init__(_Handler)


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    server: _Listener

    def do_GET(self) -> None:
        data = self.server.index.files.get(self.path)
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Type", "text/html" if self.path.startswith("/simple/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")


def _wheel(name: str) -> bytes:
    info = f"{name}-1.0.dist-info"
    code = "".join(f"def f{n}(a, b={n}):\n    if a > b:\n        return [a + b * {n} for _ in range(b)]\n\n" for n in range(40))
    files = {f"{name}/m{number}.py": code for number in range(_MODULES)}
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: benchmarks\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = (
        "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items()) + f"{info}/RECORD,,\n"
    )
    archive_file = io.BytesIO()
    with zipfile.ZipFile(archive_file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return archive_file.getvalue()


def _digest(text: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
