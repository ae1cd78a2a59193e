"""The command policy: programs started one after the other, and a build, with `policy: guard` and with `off`."""

import contextlib
import time
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.process import PYTHON
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "The command policy"
_REST = 0.02  # seconds: a child's remaining work must not slow down the next measurement
_LOOP = """import os, time
since = time.perf_counter()
for _ in range(1000):
    pid = os.fork()
    if not pid:
        os.execv("/bin/true", ["true"])
    os.waitpid(pid, 0)
print((time.perf_counter() - since) * 1000)
"""
_BUILD = """import subprocess, time
since = time.perf_counter()
subprocess.run(["make", "-s", "-j2"], check=True)
print((time.perf_counter() - since) * 1000)
"""
_MAKEFILE = b"all: $(patsubst %.c,/tmp/%.o,$(wildcard u*.c))\n/tmp/%.o: %.c\n\t@gcc -O1 -c -o $@ $<\n"
_SOURCE = "#include <stdio.h>\n#include <string.h>\nint f{0}(int x, char *s) {{ return x * {0} + (int)strlen(s) + printf(s); }}\n"
_TARGETS = {"fork and exec, 1,000 times": ("loop.py", 1.3), "a build of 1,000 processes": ("build.py", 1.05)}


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure the loop and the build with the first bubblewrap."""
    files = {f"u{n}.c": _SOURCE.format(n).encode() for n in range(measure.size(333, 3))}  # gcc, cc1 and as for each
    files |= {"Makefile": _MAKEFILE, "loop.py": _LOOP.encode(), "build.py": _BUILD.encode()}
    repo = repository(workdir.folder / "commands", workdir.env, files)
    configs = {name: workdir.folder / f"{name}.yaml" for name in ("off", "guard")}
    for name, path in configs.items():
        path.write_text(f'policy: "{name}"\n')
    rows: list[Row] = []
    with contextlib.chdir(repo):
        for label, (script, target) in _TARGETS.items():
            subjects = [_subject(name, path, repo / script, workdir) for name, path in configs.items()]
            found = {name: one["took"] for name, one in measure.in_turns(subjects, measure.rounds(4), 1, in_order=False).items()}
            rows.append(Row(f"{label}: off", measure.spread(found["off"])))
            ratio = measure.ratio(found["guard"], found["off"])
            rows.append(Row(f"{label}: guard", measure.spread(found["guard"]), "off", ratio, target))
        start = _start(configs, workdir)
    return Section(TITLE, "All within one sandbox; a new sandbox each round.", tuple(rows)), start


def _start(configs: dict[str, Path], workdir: WorkingDirectory) -> Section:
    """Measure the start of a command without a profile, with and without the policy."""
    found = measure.in_turns([_start_subject(name, path, workdir) for name, path in configs.items()], measure.rounds())
    off, guard = (found[name]["start"] for name in configs)
    rows = (
        Row("agent-dev -- true: off", measure.spread(off)),
        Row("agent-dev -- true: guard", measure.spread(guard), "off", measure.ratio(guard, off)),
    )
    fastest = measure.fastest({"off": off, "guard": guard}, "off")
    return Section(f"{TITLE}: start", "From exec to exit, of a command without a profile.", rows, (fastest,))


def _start_subject(name: str, config: Path, workdir: WorkingDirectory) -> Subject:
    home = workdir.folder / f"config-{name}"  # separate ones, because only the last configuration is cached
    (home / "agent-dev").mkdir(parents=True)
    (home / "agent-dev/config.yaml").write_text(config.read_text())
    env = workdir.env_with(workdir.bwraps[0]) | {"XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)}

    def run_once() -> dict[str, float]:
        time.sleep(_REST)
        return {"start": process.elapsed_time((workdir.program, "--", "true"), env)}

    return Subject(name, run_once)


def _subject(name: str, config: Path, script: Path, workdir: WorkingDirectory) -> Subject:
    argv = (workdir.program, "--config", str(config), "--no-merge", "--", PYTHON, "-I", "-S", "-B", str(script))
    env = workdir.env_with(workdir.bwraps[0])
    return Subject(name, lambda: {"took": float(process.output(argv, env))})
