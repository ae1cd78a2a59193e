"""The real Claude Code: its program from npm, the way through its first questions, and a prompt typed into it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.harness.terminal import Terminal

PACKAGE = "@anthropic-ai/claude-code"
VERSION = "2.1.329"

# What its first run asks, in this order, each once for an agent home or a folder: a text that is on no other of its
# screens, and the choice to make. An empty choice is the one that the cursor is on.
QUESTIONS = {
    "Choose the text style": "",
    "Press Enter to continue": "",
    "Yes, I trust this folder": "Yes, I trust this folder",
    "Do you want to use this API key?": "Yes",
    "Yes, I accept": "Yes, I accept",
}
QUIET = 1.0  # seconds; on a busy machine it moves back late
CURSOR = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"  # before the choice in a list, and before the prompt


def install(prefix: Path) -> Path:
    """Put Claude Code below a prefix such as ~/.local and return its program; the first time it comes from npm."""
    prefix.mkdir(parents=True, exist_ok=True)
    run(["cp", "-a", "--reflink=auto", f"{_cached()}/.", prefix])
    return prefix / "bin/claude"


def environment(url: str) -> dict[str, str]:
    """Return what makes it talk to a model server at this URL, and to nobody else."""
    # With ANTHROPIC_API_KEY instead, it asks whether to use the key, and a first run looks for its maker's own server.
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def options(url: str) -> list[str]:
    """Return the same as options of agent-dev."""
    return [word for name, value in environment(url).items() for word in ("--env", f"{name}={value}")]


def onboard(terminal: Terminal, timeout: float = 60) -> list[str]:
    """Answer what it asks, as long as it asks, until it waits for a prompt; return the questions that came."""
    asked: list[str] = []
    while not is_ready(terminal.wait_for(lambda text: is_ready(text) or _question(text) is not None, timeout)):
        # A new question ignores, for a moment, what is typed: it lets the cursor move and then moves it back.
        question = _question(terminal.wait_quiet(QUIET, timeout))
        if question is not None and _has_answered(terminal, question, timeout):
            asked.append(question)
    return asked


def is_ready(text: str) -> bool:
    """Whether a screen shows the line where a prompt is typed, between two rules."""
    rows = text.splitlines()
    return any(above.startswith("──") and row.startswith(CURSOR) for above, row in pairwise(rows))


def say(terminal: Terminal, prompt: str) -> None:
    """Type a prompt or a command such as /exit, see it arrive, and send it."""
    terminal.send(prompt)
    terminal.wait_for(lambda text: any(row.startswith(CURSOR) and prompt in row for row in text.splitlines()))
    terminal.keys("enter")


def _question(text: str) -> str | None:
    return next((question for question in QUESTIONS if question in text), None)


def _has_answered(terminal: Terminal, question: str, timeout: float) -> bool:
    """Move the cursor of a list by one, or confirm the choice that it is on; return whether the question is gone."""
    choice, before = QUESTIONS[question], _chosen(terminal.text())
    terminal.keys("enter" if before.endswith(choice) else "down")
    text = terminal.wait_for(lambda text: question not in text or _chosen(text) != before, timeout)
    return question not in text


def _chosen(text: str) -> str:
    """Return the choice that the cursor is on."""
    rows = [row.strip() for row in text.splitlines()]
    return next((row.removeprefix(CURSOR).strip() for row in rows if row.startswith(CURSOR)), "")


def _cached() -> Path:
    """Return the installation that is copied, made by npm when there is none of this version."""
    default = Path.home() / ".cache/agent-dev-tests"
    cache = Path(os.environ.get("AGENT_DEV_TEST_CACHE") or default)
    wanted = cache / f"claude-code-{VERSION}"
    if not wanted.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as work:
            made = _from_npm(Path(work) / "prefix")
            publish(made, wanted)
    return wanted


def _from_npm(prefix: Path) -> Path:
    for program in ("npm", "node"):
        if shutil.which(program) is None:
            raise RuntimeError(f"{program} is not installed")
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    # Its install script is run here: npm 11 and later want to be asked before they run one.
    run(["npm", "install", "--global", "--prefix", prefix, "--ignore-scripts", *quiet, f"{PACKAGE}@{VERSION}"])
    run(["node", prefix / "lib/node_modules" / PACKAGE / "install.cjs"])
    run([prefix / "bin/claude", "--version"])
    return prefix


def publish(made: Path, wanted: Path) -> None:
    """Give the finished installation its name, unless another test was faster."""
    try:
        made.rename(wanted)
    except OSError:
        if not wanted.exists():
            raise


def run(argv: Sequence[str | Path]) -> None:
    """Run a command; raise with all that it said when it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
