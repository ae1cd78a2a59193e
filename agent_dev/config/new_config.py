"""The text of config.yaml from the answers of `agent-dev init`: a new file, or an existing one with these keys changed."""

from agent_dev.config.limits import format_limit
from agent_dev.config.profile import NETS
from agent_dev.value import Value

_HEADER = """\
# Settings of agent-dev for all agents. `agent-dev config --all` shows what
# applies, `agent-dev init` asks again. A key that begins with `# ` is a
# default or an example.
"""
_WORDS_OF_YAML = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null", "~"))
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-{}~")
_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/~_")


class NewSettings(Value):
    """Settings that `agent-dev init` asks for; the defaults are those of agent-dev."""

    home: str = "~/aihome"
    net: str = "host"
    limits: tuple[tuple[str, int], ...] = ()
    policy: str = "guard"
    env: tuple[str, ...] = ()
    share: tuple[str, ...] = ()
    ro: tuple[str, ...] = ()


DEFAULTS = NewSettings()
KEYS = DEFAULTS.__match_args__
_ABOUT = {
    "home": "The home directory of the agents. With {profile} or {project} in the path:\none for each agent or repository.",
    "net": f"The network of the agents: {', '.join(NETS[:-1])} or {NETS[-1]}.",
    "limits": "Limits of a run: tmp, memory, processes, file-size, open-files, time,\nfree-disk.",
    "policy": "The rules for commands that an agent starts: guard, strict, off, or a set\nof policy.yaml.",
    "env": "Variables of your environment that agents get, for example API keys.",
    "share": "Sockets of this machine that agents can use: ssh-agent, gpg-agent, dbus,\ndisplay, clipboard-images, docker.",
    "ro": "More paths that agents can read. A path that ends in `?` may be missing.",
}
_EXAMPLES = {
    "limits": ("limits:", "  memory: 8G"),
    "env": ("env:", "  - ANTHROPIC_API_KEY"),
    "share": ("share:", "  - ssh-agent"),
    "ro": ("ro:", "  - ~/src/library"),
}


def config_text(answers: NewSettings) -> str:
    """Return a commented config.yaml. Defaults are comments, so that a profile can have other ones."""
    return _HEADER + "".join(f"\n{_block(answers, key)}" for key in KEYS)


def changed_text(old: str, before: NewSettings, answers: NewSettings) -> str:
    """Return an existing config.yaml, whose settings are `before`, with the answers; comments and other keys stay.

    The caller parses the result: unusual YAML can make it invalid.
    """
    lines = old.splitlines()
    for key in KEYS:
        if getattr(before, key) == getattr(answers, key):
            continue
        first, last = _span(lines, key)
        if last > first:
            removed = lines[first:last]
            kept = [f"# {line}" for line in removed] if any("#" in line for line in removed) else []
            lines[first:last] = [*kept, *(_setting(answers, key) or _example(key))]
            continue
        first, last = _example_span(lines, key)
        lines[first:last] = _setting(answers, key) if last > first else ["", *_block(answers, key).splitlines()]
    return "".join(f"{line}\n" for line in lines)


def _block(answers: NewSettings, key: str) -> str:
    rows = _setting(answers, key) or _example(key)
    about = (f"# {line}" for line in _ABOUT[key].splitlines())
    return "".join(f"{row}\n" for row in (*about, *rows))


def _setting(answers: NewSettings, key: str) -> list[str]:
    """Return the lines that set a key; none for the default."""
    value = getattr(answers, key)
    if value == getattr(DEFAULTS, key):
        return []
    if key == "limits":
        return [f"{key}:", *(f"  {name}: {format_limit(name, number)}" for name, number in value)]
    if isinstance(value, tuple):
        return [f"{key}:", *(f"  - {_scalar(item)}" for item in value)]
    return [f"{key}: {_scalar(value)}"]


def _example(key: str) -> list[str]:
    return [f"# {line}" for line in _EXAMPLES.get(key, (f"{key}: {getattr(DEFAULTS, key)}",))]


def _scalar(text: str) -> str:
    """Return text as YAML; quoted if it could mean something else."""
    is_plain = text[:1] in _FIRST and _PLAIN.issuperset(text) and text.lower() not in _WORDS_OF_YAML
    return text if is_plain and text else f"'{text.replace(chr(39), chr(39) * 2)}'"


def _span(lines: list[str], key: str) -> tuple[int, int]:
    """Return the first line of a key at the top level and the line after its value; an empty span if it is missing."""
    first = next((n for n, line in enumerate(lines) if line.replace('"', "").replace("'", "").startswith(f"{key}:")), len(lines))
    last = first + 1
    for number in range(first + 1, len(lines)):
        line = lines[number]
        if line.startswith((" ", "\t", "-", "]", "}")) and line.strip():
            last = number + 1
        elif line and not line.startswith("#"):
            break
    return first, min(last, len(lines))


def _example_span(lines: list[str], key: str) -> tuple[int, int]:
    example = _example(key)
    size = len(example)
    first = next((n for n in range(len(lines)) if lines[n : n + size] == example), len(lines))
    return first, min(first + size, len(lines))
