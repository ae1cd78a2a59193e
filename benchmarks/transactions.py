"""What a transaction costs over a run: `agent-dev tx -- true` against `agent-dev true`."""

import contextlib
import time

from benchmarks import measure, process
from benchmarks.ground import Ground, repository
from benchmarks.measure import Row, Section, Subject

TITLE = "Transactions"
LIMIT = 15.0  # ms over a run
_REST = 0.02  # seconds: what is left to a child is not the next one's to pay for


def run(ground: Ground) -> tuple[Section, ...]:
    """Measure with the first bubblewrap there is."""
    files = {f"src/part{n // 20}/file{n}.py": f"value = {n}\n".encode() * 50 for n in range(200)}
    repo = repository(ground.folder / "transactions", ground.env, files)
    bwrap = ground.bwraps[0]
    env = ground.env_with(bwrap)
    commands = {"agent-dev true": ("true",), "agent-dev tx -- true": ("tx", "--", "true")}
    with contextlib.chdir(repo):
        subjects = [_subject(name, (ground.program, *words), env) for name, words in commands.items()]
        found = measure.in_turns(subjects, measure.rounds())
    run_alone, transaction = (found[name]["start"] for name in commands)
    more = measure.spread([one - other for one, other in zip(transaction, run_alone, strict=True)])
    rows = (
        Row("agent-dev true", measure.spread(run_alone)),
        Row("agent-dev tx -- true", measure.spread(transaction), "agent-dev true", measure.ratio(transaction, run_alone)),
        Row("the difference", more, limit=LIMIT),
    )
    return (Section(f"{TITLE}, bubblewrap {bwrap}", "From exec to exit, in a repository of 200 files.", rows),)


def _subject(name: str, words: tuple[str, ...], env: dict[str, str]) -> Subject:
    def run_once() -> dict[str, float]:
        time.sleep(_REST)
        return {"start": process.timed(words, env)}

    return Subject(name, run_once)
