"""The processor time of each step of a start, so that the figures also hold on a busy machine."""

import contextlib
import time

from benchmarks import measure, process
from benchmarks.measure import Figures, Row, Section, Subject
from benchmarks.startup import PLAIN
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "The steps of a start"
_MODULES = "agent_dev.cli.main, agent_dev.run.run, agent_dev.run.new_session"
_UNSUPERVISED = 'policy: "off"\ndirectory_renames: false\n'


def run(ground: WorkingDirectory) -> tuple[Section, ...]:
    """Measure programs that contain one step more than the one before."""
    repo = repository(ground.folder / "steps", ground.env, {f"file{n}": b"x\n" for n in range(200)})
    config = ground.folder / "unsupervised.yaml"
    config.write_text(_UNSUPERVISED)
    bwrap = ground.bwraps[0]
    commands = {
        "an interpreter without `site`": (ground.python, "-I", "-S", "-c", "pass"),
        "an interpreter": (ground.python, "-c", "pass"),
        "and the imports of a start": (ground.python, "-c", f"import os, {_MODULES}; os._exit(0)"),
        f"bubblewrap {bwrap} alone": (bwrap.path, *PLAIN, "/usr/bin/true"),
        "a start without the supervisor": (ground.program, "--config", str(config), "--", "true"),
        "a start": (ground.program, "--", "true"),
        "a run of 0.3 s, with all its services": (ground.program, "--", "sleep", "0.3"),
    }
    with contextlib.chdir(repo):
        found = measure.in_turns([_subject(name, argv, ground) for name, argv in commands.items()], measure.rounds(2))
    figures: Figures = {name: by_what["used"] for name, by_what in found.items()}
    rows = tuple(Row(name, measure.spread(times)) for name, times in figures.items())
    about = (
        "Processor time in ms of each program with its children. The supervisor answers commands and renames; a "
        "run of more than 20 ms also takes the lower snapshot, starts the checkpoint timer and makes its record durable."
    )
    return (Section(TITLE, about, rows),)


def _subject(name: str, argv: tuple[str, ...], ground: WorkingDirectory) -> Subject:
    def once() -> dict[str, float]:
        time.sleep(measure.REST)
        return {"used": process.processor_time(argv, ground.env)}

    return Subject(name, once)
