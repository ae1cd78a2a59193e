"""The real Claude Code: its program from npm, answers to its first questions, and a prompt typed into it."""

from itertools import pairwise
from pathlib import Path

from tests.harness.agents.npm import installed, run
from tests.harness.terminal import Terminal

PACKAGE = "@anthropic-ai/claude-code"
VERSION = "2.1.329"

# The questions of a first run, in order, each asked once for an agent home or a directory: a text that appears on no other
# screen, and the answer to select. An empty answer is the one under the cursor.
QUESTIONS = {
    "Choose the text style": "",
    "Press Enter to continue": "",
    "Yes, I trust this folder": "Yes, I trust this folder",
    "Do you want to use this API key?": "Yes",
    "Yes, I accept": "Yes, I accept",
}
QUIET = 1.0  # seconds; on a busy machine the cursor is moved back late
CURSOR = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"  # before the selected item of a list, and before the prompt


def install(prefix: Path) -> Path:
    """Install Claude Code below a prefix such as ~/.local and return its program; the first time it is downloaded from npm."""
    prefix.mkdir(parents=True, exist_ok=True)
    run(["cp", "-a", "--reflink=auto", f"{installed(PACKAGE, VERSION, _finish)}/.", prefix])
    return prefix / "bin/claude"


def environment(url: str) -> dict[str, str]:
    """Return variables that make Claude Code use only the model server at this URL."""
    # With ANTHROPIC_API_KEY instead, Claude Code asks whether to use the key, and a first run contacts its vendor's server.
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def options(url: str) -> list[str]:
    """Return the same variables as options of agent-dev."""
    return [word for name, value in environment(url).items() for word in ("--env", f"{name}={value}")]


def onboard(terminal: Terminal, timeout: float = 60) -> list[str]:
    """Answer the questions of a first run until the prompt appears; return the questions."""
    asked: list[str] = []
    while not is_ready(terminal.wait_for(lambda text: is_ready(text) or _question(text) is not None, timeout)):
        # For a moment a new question ignores input: it lets the cursor move and then moves it back.
        question = _question(terminal.wait_quiet(QUIET, timeout))
        if question is not None and _has_answered(terminal, question, timeout):
            asked.append(question)
    return asked


def is_ready(text: str) -> bool:
    """Return whether a screen shows the prompt line between two rules."""
    rows = text.splitlines()
    return any(above.startswith("──") and row.startswith(CURSOR) for above, row in pairwise(rows))


def send_prompt(terminal: Terminal, prompt: str) -> None:
    """Type a prompt or a command such as /exit, wait until it appears, and send it."""
    terminal.send(prompt)
    terminal.wait_for(lambda text: any(row.startswith(CURSOR) and prompt in row for row in text.splitlines()))
    terminal.keys("enter")


def _question(text: str) -> str | None:
    return next((question for question in QUESTIONS if question in text), None)


def _has_answered(terminal: Terminal, question: str, timeout: float) -> bool:
    """Move the cursor of a list by one, or confirm the current choice; return whether the question is gone."""
    choice, before = QUESTIONS[question], _current_choice(terminal.text())
    terminal.keys("enter" if before.endswith(choice) else "down")
    text = terminal.wait_for(lambda text: question not in text or _current_choice(text) != before, timeout)
    return question not in text


def _current_choice(text: str) -> str:
    """Return the choice under the cursor."""
    rows = [row.strip() for row in text.splitlines()]
    return next((row.removeprefix(CURSOR).strip() for row in rows if row.startswith(CURSOR)), "")


def _finish(prefix: Path) -> None:
    """Run the package's install script: since npm 11, npm asks before running one."""
    run(["node", prefix / "lib/node_modules" / PACKAGE / "install.cjs"])
    run([prefix / "bin/claude", "--version"])
