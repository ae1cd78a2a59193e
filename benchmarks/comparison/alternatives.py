"""The alternatives that agent-dev is compared with: installed ones, npm packages in pinned versions, and clones of repositories.

AGENT_DEV_BENCH_CLONES names a directory with clones of github.com/binpash/try and github.com/3scale-labs/agent-dev-env.
"""

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure, process
from benchmarks.process import ProgramFailed
from benchmarks.startup import PLAIN
from benchmarks.working_directory import WorkingDirectory

AGENT_DEV = "agent-dev"
CLONES = "AGENT_DEV_BENCH_CLONES"
_CODEX, _SANDBOX_RUNTIME = "@openai/codex@0.169.0", "@anthropic-ai/sandbox-runtime@0.0.83"
_SETTINGS = """{
  "network": {"allowedDomains": [], "deniedDomains": []},
  "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}
}
"""
_SHELL = ("/bin/sh", "-c")
_COMMIT = "git add -A && git -c user.name=b -c user.email=b@example.invalid commit -q -m job"
_WORKTREE = 'git worktree add -q -f --detach "$0" && cd "$0" && exec "$@"'
_WORKTREE_JOB = 'git worktree add -q -b job "$0" && cd "$0" && exec "$@"'
_WORKTREE_APPLY = f'(cd "$0" && {_COMMIT}) && exec git merge -q job'
_RSYNC = 'rsync -a ./ "$0" && cd "$0" && exec "$@"'
_RSYNC_APPLY = 'exec rsync -a --delete "$0"/ ./'
_COPY = 'cp -a . "$0" && cd "$0" && exec "$@"'
_COPY_APPLY = 'exec cp -a "$0"/. ./'
_AGENT_DEV_ENV_JOB = 'echo N | /bin/bash "$0" "$@"'  # N keeps all files for later
_AGENT_DEV_ENV_APPLY = 'echo Y | /bin/bash "$0" "$PWD" "$1/.overlay$PWD/upper"'  # Y applies all files
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Alternative:
    """A way to run a command in a repository: the words to write before the command, and the environment.

    With `job` before it, what the command changes can also be applied, by the command `apply`. `job` is None if the sandbox is
    read-only, `apply` if the job itself writes to the repository. `folder`: a directory that must be new and empty for each run.
    """

    name: str
    words: tuple[str, ...]
    job: tuple[str, ...] | None
    apply: tuple[str, ...] | None
    env: dict[str, str]
    folder: Path | None = None
    is_sandbox: bool = True

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Create the directory, and rename it afterwards.

        It is not removed: ext4 does not use the inodes of deleted files for a minute and searches past each of them, so that all
        files would take longer to create than they do for a user.
        """
        if self.folder:
            self.folder.mkdir(parents=True)
        try:
            yield
        finally:
            if self.folder:
                self.folder.rename(f"{self.folder}-{next(_numbers)}")


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The alternatives that run on this machine, agent-dev first, and remarks on versions and on the others."""

    runnable: tuple[Alternative, ...]
    remarks: tuple[str, ...]


def find_alternatives(workdir: WorkingDirectory, repo: Path) -> Alternatives:
    """Install the alternatives, and run `true` with each in the repository. Raises ProgramFailed if agent-dev fails."""
    temporary = workdir.folder / "tmp"
    temporary.mkdir()
    env = workdir.env | {"TMPDIR": str(temporary)}
    runnable: list[Alternative] = []
    remarks: list[str] = []
    for search in (_on_system, _from_npm, _from_clones):
        found, texts = search(workdir, env)
        remarks += texts
        for alternative in found:
            if reason := _failure(alternative, repo):
                remarks.append(f"{alternative.name} was not measured: {reason}")
            else:
                runnable.append(alternative)
    if runnable[0].name != AGENT_DEV:
        raise ProgramFailed(remarks[0])
    return Alternatives(tuple(runnable), tuple(remarks))


def last_line(error: Exception) -> str:
    """Return the last line of an error's message, which is the one of the program itself."""
    return str(error).strip().rpartition("\n")[2]


def _failure(alternative: Alternative, repo: Path) -> str:
    """Return why `true` cannot be run; "" if it can."""
    try:
        with alternative.prepared():
            process.output((*alternative.words, "/usr/bin/true"), alternative.env, cwd=repo)
    except (ProgramFailed, OSError) as error:
        return last_line(error)
    return ""


def _on_system(workdir: WorkingDirectory, env: dict[str, str]) -> tuple[list[Alternative], list[str]]:
    program, bwrap = workdir.program, workdir.bwraps[0]
    worktree, copy = workdir.folder / "copies/worktree", workdir.folder / "copies/rsync"
    start = (program, "--no-merge", "--")
    found = [
        Alternative(AGENT_DEV, start, (program, "--no-merge", "--name", "job", "--"), (program, "merge", "job", "--all"), env),
        Alternative("no sandbox", (), (), None, env, is_sandbox=False),
        Alternative("bwrap", (bwrap.path, *PLAIN), None, None, env),
        _copying("git worktree", (_WORKTREE, _WORKTREE_JOB, _WORKTREE_APPLY), env, worktree),
        _copying("cp -a", (_COPY, _COPY, _COPY_APPLY), env, workdir.folder / "copies/cp"),
    ]
    if not shutil.which("rsync", path=env["PATH"]):
        return found, ["rsync was not measured: it is not installed."]
    return [*found, _copying("rsync", (_RSYNC, _RSYNC, _RSYNC_APPLY), env, copy)], []


def _copying(name: str, scripts: tuple[str, str, str], env: dict[str, str], folder: Path) -> Alternative:
    words, job, apply = ((*_SHELL, script, str(folder)) for script in scripts)
    return Alternative(name, words, job, apply, env, folder, is_sandbox=False)


def _from_npm(workdir: WorkingDirectory, env: dict[str, str]) -> tuple[list[Alternative], list[str]]:
    names = f"{_CODEX} and {_SANDBOX_RUNTIME}"
    folder, settings = workdir.folder / "npm", workdir.folder / "srt-settings.json"
    folder.mkdir()
    if measure.is_quick():
        return [], [f"{names} were not measured in this quick run."]
    npm = shutil.which("npm", path=env["PATH"])
    if not npm:
        return [], [f"{names} were not measured: npm is not installed."]
    options = ("--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    try:
        process.output((npm, "install", *options, _CODEX, _SANDBOX_RUNTIME), dict(os.environ))
    except ProgramFailed as error:
        return [], [f"{names} were not measured: npm could not install them: {last_line(error)}"]
    settings.write_text(_SETTINGS)
    srt = (str(folder / "node_modules/.bin/srt"), "--settings", str(settings))
    found = [Alternative("sandbox-runtime", srt, srt, None, env)]
    remarks = [f"From npm: {names}, with Node.js {process.output(('node', '--version'), env).strip()}."]
    for program in folder.glob("node_modules/@openai/codex-*/vendor/*/bin/codex"):
        codex = (str(program), "sandbox", "-P", ":workspace", "--")
        found.insert(0, Alternative("codex sandbox", codex, codex, None, env))
    if len(found) == 1:
        remarks.append("codex sandbox was not measured: its package has no program for this machine.")
    return found, remarks


def _from_clones(workdir: WorkingDirectory, env: dict[str, str]) -> tuple[list[Alternative], list[str]]:
    found, remarks = [], []
    clones = Path(os.environ.get(CLONES, "/nonexistent"))
    for name, program, wanted in (("try", "try", _try), ("agent-dev-env", "agent-dev", _agent_dev_env)):
        script = clones / name / program
        if not script.exists():
            remarks.append(f"{name} was not measured: {CLONES} does not name a directory with a clone of it.")
            continue
        alternative, remark = wanted(script, workdir, env)
        found += [alternative] if alternative else []
        remarks.append(f"{name} {_commit(script.parent, env)}{remark}")
    return found, remarks


def _commit(clone: Path, env: dict[str, str]) -> str:
    try:
        return process.output(("git", "-c", "safe.directory=*", "-C", str(clone), "log", "-1", "--format=(%h, %cs)"), env).strip()
    except ProgramFailed:
        return "(not a clone)"


def _try(script: Path, workdir: WorkingDirectory, env: dict[str, str]) -> tuple[Alternative, str]:
    """Return `try`, whose changes are applied by `try -y commit`."""
    folder = workdir.folder / "try"
    words = ("/bin/sh", str(script), "-N", str(folder))
    apply = ("/bin/sh", str(script), "-y", "commit", str(folder))
    return Alternative("try", words, words, apply, env, folder), " is a shell script; its job is `try -N` and `try -y commit`."


def _agent_dev_env(script: Path, workdir: WorkingDirectory, env: dict[str, str]) -> tuple[Alternative | None, str]:
    """Return agent-dev-env without the network access at its start, if there is the bubblewrap that it needs."""
    bwrap = workdir.with_overlay
    if bwrap is None:
        return None, " was not measured: it needs bubblewrap 0.11, which AGENT_DEV_BENCH_BWRAP can name."
    programs, folder = workdir.folder / "agent-dev-env", workdir.folder / "aihome"
    programs.mkdir()
    (programs / "npm").symlink_to("/usr/bin/true")
    (programs / "bwrap").symlink_to(bwrap.path)
    (programs / "merge-overlay").symlink_to(script.parent / "merge-overlay")
    own = env | {"PATH": f"{programs}:{env['PATH']}", "AI_HOME": str(folder)}
    words = ("/bin/bash", str(script))
    return (
        Alternative(
            "agent-dev-env",
            words,
            (*_SHELL, _AGENT_DEV_ENV_JOB, str(script)),
            (*_SHELL, _AGENT_DEV_ENV_APPLY, str(script.parent / "merge-overlay"), str(folder)),
            own,
            folder,
        ),
        f" ran with bubblewrap {bwrap}, and without the `npm update` at its start; its merge is answered with `Y` for all files.",
    )
