"""The questions of `agent-dev init`, and the settings that the answers stand for; no effects."""

from collections.abc import Mapping

from agent_dev.config.limits import format_limit, parse_limit
from agent_dev.config.new_config import NewSettings
from agent_dev.config.profile import NETS
from agent_dev.quick_dataclass import dataclass
from tui.setup.form import Choice, Picks, Preview, Question

WRITE, UPDATE, NEXT_TO_IT, NOTHING = "write", "update", "next to it", "nothing"
HOMES = {"common": "~/aihome", "agent": "~/aihomes/{profile}", "project": "~/aihomes/{project}"}
_HOME_LABELS = {
    "common": Choice(HOMES["common"], "one home for all", "each agent finds its login and history in every repository"),
    "agent": Choice(HOMES["agent"], "one home per agent", "an agent cannot read the logins of the others"),
    "project": Choice(
        HOMES["project"], "one home per repository", "nothing passes from one repository to another; log in once in each"
    ),
}
_NET_LABELS = {
    "host": Choice("host", "the host's network", "an agent reaches its model, and also services on this machine"),
    "none": Choice("none", "no network", "for commands and agents with a local model inside"),
    "allow": Choice("allow", "by rules", "the hosts of the agent's profile, and what `allow:` names"),
    "ask": Choice("ask", "by rules and questions", "like `by rules`, but other hosts wait until you run agent-dev approve"),
    "learn": Choice("learn", "every public name", "no private addresses; a run prints rules for what was reached"),
}
_POLICY_LABELS = (
    Choice("guard", "guard", "takes checkpoints before risky commands, denies disastrous ones"),
    Choice("strict", "strict", "asks you more often"),
    Choice("off", "off", "no rules and no log of commands"),
)
_MEMORY, _TIME = ("4G", "8G", "16G"), ("1h", "4h", "8h")
_SOCKETS = {
    "ssh-agent": "agents can log in wherever your keys can",
    "gpg-agent": "agents can sign and decrypt with your keys",
    "display": "agents can read your screen, and may type into other windows",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about this machine for the questions.

    `agents`: names and packages; `keys`: variables with an agent's key that are set, and the agents; `sockets`: those that exist.
    `path`: config.yaml; `has_config`: it exists.
    """

    agents: tuple[tuple[str, str], ...]
    installed: tuple[str, ...]
    keys: Mapping[str, str]
    sockets: tuple[str, ...]
    path: str
    has_config: bool


def make_questions(facts: Facts, answers: NewSettings, preview: Preview) -> tuple[Question, ...]:
    """Return the questions; values that are set already and no usual answer are offered, too."""
    return (
        Question(
            "agents",
            "Agents",
            "Which agents do you use? The next step shows the command that installs them.",
            _agents(facts),
            is_multiple=True,
        ),
        Question(
            "home",
            "Agent home",
            "The home directory that agents have instead of yours.",
            _with((*_HOME_LABELS.values(),), answers.home),
        ),
        Question(
            "net",
            "Network",
            "What can agents reach?",
            _with(tuple(_NET_LABELS[one] for one in NETS), answers.net),
        ),
        Question("memory", "Memory", "How much memory can a run use?", _limits("memory", _MEMORY, answers)),
        Question("time", "Time", "How long may a run take? Then the agent is stopped.", _limits("time", _TIME, answers)),
        Question(
            "policy", "Command policy", "Rules for the commands that an agent starts.", _with(_POLICY_LABELS, answers.policy)
        ),
        Question(
            "carry",
            "Pass through",
            "Which variables, sockets and paths do all agents get? None is the safest. For files: agent-dev home --import.",
            _carried(facts, answers),
            is_multiple=True,
        ),
        Question("write", "Write", "This will be config.yaml:", _endings(facts), preview=preview),
    )


def initial_picks(facts: Facts, answers: NewSettings, agents: tuple[str, ...]) -> Picks:
    """Return what is selected at first."""
    limits = dict(answers.limits)
    return {
        "agents": agents or tuple(name for name, _ in facts.agents if name in facts.installed),
        "home": (answers.home,),
        "net": (answers.net,),
        **{name: (format_limit(name, limits[name]) if name in limits else "",) for name in ("memory", "time")},
        "policy": (answers.policy,),
        "carry": tuple(f"{key}:{item}" for key in ("env", "share", "ro") for item in getattr(answers, key)),
        "write": (UPDATE if facts.has_config else WRITE,),
    }


def picked_answers(picks: Picks, before: NewSettings) -> NewSettings:
    """Return the settings; limits that are not asked for stay."""
    limits = dict(before.limits)
    for name in ("memory", "time"):
        text = picks[name][0]
        limits.pop(name, None)
        if text:
            limits[name] = parse_limit(name, text)
    carried = [one.partition(":")[::2] for one in picks["carry"]]
    env, share, ro = (tuple(item for kind, item in carried if kind == key) for key in ("env", "share", "ro"))
    ordered = tuple((name, limits[name]) for name in {**dict(before.limits), **limits} if name in limits)
    return NewSettings(picks["home"][0], picks["net"][0], ordered, picks["policy"][0], env, share, ro)


def next_step(agents: tuple[str, ...], installed: tuple[str, ...], *, is_repository: bool) -> str:
    """Return the command to run after `init`."""
    missing = [name for name in agents if name not in installed]
    if missing:
        return f"agent-dev install {' '.join(missing)}"
    start = f"agent-dev {agents[0] if agents else 'demo'}"
    return start if is_repository or not agents else f"cd REPOSITORY && {start}"


def _agents(facts: Facts) -> tuple[Choice, ...]:
    return tuple(
        Choice(name, f"{name}{' (installed)' if name in facts.installed else ''}", package) for name, package in facts.agents
    )


def _with(choices: tuple[Choice, ...], value: str) -> tuple[Choice, ...]:
    return choices if value in [one.value for one in choices] else (*choices, Choice(value, value, "as it is now"))


def _limits(name: str, texts: tuple[str, ...], answers: NewSettings) -> tuple[Choice, ...]:
    now = dict(answers.limits).get(name)
    choices = (Choice("", "no limit"), *(Choice(text, text) for text in texts))
    return choices if now is None else _with(choices, format_limit(name, now))


def _carried(facts: Facts, answers: NewSettings) -> tuple[Choice, ...]:
    choices = [Choice(f"env:{name}", f"variable {name}", f"a secret: the key of {agent}") for name, agent in facts.keys.items()]
    choices += [Choice(f"share:{name}", f"socket {name}", _SOCKETS[name]) for name in facts.sockets if name in _SOCKETS]
    labels = {"env": "variable", "share": "socket", "ro": "read-only path"}
    known = [one.value for one in choices]
    present = [(f"{key}:{item}", f"{label} {item}") for key, label in labels.items() for item in getattr(answers, key)]
    return (*choices, *(Choice(value, label, "as it is now") for value, label in present if value not in known))


def _endings(facts: Facts) -> tuple[Choice, ...]:
    nothing = Choice(NOTHING, "write nothing")
    if not facts.has_config:
        return Choice(WRITE, f"write {facts.path}"), nothing
    update = Choice(UPDATE, f"change {facts.path}", "other keys and comments stay; the old file is kept as config.yaml.old")
    return update, Choice(NEXT_TO_IT, f"write {facts.path}.new", "config.yaml stays as it is"), nothing
