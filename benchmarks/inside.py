"""Work inside: reading, stat, starting processes and `git status`, against the same inside `bwrap --overlay`."""

import contextlib
import itertools
import json
from pathlib import Path

from benchmarks import measure, process, workload
from benchmarks.measure import Row, Section, Subject
from benchmarks.process import PYTHON
from benchmarks.working_directory import Bwrap, WorkingDirectory, repository

TITLE = "Inside"
TARGET = 1.03  # times `bwrap --overlay`
_PASSES = 7
_PEER = "bwrap --overlay"


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure the work inside, if a bubblewrap can mount overlays."""
    bwrap = workdir.with_overlay
    about = (
        f"The fastest of {_PASSES} passes within one sandbox; a new sandbox each round. agent-dev has `policy: off`, because "
        "bubblewrap has no command policy; the default, `guard`, delays each start of a program "
        "([command policy](#the-command-policy))."
    )
    if bwrap is None:
        return (Section(TITLE, about, (), ("Not measured: set AGENT_DEV_BENCH_BWRAP to a bubblewrap ≥ 0.11.",)),)
    repo = _repository(workdir)
    with contextlib.chdir(repo):
        found = measure.in_turns(_subjects(bwrap, workdir, repo), measure.rounds(3), 1)
    rows = [row for label in found[_PEER] for row in _rows(label, found)]
    return (Section(f"{TITLE}, bubblewrap {bwrap}", about, tuple(rows)),)


def _rows(label: str, found: dict[str, measure.Figures]) -> list[Row]:
    peer = found[_PEER][label]
    rows = []
    for name, figures in found.items():
        is_peer, is_ours = name == _PEER, name.startswith("agent-dev")
        rows.append(
            Row(
                f"{label}: {name}",
                measure.spread(figures[label]),
                "" if is_peer else _PEER,
                None if is_peer else measure.ratio(figures[label], peer),
                TARGET if is_ours else None,
            )
        )
    return rows


def _repository(workdir: WorkingDirectory) -> Path:
    """Create 5,000 tracked files of 4 KiB, 20,000 ignored ones for stat, and the script."""
    line = b"the quick brown fox jumps over the lazy dog, again and again\n"
    files = {f"src/part{n // 100}/file{n}.txt": f"{n}\n".encode() + line * 66 for n in range(5000)}
    files[".gitignore"] = b"/many/\n"
    files["workload.py"] = Path(workload.__file__).read_bytes()
    for n in range(workload.STAT):
        files[f"many/{n // 200}/{n}"] = b""
    return repository(workdir.folder / "inside", workdir.env, files)


def _subjects(bwrap: Bwrap, workdir: WorkingDirectory, repo: Path) -> list[Subject]:
    script = (PYTHON, "-I", "-S", "-B", f"{repo}/workload.py", str(_PASSES))
    numbers = itertools.count()

    def peer() -> tuple[str, ...]:
        number = next(numbers)
        upper, work = workdir.folder / f"peer/{number}/upper", workdir.folder / f"peer/{number}/work"
        upper.mkdir(parents=True)
        work.mkdir()
        kernel = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
        overlay = ("--overlay-src", str(repo), "--overlay", str(upper), str(work), str(repo), "--chdir", str(repo))
        return (bwrap.path, *kernel, *overlay, *script)

    settings = workdir.folder / "inside.yaml"
    settings.write_text('policy: "off"\n')
    ours = (workdir.program, "--no-merge", "--config", str(settings), "--", *script)
    subjects = [
        Subject(_PEER, lambda: _timed(peer(), workdir.env)),
        Subject("agent-dev", lambda: _timed(ours, workdir.env_with(bwrap))),
        Subject("no sandbox", lambda: _timed(script, workdir.env)),
    ]
    if workdir.bwraps[0] is not bwrap:
        name = f"agent-dev with bubblewrap {workdir.bwraps[0]}"
        subjects.append(Subject(name, lambda: _timed(ours, workdir.env_with(workdir.bwraps[0]))))
    return subjects


def _timed(argv: tuple[str, ...], env: dict[str, str]) -> dict[str, float]:
    found = json.loads(process.output(argv, env))
    return {str(label): float(figure) for label, figure in found.items()}
