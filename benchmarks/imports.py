"""What the launch path imports before the agent runs, and how long that takes."""

import contextlib
import re

from benchmarks import measure, process
from benchmarks.ground import Ground, repository
from benchmarks.measure import Row, Section, Subject

TITLE = "Imports"
_PATH = "agent_dev.cli.main, agent_dev.run.run"
_CLOCK = f"import time as _t; _s = _t.perf_counter_ns(); import {_PATH}; print((_t.perf_counter_ns() - _s) / 1e6)"
_HEAVY = ("textual", "pygit2", "rich", "yaml", "argparse", "json", "re", "subprocess", "pathlib", "dataclasses", "typing")


def run(ground: Ground) -> tuple[Section, ...]:
    """Time the imports in new interpreters, and list what one real start imported."""
    bare = (ground.python, "-c", "pass")
    clock = (ground.python, "-c", _CLOCK)
    subjects = [
        Subject("the launch path's imports", lambda: {"import": float(process.output(clock, ground.env))}),
        Subject("python -c pass", lambda: {"import": process.timed(bare, ground.env)}),
    ]
    found = measure.in_turns(subjects, measure.rounds())
    rows = tuple(Row(name, measure.spread(figures["import"])) for name, figures in found.items())
    about = f"`import {_PATH}` within a new interpreter, and beside it what starting and ending that interpreter costs."
    return (Section(TITLE, about, rows, _remarks(ground)),)


def _remarks(ground: Ground) -> tuple[str, ...]:
    own, others = _imported(ground)
    heavy = [name for name in _HEAVY if name in others]
    beside = ", ".join(others) or "nothing that Python had not imported already"
    return (
        f"A real start (`agent-dev true`) imported {len(own)} modules of agent-dev, and beside them: {beside}.",
        f"Of {', '.join(_HEAVY)}: {', '.join(heavy) or 'none'}.",
    )


def _imported(ground: Ground) -> tuple[list[str], list[str]]:
    """Return what a start imports beyond the bare interpreter: agent-dev's own modules, and others."""
    repo = repository(ground.folder / "imports", ground.env, {"a": b"a\n"})
    env = ground.env | {"PYTHONPROFILEIMPORTTIME": "1"}
    with contextlib.chdir(repo):
        said = [process.output((ground.program, "true"), env, errors=True) for _ in range(10)]
    bare = _names(process.output((ground.python, "-c", "pass"), env, errors=True))
    # A run that is slowed down takes its base beside the agent, and imports for that; what is asked is what comes before.
    names = sorted(min(map(_names, said), key=len) - bare)
    own = [name for name in names if name.startswith("agent_dev")]
    return own, [name for name in names if name not in own]


def _names(said: str) -> set[str]:
    return set(re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", said, re.MULTILINE))
