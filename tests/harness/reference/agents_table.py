"""The page about the agents, made from their profiles: `python -m tests.harness.reference`."""

import os
from pathlib import Path

from agent_dev.config import load
from agent_dev.config.agent_entry import AgentEntry, agent_entry

PAGE = Path(__file__).parents[3] / "docs/agents.md"
_HEAD = """\
# Agents

Made from the profiles in `profiles/` by `python -m tests.harness.reference`.

`agent-dev install AGENT` installs an agent in the agent home, with a newer node (from npm) or Python (with uv) if the agent needs
one, and checks that it starts. `install --list` lists the agents, `--version V` selects a version, `outdated` lists newer
versions, and `--upgrade` installs them. Only the agents that need the newer node use it: the repository's builds keep the
system's. Your registry and its certificates are used, but not your tokens.

`agent-dev -p PROMPT AGENT` gives any of them a prompt; without a terminal, the agent does this task and exits. In the table,
`{prompt}` stands for the prompt.

`agent-dev resume` runs the agent again, and the agent continues its conversation; with `--fresh`, it begins a new one. It
gets the options of the first run that its profile lists in `repeat`, such as `--model`, but not the prompt; `agent-dev resume
SESSION -- OPTIONS` gives others. In the column *continues with*, `{conversation}` stands for the id of the newest
conversation in the agent home that began in the session's directory; agents without it find the conversation themselves. If
the agent cannot continue its conversation, a line says so, and a new one begins. To name another conversation: `agent-dev
resume --fresh SESSION -- --resume ID` (Claude Code, Grok).

The login of an agent stays in the agent home (`home --reset --keep-login` keeps it). `agent-dev home --import` copies files of
your own, if you select them.

| agent | package | needs | prompt | without a terminal | continues with | instructed | as root | nests |
|---|---|---|---|---|---|---|---|---|
"""
_NOTES = """\

*Instructed*: it learns how the sandbox works ([profiles.md](profiles.md#instructions-for-the-agent)). *As root*: when root
started agent-dev, a test saw the agent do a task and, at a terminal, start, take a prompt (Droid: ask for its login), follow a
resize and exit on Ctrl-C.
*Nests*: its own sandbox works inside this one; the profiles switch it off. Keys are not passed unless you say so:
`--env ANTHROPIC_API_KEY`, or `env:` in `config.yaml`. The profiles switch telemetry off, except that of Droid and Gemini and some
of Cline's, which no option or variable does. With a network by rules, its hosts are denied.

| agent | variables with its keys | login | hosts |
|---|---|---|---|
"""
_FILES = """\

Files and directories of yours that `home --import` offers, relative to your home; [guide](guide.md#import-your-own-settings).

| agent | memory, settings | skills, commands | servers, hooks, plugins: run automatically |
|---|---|---|---|
"""


def make_page() -> str:
    """Return the page."""
    entries = {name: entry for name, entry in _entries() if entry.package}
    first = (_row(name, *_properties(one)) for name, one in entries.items())
    second = (_row(name, _list(one.keys), _list(one.login), _hosts(one)) for name, one in entries.items())
    third = (
        _row(
            name,
            _list((*one.memory, *one.settings)),
            _list((*one.skills, *one.commands)),
            _list((*one.servers, *one.hooks, *one.plugins)),
        )
        for name, one in entries.items()
    )
    tables = ((_HEAD, first), (_NOTES, second), (_FILES, third))
    return "".join(head + "\n".join(rows) + "\n" for head, rows in tables)


def _hosts(one: AgentEntry) -> str:
    """Return the hosts that are allowed, and those of telemetry, which are denied."""
    return ", ".join(one.hosts) + (f"; denied: {', '.join(one.telemetry)}" if one.telemetry else "")


def _entries() -> list[tuple[str, AgentEntry]]:
    names = sorted(name.removesuffix(".yaml") for name in os.listdir(load.profiles_folder()) if name.endswith(".yaml"))
    return [(name, entry_of(name)) for name in names if name not in ("policy", "risks")]


def entry_of(name: str) -> AgentEntry:
    """Return what the shipped profile of an agent says about it."""
    request = load.SettingsRequest(agent=name, home="/nonexistent", environ={}, is_read_only=True)
    return agent_entry(load.load_settings(request).profile)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _properties(one: AgentEntry) -> tuple[str, ...]:
    resume = _code(one.resume) + (f"; after `fork`: {_code(one.fork)}" if one.fork else "")
    resume += ", at a terminal and without a prompt" if one.resume_interactive else ""
    words = (_code(one.prompt), _code(one.task or one.prompt), resume)
    is_instructed = bool(one.instructions or one.instructions_set or any("{instructions}" in text for _, text in one.seed))
    return (_package(one), _needs(one), *words, _yes(is_instructed), _yes(one.runs_as_root), _yes(one.nests))


def _package(entry: AgentEntry) -> str:
    return f"npm `{entry.npm}`" if entry.npm else f"PyPI `{entry.pypi}`"


def _needs(entry: AgentEntry) -> str:
    return f"node {entry.node}" if entry.node else f"Python {entry.python}" if entry.python else ""


def _code(words: tuple[str, ...]) -> str:
    return f"`{' '.join(words)}`" if words else ""


def _list(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _yes(value: bool) -> str:  # noqa: FBT001  (a cell)
    return "yes" if value else ""
