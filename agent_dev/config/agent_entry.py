"""Facts about an agent: the `agent` mapping of its profile, the one table for install, resume, home and the review."""

from typing import Any

from agent_dev.config.profile import Profile
from agent_dev.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent. Paths are relative to the agent home.

    `npm`, `pypi`: its package, one of them or none. `node`, `python`: the lowest version it needs, or LOWEST-HIGHEST. `keys`:
    variables with its keys. `login`: files of its login. `memory` to `plugins`: files of the user's that `home --import`
    offers; `PATH#KEY` is one key of a file. `hosts`: network rules of what it talks to; `telemetry`: of what it sends reports
    to. `resume`: words that continue its last conversation. `repeat`: options of the first run that are then given again, with
    `=` at the end of the name if they have a value. `fork`: words that continue a copy of it, for a copied session.
    `conversations`: its conversation files, as PATH#KEY; the newest one of the directory replaces `{conversation}` in these
    words (`home/conversations.py`). `resume_interactive`: they need a terminal, and take no prompt.
    `prompt`: words that start it with a prompt. `task`: words that do a prompt without a terminal, and exit.
    `task_resume`: the words in place of `resume` after the subcommand with which `task` begins; `fork` then follows it,
    too. `bare`: subcommands, or first words of a prompt, without its standing options. `leaves`: patterns of files that it
    leaves in the repository. `instructions`, `instructions_set`, `instructions_files`: options, variables and files by
    which it learns how the sandbox works (`config/agent_instructions.py`). `seed`: files that its home gets unless it has
    them.
    """

    npm: str = ""
    pypi: str = ""
    node: str = ""
    python: str = ""
    keys: tuple[str, ...] = ()
    login: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    telemetry: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    repeat: tuple[str, ...] = ()
    fork: tuple[str, ...] = ()
    conversations: str = ""
    resume_interactive: bool = False
    prompt: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    task_resume: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    instructions_set: tuple[tuple[str, str], ...] = ()
    instructions_files: tuple[tuple[str, str], ...] = ()
    seed: tuple[tuple[str, str], ...] = ()
    runs_as_root: bool = False
    nests: bool = False

    @property
    def package(self) -> str:
        """Its package, whatever the registry; empty if it is not known."""
        return self.npm or self.pypi


def agent_entry(profile: Profile) -> AgentEntry:
    """Return the agent of a profile; an empty one if the profile says nothing about it."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in profile.agent}
    return AgentEntry(**fields)
