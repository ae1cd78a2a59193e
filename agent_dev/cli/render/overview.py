"""The text of `agent-dev` without arguments. It fits on a screen of 80 columns and 24 lines."""

import time
from collections.abc import Iterator, Mapping, Sequence

from agent_dev.agents.startable import InstalledAgents
from agent_dev.cli.render.format import command_text, cut_text, format_table
from agent_dev.cli.render.question_words import count_questions
from agent_dev.quick_dataclass import dataclass
from agent_dev.sanitize import visible
from agent_dev.session import store
from agent_dev.session.origin import typed_words
from agent_dev.session.sessions import ListedSession

ABOUT = """\
agent-dev runs a coding agent on a copy-on-write view of a repository. When the
agent exits, you review its changes and apply those that you select.

  start  cd REPOSITORY && agent-dev claude
  try    agent-dev demo    a scripted agent, without an account
  help   agent-dev --help
"""
_WIDTH = 80
_MAX_SESSIONS = 8
FIRST_AGENT = "claude"  # suggested while none is installed
_FEW = 2  # missing agents that are named
_NOT_CODING_AGENTS = ("bash", "demo")


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of a directory. `questions`: the numbers of commands and connections that wait for an approval, by session."""

    root: str
    home: str
    sessions: tuple[ListedSession, ...]
    questions: Mapping[str, tuple[int, int]]
    agents: InstalledAgents
    is_repository: bool


def overview_text(overview: Overview) -> str:
    """Return the state and the next command, or what agent-dev is if there is neither a repository nor a session."""
    if not is_known(overview):
        return ABOUT
    command, about = next_command(overview)
    rows = [*state_rows(overview), "", f"  next  {command}    {about}", "  help  agent-dev --help"]
    return "".join(f"{cut_text(row, _WIDTH)}\n" for row in rows)


def is_known(overview: Overview) -> bool:
    """Return whether there is a state to show: a repository, or a session in a directory without git."""
    return overview.is_repository or bool(overview.sessions)


def state_rows(overview: Overview) -> list[str]:
    """Return the state: the sessions, what waits for an approval, the agents."""
    if not is_known(overview):
        return ABOUT.splitlines()[:2]
    root = overview.root
    place = f"~{root.removeprefix(overview.home)}" if root.startswith(f"{overview.home}/") else root
    rows = [
        visible(place),
        *(f"  {row}" for row in _sessions(overview.sessions)),
        *(f"  approvals  {count_questions(*counts)} {_wait(counts)} in {name}" for name, counts in _first(overview)),
        *(f"  {row}" for row in _agents(overview.agents)),
    ]
    return [cut_text(row, _WIDTH) for row in rows]


def next_command(overview: Overview) -> tuple[str, str]:
    """Return the most useful command in this state, and what it does."""
    running = [one.name for one in overview.sessions if one.state == store.RUNNING]
    waiting = [one.name for one in overview.sessions if one.state in (store.WAITING, store.KILLED)]
    is_only = len(overview.sessions) == 1  # then the command needs no name
    if overview.questions:
        return "agent-dev approve" + ("" if is_only else f" --in {next(iter(overview.questions))}"), "approve or deny what waits"
    if waiting:
        return "agent-dev merge" + ("" if is_only else f" {waiting[-1]}"), "select and apply its changes"
    if running:
        return "agent-dev status" + ("" if is_only else f" {running[-1]}"), "list its changes so far"
    return _first_command(overview.agents)


def _first_command(agents: InstalledAgents) -> tuple[str, str]:
    if agents.problem:
        return "agent-dev doctor", "test what this machine supports"
    if installed := coding_agents(agents):
        return f"agent-dev {installed[0]}", "start the agent"
    if agents.missing:
        agent = FIRST_AGENT if FIRST_AGENT in agents.missing else agents.missing[0]
        return f"agent-dev install {agent}", "install an agent (or try: agent-dev demo)"
    return "agent-dev profiles", "list the profiles"


def coding_agents(agents: InstalledAgents) -> list[str]:
    """Return the installed agents without the shell and the demo."""
    return [name for name in agents.installed if name not in _NOT_CODING_AGENTS]


def _first(overview: Overview) -> list[tuple[str, tuple[int, int]]]:
    return [*overview.questions.items()][:_MAX_SESSIONS]


def _wait(counts: tuple[int, int]) -> str:
    return "waits" if sum(counts) == 1 else "wait"


def _sessions(found: Sequence[ListedSession]) -> Iterator[str]:
    """Yield a row for each of the newest sessions: running ones first, then by age."""
    ordered = [one for kind in (True, False) for one in reversed(found) if (one.state == store.RUNNING) is kind]
    yield from format_table([_session(one) for one in ordered[:_MAX_SESSIONS]])
    if len(found) > _MAX_SESSIONS:
        yield f"and {len(found) - _MAX_SESSIONS} more: agent-dev sessions"
    if not found:
        yield "sessions   none running or waiting"


def _session(one: ListedSession) -> tuple[str, ...]:
    if one.problem:
        return f"{'damaged':9}", one.session.id, visible(one.problem), ""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.record["started"] // 10**9))
    return f"{one.state:9}", one.name, when, command_text(typed_words(one.record))


def _agents(agents: InstalledAgents) -> Iterator[str]:
    if agents.problem:
        yield f"agents     none can start: {visible(agents.problem)}"
        return
    others = f"{', '.join(agents.missing[:_FEW])}{f' and {more} more' if (more := len(agents.missing) - _FEW) > 0 else ''}"
    missing = f"; not installed: {others}" if agents.missing else ""
    yield f"agents     {', '.join(agents.installed) or 'none'}{missing}"


def _number(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"
