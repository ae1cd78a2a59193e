"""Peak memory and processor time of every subcommand in sessions with 100,000 changes."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from agent_dev.cli.main import SUBCOMMANDS
from benchmarks import measure, process
from benchmarks.many_files import count_of_files, make_files
from benchmarks.measure import Row, Section
from benchmarks.process import PYTHON, Footprint, ProgramFailed
from benchmarks.working_directory import WorkingDirectory, remove, repository

_SHARE = 30  # one round for so many of the others
_MEMORY, _DRY_RUN, _STATUS = 200, 3000.0, 10_000.0  # MiB, ms, ms: `status` of 30,000 changes may take 3 s
_AGENT = (PYTHON, "agent.py")
_COMMIT = f"{' '.join(_AGENT)} && git add -A && git -c user.name=b -c user.email=b@example.invalid commit -q -m all"
_WORK_AND_WAIT = f"{' '.join(_AGENT)}; touch /tmp/done; exec sleep 3600"
_WAIT = "until test -e /tmp/done; do sleep 0.1; done"
_FILE = "new/0/1/110.txt"
_MERGE = ("merge", "bench", "--all", "--yes-delete-many")
_DRY_MERGE = (*_MERGE, "--dry-run")
# In this order: each prepares the next. A run is labelled by `_label`.
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--no-merge", "--name", "bench", "--", *_AGENT),
    ("--plain",),
    ("sessions", "--all"),
    ("status", "bench"),
    ("status", "bench", "--json"),
    ("diff", "bench"),
    ("diff", "bench", "--stat"),
    ("diff", "bench", "--", _FILE),
    ("why", _FILE, "bench"),
    ("show", "--", "true"),
    ("log", "bench"),
    ("log", "bench", "--changes"),
    ("commits", "bench"),
    ("worktrees", "bench"),
    ("exec", "bench", "--", "true"),
    ("shell", "bench"),
    ("fork", "bench", "--name", "copy"),
    ("checkpoint", "copy"),
    ("resume", "copy", "--", "rm", "-r", "new"),
    ("checkpoints", "copy"),
    ("deleted", "copy"),
    ("rollback", "1", "--session", "copy"),
    ("bundle", "bench", "../bundle"),
    ("bundle", "--show", "../bundle"),
    ("import", "../bundle", "--name", "imported"),
    ("discard", "copy", "imported"),
    ("undiscard", "copy"),
    ("discard", "copy"),
    _DRY_MERGE,
    ("merge", "bench", "--html", "../review.html"),
    ("merge", "bench", "--all", "--export", "../exported"),
    ("merge", "bench", "--all", "--export", "../exported.patch"),
    ("merge", "bench"),
    ("merge", "bench", "--plain"),
    _MERGE,
    ("undo",),
    ("redo",),
    ("merges",),
    ("undo", "--three-way"),
    ("discard", "bench"),
    ("--no-merge", "--name", "committed", "--", "sh", "-c", _COMMIT),
    ("commits", "committed"),
    ("merge", "committed", "--commits", "--include-risky"),
    ("undo",),
    ("discard", "committed"),
    ("--detach", "--name", "live", "--", "sh", "-c", _WORK_AND_WAIT),
    ("exec", "live", "--", "sh", "-c", _WAIT),
    ("status", "live"),
    ("watch", "live"),
    ("approve", "--in", "live", "--json"),
    ("stop", "live"),
    ("discard", "live"),
    ("tx", "--yes-delete-many", "--", *_AGENT),
    ("undo",),
    ("discard",),
    ("run", "--direct", "--", *_AGENT),
    ("restore", "--dry-run"),
    ("restore",),
    ("learn", "--output", "../draft.yaml", "--", *_AGENT),
    ("backup", "once", ".", "--to", "../backup"),
    ("home", "--diff"),
    ("doctor",),
    ("config",),
    ("profiles",),
    ("policy", "check", "--", "true"),
    ("trust", "--show"),
    ("clean", "--dry-run"),
    ("clean", "--all"),
)
_LABELS = {"bench": "the run", "committed": "a run that commits", "live": "start a detached run"}  # by the session's name
_KEYS: dict[tuple[str, ...], tuple[str, ...]] = {  # pressed on a terminal
    ("merge", "bench"): ("G", "g", "j", "X", "q"),  # X selects nothing, so that q does not ask
    ("watch", "live"): ("q",),
}
NOT_MEASURED = {
    "attach": "relays a terminal, and opens the screen of `merge` at the end",
    "init": "asks for settings; opens no session",
    "install": "runs installers; opens no session",
    "outdated": "asks registries; opens no session",
    "work": "is a run of `tx` on another machine",
    "help": "prints a text",
    "completion": "prints a script",
}
_LIMITS: dict[tuple[str, ...], float] = {("status", "bench"): _STATUS, _DRY_MERGE: _DRY_RUN}
_WRITTEN = ("bundle", "review.html", "exported", "exported.patch", "backup")
_CHANGE = """
import os
for n in range(COUNT):
    path = f"new/{n // 1000}/{n // 100}/{n}.txt"
    if n % 10 == 0:
        os.remove(path)
    elif n % 10 == 1:
        os.rename(path, path.replace(".txt", "_moved.txt"))
    else:
        with open(path, "a") as file:
            file.write("a line of the agent's\\n")
"""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of changes: its name, what the agent does, and the files that the repository has before."""

    name: str
    about: str
    script: str
    files: dict[str, bytes]


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure all commands with each kind of changes. Raises ProgramFailed if a subcommand is neither measured nor excused."""
    if missing := missing_subcommands():
        raise ProgramFailed(f"add these subcommands to benchmarks/scaling/scale.py: {', '.join(missing)}")
    count = count_of_files()
    text = "the quick brown fox jumps over the lazy dog\n" * 40
    present = {f"new/{n // 1000}/{n // 100}/{n}.txt": f"{n}\n{text}".encode() for n in range(count)}
    kinds = (
        _Kind("new files", f"{count:,} new files of 1.8 KB", make_files(count), {}),
        _Kind(
            "edited, renamed and deleted files",
            f"{count:,} files of 1.8 KB, a tenth of them deleted, a tenth renamed, the others edited",
            f"COUNT = {count}\n{_CHANGE}",
            present,
        ),
    )
    return tuple(section for kind in kinds[-measure.size(2, 1) :] for section in _sections(workdir, kind))


def missing_subcommands() -> list[str]:
    """Return the subcommands that are neither measured nor named with the reason why not."""
    measured = {words[0] for words in _COMMANDS}
    return [word for word in SUBCOMMANDS if word not in measured and word not in NOT_MEASURED]


def _sections(workdir: WorkingDirectory, kind: _Kind) -> tuple[Section, Section]:
    problems: list[str] = []
    rounds = [_round(workdir, kind, problems) for _ in range(max(1, measure.rounds() // _SHARE))]
    if problems and measure.is_quick():
        raise ProgramFailed("\n".join(problems))
    peaks, times = [], []
    for label, first in rounds[0].items():
        used = [one[label][1] for one in rounds]
        peaks.append(Row(label, measure.spread([one.peak for one in used]), limit=_MEMORY))
        times.append(Row(label, measure.spread([one.milliseconds for one in used]), limit=_LIMITS.get(first[0])))
    worst = max(peaks, key=lambda row: row.time.median)
    over = [row.label for row in peaks if row.is_met is False]
    reasons = "; ".join(f"`{word}` {reason}" for word, reason in NOT_MEASURED.items())
    remarks = (
        f"The highest: {worst.time.median:.0f} MiB ({worst.label}). Above {_MEMORY} MiB: {', '.join(over) or 'none'}.",
        f"Every subcommand is in the table, except: {reasons}.",
        *problems,
    )
    about = f"in a session with {kind.about}, in the order of the table"
    return (
        Section(
            f"Peak memory: {kind.name}",
            f"Of the largest process of each command, {about}. That of a run may be the launcher, a service or the agent.",
            tuple(peaks),
            remarks,
            "MiB",
        ),
        Section(f"Many changes: {kind.name}", f"Processor time of the same commands, {about}.", tuple(times)),
    )


def _round(workdir: WorkingDirectory, kind: _Kind, problems: list[str]) -> dict[str, tuple[tuple[str, ...], Footprint]]:
    """Run all commands in a new repository with a new home; return their words and figures by label, and add `problems`.

    A command that fails does not end a measurement of half an hour.
    """
    folder = workdir.folder / "scale"
    env = workdir.env | {"HOME": str(folder / "home")}
    settings = folder / "home/.config/agent-dev/config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("checkpoint_minutes: 0\n")  # so that `rollback 1` returns to the checkpoint of this list
    files = {"a.txt": b"a\n", "agent.py": kind.script.encode(), **kind.files}
    found: dict[str, tuple[tuple[str, ...], Footprint]] = {}
    with contextlib.chdir(repository(folder / "repository", env, files)):
        for words in _COMMANDS:
            label = _label(words)
            times = sum(words == other for other, _ in found.values())
            label += f" ({times + 1})" if times else ""
            used = process.footprint((workdir.program, *words), env, _KEYS.get(words, ()))
            found[label] = words, used
            if used.code:
                problems.append(f"{label} exited with status {used.code}.")
        problems += _unexpected(Path.cwd(), folder)
    remove(folder)
    return found


def _label(words: tuple[str, ...]) -> str:
    if words[1:2] == ("--name",) or words[2:3] == ("--name",):
        return _LABELS.get(words[words.index("--name") + 1], " ".join(words))
    text = " ".join(words).replace(" ".join(_AGENT), "AGENT").replace(f"sh -c {_WAIT}", "COMMAND")
    return f"{text}, the review screen" if words == ("merge", "bench") else text


def _unexpected(repo: Path, folder: Path) -> list[str]:
    """Return what shows that the commands did not do what they are measured for."""
    missing = [name for name in _WRITTEN if not (folder / name).exists()]
    found = [f"{name} was not written." for name in missing]
    if changed := process.output(("git", "status", "--porcelain", "-uall"), {"PATH": "/usr/bin:/bin"}, cwd=repo):
        found.append(f"The repository is not as before: {changed.splitlines()[0]}, …")
    return found
