"""Start-up: `agent-dev -- true` against bubblewrap alone, including the session, the overlay and the lower snapshot."""

import contextlib
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import Bwrap, WorkingDirectory, repository

TITLE = "Start-up"
TARGET = 6.0  # times plain bubblewrap
PLAIN = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
_TRUE = "/usr/bin/true"


def run(ground: WorkingDirectory) -> tuple[Section, ...]:
    """Measure starts with each bubblewrap."""
    files = {f"src/part{n // 20}/file{n}.py": f"value = {n}\n".encode() * 50 for n in range(200)}
    repo = repository(ground.folder / "startup", ground.env, files)
    with contextlib.chdir(repo):
        return tuple(_with(bwrap, ground, repo) for bwrap in ground.bwraps)


def _with(bwrap: Bwrap, ground: WorkingDirectory, repo: Path) -> Section:
    subjects = _subjects(bwrap, ground, repo)
    found = measure.in_turns(subjects, measure.rounds())
    figures = {name: by_what["start"] for name, by_what in found.items()}
    _expect_warm(ground)
    rows = []
    for name, times in figures.items():
        is_ours = name.startswith("agent-dev")
        rows.append(
            Row(
                name,
                measure.spread(times),
                "bwrap" if name != "bwrap" else "",
                measure.ratio(times, figures["bwrap"]) if name != "bwrap" else None,
                TARGET if is_ours else None,
            )
        )
    return Section(
        f"{TITLE}, bubblewrap {bwrap}",
        "From exec to exit, without a terminal, in a repository of 200 files with packed objects. "
        "`bwrap` is `bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc --dev /dev true`. "
        f"{measure.REST * 1000:.0f} ms pause before each, in which a child of agent-dev cleans up.",
        tuple(rows),
        (measure.fastest(figures, "bwrap"),),
    )


def _subjects(bwrap: Bwrap, ground: WorkingDirectory, repo: Path) -> list[Subject]:
    env = ground.env_with(bwrap)
    commands = {"true": (_TRUE,), "bwrap": (bwrap.path, *PLAIN, _TRUE)}
    if bwrap.has_overlay:
        upper, work = ground.folder / f"upper-{bwrap}", ground.folder / f"work-{bwrap}"
        upper.mkdir()
        work.mkdir()
        overlay = ("--overlay-src", str(repo), "--overlay", str(upper), str(work), str(repo))
        commands["bwrap --overlay"] = (bwrap.path, *PLAIN, *overlay, _TRUE)
    commands["agent-dev -- true"] = (ground.program, "--", "true")
    return [measure.program(name, argv, env) for name, argv in commands.items()]


def _expect_warm(ground: WorkingDirectory) -> None:
    """Check that the figures are typical: profiles came from the cache, and no session was left."""
    home = Path(ground.env["HOME"])
    cached = home / ".cache/agent-dev/profiles.json"
    if not cached.exists():
        raise process.ProgramFailed(f"{cached} was not written, so the profile was parsed at every start")
    sessions = list((home / ".local/state/agent-dev/sessions").iterdir())
    if sessions:
        raise process.ProgramFailed(f"`agent-dev -- true` left a session: {sessions[0]}")
