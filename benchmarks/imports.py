"""Imports of the launch path before the agent runs, and their duration."""

import contextlib
import re

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Imports"
_PATH = "agent_dev.cli.main, agent_dev.run.run, agent_dev.run.new_session"
_CLOCK = f"import time as _t; _s = _t.perf_counter_ns(); import {_PATH}; print((_t.perf_counter_ns() - _s) / 1e6)"
_HEAVY = ("textual", "pygit2", "rich", "yaml", "argparse", "json", "re", "subprocess", "pathlib", "dataclasses", "typing")


def run(ground: WorkingDirectory) -> tuple[Section, ...]:
    """Time the imports in new interpreters, and list the imports of one real start."""
    bare = (ground.python, "-c", "pass")
    clock = (ground.python, "-c", _CLOCK)
    subjects = [
        Subject("the launch path's imports", lambda: {"import": float(process.output(clock, ground.env))}),
        Subject("python -c pass", lambda: {"import": process.elapsed_time(bare, ground.env)}),
    ]
    found = measure.in_turns(subjects, measure.rounds())
    rows = tuple(Row(name, measure.spread(figures["import"])) for name, figures in found.items())
    about = f"`import {_PATH}` in a new interpreter, compared with the start and exit of an interpreter."
    return (Section(TITLE, about, rows, _remarks(ground)),)


def _remarks(ground: WorkingDirectory) -> tuple[str, ...]:
    own, others = _imported(ground)
    heavy = [name for name in _HEAVY if name in others]
    listed = ", ".join(others) or "nothing that Python had not imported already"
    return (
        f"A real start (`agent-dev -- true`) imported {len(own)} modules of agent-dev, and: {listed}.",
        f"Of {', '.join(_HEAVY)}: {', '.join(heavy) or 'none'}.",
    )


def _imported(ground: WorkingDirectory) -> tuple[list[str], list[str]]:
    """Return the imports of a start beyond the bare interpreter's: agent-dev's modules, and others."""
    repo = repository(ground.folder / "imports", ground.env, {"a": b"a\n"})
    env = ground.env | {"PYTHONPROFILEIMPORTTIME": "1"}
    with contextlib.chdir(repo):
        outputs = [process.output((ground.program, "--", "true"), env, errors=True) for _ in range(10)]
    bare = _names(process.output((ground.python, "-c", "pass"), env, errors=True))
    # A slow run takes its lower snapshot while the agent runs, with more imports; only those before the agent count.
    names = sorted(min(map(_names, outputs), key=len) - bare)
    own = [name for name in names if name.startswith("agent_dev")]
    return own, [name for name in names if name not in own]


def _names(output: str) -> set[str]:
    return set(re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", output, re.MULTILINE))
