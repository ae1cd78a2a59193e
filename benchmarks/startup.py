"""How long `agent-dev true` takes against bubblewrap alone: the session, the overlay and the base included."""

import contextlib
import time
from pathlib import Path

from benchmarks import measure, process
from benchmarks.ground import Bwrap, Ground, repository
from benchmarks.measure import Row, Section, Subject

TITLE = "Start-up"
TARGET = 6.0  # times plain bubblewrap
_PLAIN = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
_TRUE = "/usr/bin/true"
_REST = 0.02  # seconds before each: agent-dev leaves tidying up to a child, which is not the next one's to pay for


def run(ground: Ground) -> tuple[Section, ...]:
    """Measure with each bubblewrap there is."""
    files = {f"src/part{n // 20}/file{n}.py": f"value = {n}\n".encode() * 50 for n in range(200)}
    repo = repository(ground.folder / "startup", ground.env, files)
    with contextlib.chdir(repo):
        return tuple(_with(bwrap, ground, repo) for bwrap in ground.bwraps)


def _with(bwrap: Bwrap, ground: Ground, repo: Path) -> Section:
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
        "From exec to exit, nobody on a terminal, in a repository of 200 files whose objects are packed. "
        "`bwrap` is `bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc --dev /dev true`. "
        f"{_REST * 1000:.0f} ms pass before each, since agent-dev leaves the tidying up to a child.",
        tuple(rows),
        (measure.fastest(figures, "bwrap"),),
    )


def _subjects(bwrap: Bwrap, ground: Ground, repo: Path) -> list[Subject]:
    env = ground.env_with(bwrap)
    commands = {"true": (_TRUE,), "bwrap": (bwrap.path, *_PLAIN, _TRUE)}
    if bwrap.has_overlay:
        upper, work = ground.folder / f"upper-{bwrap}", ground.folder / f"work-{bwrap}"
        upper.mkdir()
        work.mkdir()
        overlay = ("--overlay-src", str(repo), "--overlay", str(upper), str(work), str(repo))
        commands["bwrap --overlay"] = (bwrap.path, *_PLAIN, *overlay, _TRUE)
    commands["agent-dev true"] = (ground.program, "true")
    commands["agent-dev -- true"] = (ground.program, "--", "true")
    return [_subject(name, words, env) for name, words in commands.items()]


def _subject(name: str, words: tuple[str, ...], env: dict[str, str]) -> Subject:
    def run_once() -> dict[str, float]:
        time.sleep(_REST)
        return {"start": process.timed(words, env)}

    return Subject(name, run_once)


def _expect_warm(ground: Ground) -> None:
    """Make sure that what was measured is what a user has: profiles read from the cache, and no session left."""
    home = Path(ground.env["HOME"])
    kept = home / ".cache/agent-dev/profiles.json"
    if not kept.exists():
        raise process.ProgramFailed(f"{kept} was not written, so the profile was parsed at every start")
    sessions = list((home / ".local/state/agent-dev/sessions").iterdir())
    if sessions:
        raise process.ProgramFailed(f"`agent-dev true` left a session: {sessions[0]}")
