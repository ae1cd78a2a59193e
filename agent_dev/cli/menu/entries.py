"""The entries of the menu: the commands that are useful in a state, the most useful one first."""

from collections.abc import Iterator

from agent_dev.cli.render.overview import FIRST_AGENT, Overview, coding_agents
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store

MAX_ENTRIES = 10
_MAX_REVIEWS, _MAX_AGENTS = 2, 3


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """An entry: its key ("" for none), its label, and the arguments of `agent-dev` that it runs."""

    key: str
    label: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        """Return the command to type."""
        return " ".join(("agent-dev", *self.arguments))


def menu_entries(overview: Overview, *, has_merge: bool) -> tuple[MenuEntry, ...]:
    """Return at most ten entries; `has_merge`: a merge of this repository can be undone."""
    first = [*_questions(overview), *_sessions(overview)]
    last = [*_install(overview)]
    last += [MenuEntry("u", "undo the last merge", ("undo",))] if has_merge else []
    last += [MenuEntry("s", "settings", ("init",)), MenuEntry("h", "help", ("--help",))]
    starts = [*_starts(overview)][: MAX_ENTRIES - len(first) - len(last)]
    return (*first, *starts, *last)


def _questions(overview: Overview) -> Iterator[MenuEntry]:
    for name in [*overview.questions][:1]:
        yield MenuEntry("a", f"approve or deny what waits in {name}", ("approve", "--in", name))


def _sessions(overview: Overview) -> Iterator[MenuEntry]:
    """Yield the review of the newest sessions that wait, and the resumption of the newest one."""
    waiting = [one for one in reversed(overview.sessions) if one.state in (store.WAITING, store.KILLED)]
    for key, one in zip("r", waiting, strict=False):
        yield MenuEntry(key, f"review session {one.name}", ("merge", one.name))
    for one in waiting[1:_MAX_REVIEWS]:
        yield MenuEntry("", f"review session {one.name}", ("merge", one.name))
    for one in [one for one in waiting if not one.record.get("options", {}).get("direct")][:1]:
        yield MenuEntry("c", f"continue session {one.name}", ("resume", one.name))
    for one in [one for one in reversed(overview.sessions) if one.state == store.RUNNING][:1]:
        yield MenuEntry("w", f"watch session {one.name}", ("watch", one.name))


def _starts(overview: Overview) -> Iterator[MenuEntry]:
    installed = overview.agents.installed
    agents = coding_agents(overview.agents)[:_MAX_AGENTS]
    for number, name in enumerate(agents, 1):
        yield MenuEntry(str(number), f"start {name}", (name,))
    if "bash" in installed:
        yield MenuEntry("b", "start a shell in the sandbox", ("bash",))
    if not agents and not overview.agents.problem:
        yield MenuEntry("d", "try a scripted agent, no account", ("demo",))


def _install(overview: Overview) -> Iterator[MenuEntry]:
    agents = overview.agents
    if agents.problem:
        yield MenuEntry("t", "test what this machine supports", ("doctor",))
    elif coding_agents(agents):
        yield MenuEntry("i", "list the agents that can be installed", ("install", "--list"))
    else:
        name = FIRST_AGENT if FIRST_AGENT in agents.missing or not agents.missing else agents.missing[0]
        yield MenuEntry("i", f"install {name}", ("install", name))
