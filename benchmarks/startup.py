"""Start-up: `agent-dev -- true` against bubblewrap alone, the processor time of its steps, and its imports."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Figures, Row, Section, Subject
from benchmarks.working_directory import Bwrap, WorkingDirectory, repository

TITLE = "Start-up"
TARGET, _BUSY_TARGET = 6.0, 8.0  # times plain bubblewrap, on a quiet machine and with all processors busy
PLAIN = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
_TRUE = "/usr/bin/true"
_MODULES = "agent_dev.cli.main, agent_dev.run.run, agent_dev.run.new_session"
_CLOCK = (
    "import time as _t; _s = _t.perf_counter_ns(); from agent_dev import import_cache; import_cache.use(); "
    f"import_cache.import_common(); import_cache.import_start(); import {_MODULES}; print((_t.perf_counter_ns() - _s) / 1e6)"
)
_HEAVY = ("textual", "pygit2", "rich", "yaml", "argparse", "json", "re", "subprocess", "pathlib", "dataclasses", "typing")
_UNSUPERVISED = 'policy: "off"\ndirectory_renames: false\n'


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure starts with each bubblewrap."""
    files = {f"src/part{n // 20}/file{n}.py": f"value = {n}\n".encode() * 50 for n in range(200)}
    repo = repository(workdir.folder / "startup", workdir.env, files)
    with contextlib.chdir(repo):
        return tuple(_with(bwrap, workdir, repo) for bwrap in workdir.bwraps)


def run_busy(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure starts with the first bubblewrap while a program without pauses runs on each processor."""
    repo = repository(workdir.folder / "busy", workdir.env, {f"file{n}": b"x\n" for n in range(200)})
    count = len(os.sched_getaffinity(0))
    with contextlib.chdir(repo), _busy(count):
        found = measure.in_turns(_subjects(workdir.bwraps[0], workdir, repo), measure.rounds())
    figures = {name: by_what["start"] for name, by_what in found.items()}
    about = (
        f"The same, while {count} programs that never pause run on {count} processors: each process of a start waits for its "
        "turn."
    )
    rows, remark = _start_rows(figures, _BUSY_TARGET), measure.fastest(figures, "bwrap")
    return (Section(f"{TITLE} with all processors busy, bubblewrap {workdir.bwraps[0]}", about, rows, (remark,)),)


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """Keep processors busy."""
    programs = [subprocess.Popen(("/bin/sh", "-c", "while :; do :; done")) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def run_first_commands(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure `agent-dev` without arguments, and what a completion script calls."""
    repo = repository(workdir.folder / "first", workdir.env, {f"file{n}": b"x\n" for n in range(200)})
    limits = {("",): 150.0, ("__complete", "merge", "--ta"): 100.0, ("__complete", "merge", ""): 100.0}
    commands = {" ".join(("agent-dev", *words)).strip(): (workdir.program, *filter(None, words)) for words in limits}
    with contextlib.chdir(repo):
        found = measure.in_turns([_used(name, argv, workdir) for name, argv in commands.items()], measure.rounds())
    rows = tuple(
        Row(name, measure.spread(figures["used"]), limit=limit)
        for (name, figures), limit in zip(found.items(), limits.values(), strict=True)
    )
    about = (
        "Processor time, which is the time to wait on a machine that does nothing else: the overview of a repository without "
        "sessions, and the completion of an option and of a session."
    )
    return (Section("First commands", about, rows),)


def run_steps(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure programs that contain one step more than the one before."""
    repo = repository(workdir.folder / "steps", workdir.env, {f"file{n}": b"x\n" for n in range(200)})
    config = workdir.folder / "unsupervised.yaml"
    config.write_text(_UNSUPERVISED)
    bwrap = workdir.bwraps[0]
    commands = {
        "an interpreter without `site`": (workdir.python, "-I", "-S", "-c", "pass"),
        "an interpreter": (workdir.python, "-c", "pass"),
        "and the imports of a start": (workdir.python, "-c", f"import os, {_MODULES}; os._exit(0)"),
        f"bubblewrap {bwrap} alone": (bwrap.path, *PLAIN, _TRUE),
        "a start without the supervisor": (workdir.program, "--config", str(config), "--", "true"),
        "a start": (workdir.program, "--", "true"),
        "a run of 0.3 s, with all its services": (workdir.program, "--", "sleep", "0.3"),
    }
    with contextlib.chdir(repo):
        found = measure.in_turns([_used(name, argv, workdir) for name, argv in commands.items()], measure.rounds(2))
    explanation = (
        "of each program with its children. The supervisor answers commands and renames; a "
        "run of more than 20 ms also takes the lower snapshot, starts the checkpoint timer and makes its record durable."
    )
    return (
        Section("The steps of a start", f"Processor time in ms {explanation}", _rows(found, "used")),
        Section(
            "The steps of a start by the clock",
            "From exec to exit in ms, in the rounds of the table before. Where this is more than the processor time, a program "
            "waits for another, or for the kernel: a start for bubblewrap, for the setup process and its control groups. "
            "The last row includes the 0.3 s of `sleep`.",
            _rows(found, "elapsed"),
        ),
    )


def _rows(found: dict[str, Figures], what: str) -> tuple[Row, ...]:
    return tuple(Row(name, measure.spread(by_what[what])) for name, by_what in found.items())


def _used(name: str, argv: tuple[str, ...], workdir: WorkingDirectory) -> Subject:
    def once() -> dict[str, float]:
        time.sleep(measure.REST)
        usage = process.usage(argv, workdir.env)
        return {"used": usage.milliseconds, "elapsed": usage.elapsed}

    return Subject(name, once)


def _with(bwrap: Bwrap, workdir: WorkingDirectory, repo: Path) -> Section:
    subjects = _subjects(bwrap, workdir, repo)
    found = measure.in_turns(subjects, measure.rounds())
    figures = {name: by_what["start"] for name, by_what in found.items()}
    _expect_warm(workdir)
    return Section(
        f"{TITLE}, bubblewrap {bwrap}",
        "From exec to exit, without a terminal, in a repository of 200 files with packed objects. "
        "`bwrap` is `bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc --dev /dev true`. "
        f"{measure.REST * 1000:.0f} ms pause before each, in which a child of agent-dev cleans up.",
        _start_rows(figures, TARGET),
        (measure.fastest(figures, "bwrap"),),
    )


def _start_rows(figures: Figures, target: float) -> tuple[Row, ...]:
    """Return rows with ratios to bubblewrap, of which agent-dev's have a target."""
    rows = []
    for name, times in figures.items():
        if name == "bwrap":
            rows.append(Row(name, measure.spread(times)))
        else:
            ratio = measure.ratio(times, figures["bwrap"])
            rows.append(Row(name, measure.spread(times), "bwrap", ratio, target if name.startswith("agent-dev") else None))
    return tuple(rows)


def _subjects(bwrap: Bwrap, workdir: WorkingDirectory, repo: Path) -> list[Subject]:
    env = workdir.env_with(bwrap)
    commands = {"true": (_TRUE,), "bwrap": (bwrap.path, *PLAIN, _TRUE)}
    if bwrap.has_overlay:
        upper, work = workdir.folder / f"upper-{bwrap}", workdir.folder / f"work-{bwrap}"
        upper.mkdir(exist_ok=True)
        work.mkdir(exist_ok=True)
        overlay = ("--overlay-src", str(repo), "--overlay", str(upper), str(work), str(repo))
        commands["bwrap --overlay"] = (bwrap.path, *PLAIN, *overlay, _TRUE)
    commands["agent-dev -- true"] = (workdir.program, "--", "true")
    return [measure.program(name, argv, env) for name, argv in commands.items()]


def _expect_warm(workdir: WorkingDirectory) -> None:
    """Check that the figures are typical: profiles came from the cache, and no session was left."""
    home = Path(workdir.env["HOME"])
    cached = home / ".cache/agent-dev/profiles.json"
    if not cached.exists():
        raise process.ProgramFailed(f"{cached} was not written, so the profile was parsed at every start")
    sessions = list((home / ".local/state/agent-dev/sessions").iterdir())
    if sessions:
        raise process.ProgramFailed(f"`agent-dev -- true` left a session: {sessions[0]}")


def run_imports(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Time the imports in new interpreters, and list the imports of one real start."""
    bare = (workdir.python, "-c", "pass")
    clock = (workdir.python, "-c", _CLOCK)
    subjects = [
        Subject("the launch path's imports", lambda: {"import": float(process.output(clock, workdir.env))}),
        Subject("python -c pass", lambda: {"import": process.elapsed_time(bare, workdir.env)}),
    ]
    found = measure.in_turns(subjects, measure.rounds())
    rows = tuple(Row(name, measure.spread(figures["import"])) for name, figures in found.items())
    about = (
        f"`import {_MODULES}` in a new interpreter, from the file that an earlier run has written, compared with the start and "
        "exit of an interpreter."
    )
    return (Section("Imports", about, rows, _remarks(workdir)),)


def _remarks(workdir: WorkingDirectory) -> tuple[str, ...]:
    own, others = _imported(workdir)
    heavy = [name for name in _HEAVY if name in others]
    listed = ", ".join(others) or "nothing that Python had not imported already"
    return (
        f"A real start (`agent-dev -- true`) imported {len(own)} modules of agent-dev, and: {listed}.",
        f"Of {', '.join(_HEAVY)}: {', '.join(heavy) or 'none'}.",
    )


def _imported(workdir: WorkingDirectory) -> tuple[list[str], list[str]]:
    """Return the imports of a start beyond the bare interpreter's: agent-dev's modules, and others."""
    repo = repository(workdir.folder / "imports", workdir.env, {"a": b"a\n"})
    env = workdir.env | {"PYTHONPROFILEIMPORTTIME": "1"}
    with contextlib.chdir(repo):
        outputs = [process.output((workdir.program, "--", "true"), env, errors=True) for _ in range(10)]
    bare = _imported_names(process.output((workdir.python, "-c", "pass"), env, errors=True))
    # A slow run takes its lower snapshot while the agent runs, with more imports; only those before the agent count.
    names = sorted(min(map(_imported_names, outputs), key=len) - bare)
    own = [name for name in names if name.startswith("agent_dev")]
    return own, [name for name in names if name not in own]


def _imported_names(output: str) -> set[str]:
    return set(re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", output, re.MULTILINE))
