"""What `agent-dev --help` and `agent-dev run --help` say, and what `help WORD` stands for. No line is wider than a terminal."""

from agent_dev.errors import UsageError

HELP = """\
agent-dev: run a coding agent on a copy-on-write view of a repository, take home
what you choose

  agent-dev [OPTIONS] AGENT [ARGS…]    AGENT is a profile (agent-dev profiles),
                                       else any command
  agent-dev [OPTIONS] -- COMMAND [ARGS…]
  agent-dev run NAME [ARGS…]           a profile that is named like one of the
                                       words below
  agent-dev run --direct[=PROVIDER] AGENT
                                       in the real tree, behind a snapshot;
                                       agent-dev restore brings it back

  agent-dev merge [SESSION]            choose what comes home; --all or
                                       --take PATH without the screen
  agent-dev merge --commits [BRANCH]   bring commits home: with their files, as
                                       a branch, squashed …
  agent-dev undo | redo [MERGE]        take the last merge back, or do it again
  agent-dev merges                     what was merged, and what of it stands
  agent-dev tx [OPTIONS] -- COMMAND    merge by itself what succeeds, leave
                                       nothing of what fails
  agent-dev status | diff | commits    what the agent changed, as a list, as a
                                       patch, as commits
  agent-dev sessions                   sessions that wait; --all: everywhere
  agent-dev resume | stop | discard    go on with a session, end it, put it into
                                       the trash
  agent-dev checkpoint | checkpoints   keep what a session holds now; what was
                                       kept
  agent-dev rollback CHECKPOINT [PATH…]
                                       bring a session back to it, or some paths
  agent-dev trash [--bring PATH]       what was deleted in a session, and
                                       bringing it back
  agent-dev log [--commands|--changes]
                                       what became of a session, what its agent
                                       ran, what changed when
  agent-dev backup once|every DIR --to DIR
                                       back a directory up, now or again and
                                       again
  agent-dev show AGENT                 what a run would look like; runs nothing
  agent-dev profiles | doctor          the agents there are; what this machine
                                       can do
  agent-dev policy check -- COMMAND    which rule decides what becomes of it
  agent-dev home                       what the agent home holds, --diff: what
                                       changed, --reset: a fresh one
  agent-dev trust                      let .agent-dev.yaml of this repository
                                       count, --show, --revoke
  agent-dev approve [NUMBER]           let a command start that waits for your
                                       answer
  agent-dev clean                      empty the trash, by age and size
  agent-dev config [AGENT]             every value that counts, and where it
                                       comes from
  agent-dev WORD --help                more about one of these words

options, before AGENT:
  -C DIR               work in DIR
  --home DIR           the agent home (~/aihome)
  --net host|none      the host's network, or none at all (host)
  --ro PATH            show PATH, read-only
  --rw PATH            show PATH and let the agent write there directly, without
                       review
  --overlay PATH       show PATH and collect changes to it for review, as for
                       the repository
  --env NAME[=VALUE]   let a variable in
  --share NAME         hand a socket in: ssh-agent, gpg-agent, dbus, display,
                       docker
  --limit NAME=VALUE   tmp, memory, processes, file-size, open-files, time,
                       free-disk
  --no-merge           do not open the merge screen afterwards
  --name NAME          a name for the session
  --profile FILE       a profile from a file
  --config FILE        another config.yaml
  --debug              print each external command before it runs
  --version, --help

example:  cd ~/src/shop && agent-dev claude
"""

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
        from agent_dev.config import validators as checks  # only to complain

        raise UsageError(message=f"help: no word {words[0]}{checks.nearest(words[0], known)}", hint="agent-dev --help lists them")
    return [words[0], "--help"]
