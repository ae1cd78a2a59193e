"""What `agent-dev run --help` says, and what `agent-dev help WORD` stands for."""

from agent_dev.errors import UsageError

RUN = """\
usage: agent-dev [OPTIONS] run AGENT [ARGS…]
       agent-dev [OPTIONS] run -- COMMAND [ARGS…]
       agent-dev [OPTIONS] run --direct[=PROVIDER] AGENT [ARGS…]

Run an agent as `agent-dev AGENT` does, also one whose profile is named like a
word of agent-dev's (agent-dev profiles lists them).

  --direct[=PROVIDER]  in the real tree, behind a snapshot that agent-dev
                       restore brings back; PROVIDER is btrfs, snapper, reflink
                       or copy, else the best there is

OPTIONS come before `run`: agent-dev --help lists them

example:  agent-dev run --direct claude
"""


def asked_for(words: list[str], known: tuple[str, ...]) -> list[str]:
    """Return the words that `help WORDS` stands for. Raises UsageError."""
    if not words or words[0].startswith("-"):
        return ["--help"]
    if words[0] not in known:
        from agent_dev.core import checks  # only to complain

        raise UsageError(message=f"help: no word {words[0]}{checks.nearest(words[0], known)}", hint="agent-dev --help lists them")
    return [words[0], "--help"]
