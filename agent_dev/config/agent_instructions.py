"""A short text that tells an agent how its sandbox works, and the ways in which an agent takes it."""

from agent_dev.config.profile import OFF, Profile
from agent_dev.paths import RUN
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = f"{RUN}/instructions"  # inside
FILE = f"{FOLDER}/agent-dev.md"
FIRST_LINE = "# You work in a sandbox (agent-dev)"
_TRANSACTIONS = """\
- For a command that may fail halfway, `tx COMMAND` runs it and rolls its changes back if it fails. `checkpoint -m TEXT` saves the
  state of the files; `rollback CHECKPOINT` returns to it.
"""


class AgentInstructions(Value):
    """The instructions of one run's agent: words after its standing options, variables, and files of the sandbox.

    `seeds`: files that its home gets unless it has them: path there, content.
    """

    options: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()  # path inside, content
    seeds: tuple[tuple[str, bytes], ...] = ()


def agent_instructions(profile: Profile, root: str) -> AgentInstructions:
    """Return what a profile's agent gets; nothing if its profile names no way, or `instructions` is false."""
    agent = dict(profile.agent)
    options, variables = agent.get("instructions", ()), agent.get("instructions_set", ())
    seeds = _seeds(profile, agent.get("seed", ()))
    if not profile.instructions or not (options or variables):
        return AgentInstructions(seeds=seeds)
    text = describe_sandbox(profile, root)

    def filled(value: "Any") -> str:
        return (
            str(value)
            .replace("{instructions_folder}", FOLDER)
            .replace("{instructions_file}", FILE)
            .replace("{instructions}", text)
        )

    files = {FILE: text, **{f"{FOLDER}/{name}": filled(content) for name, content in agent.get("instructions_files", ())}}
    known = {name for name, _ in profile.set}
    return AgentInstructions(
        tuple(map(filled, options)),
        tuple((name, filled(value)) for name, value in variables if name not in known),
        tuple((path, content.encode("utf-8", "surrogateescape")) for path, content in files.items()),
        seeds,
    )


def _seeds(profile: Profile, rows: "tuple[tuple[str, str], ...]") -> tuple[tuple[str, bytes], ...]:
    """Return the files for the home. Sessions of other repositories use it, too, so that the instructions name none."""
    text = describe_sandbox(profile, "The repository")
    return tuple(
        (path, content.replace("{instructions}", text).encode("utf-8", "surrogateescape"))
        for path, content in rows
        if profile.instructions or "{instructions}" not in content
    )


def describe_sandbox(profile: Profile, root: str) -> str:
    """Return the instructions, as Markdown."""
    network = "The host's network is reachable." if profile.net == "host" else f"The network is limited (`net: {profile.net}`)."
    denied = ""
    if profile.policy != OFF:
        denied = "- A policy denies some commands. If one is denied, do not work around it; tell the user what you needed.\n"
    return f"""\
{FIRST_LINE}

- {root} is a copy-on-write view of the user's files. Change or delete there whatever the task needs. When you exit, the user
  reviews your changes and applies those that they select; until then their files stay as they are.
- Commit as usual, on any branch: the user reviews commits, too, and imports them. Git hooks that you install stay in the sandbox.
- Your home directory belongs to the sandbox. The system is read-only, there is no `sudo`, and the user's other files and
  credentials are not visible. Do not search for them; ask the user for what is missing.
- Install programs in your home: `npm install -g --prefix ~/.local/agent NAME`, `pip install --user NAME`. If `~/.local/bin` is
  read-only, it is the user's: install into `~/.local/agent/bin`, which is in PATH, and use a venv instead of `--user`.
- {network}
{_TRANSACTIONS if profile.tx_inside else ""}{denied}"""
