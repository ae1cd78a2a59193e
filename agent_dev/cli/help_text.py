"""The texts of `agent-dev --help`, `help --all` and `run --help`, and the target of `help COMMAND`.

No line exceeds 80 columns. HELP and RUN fit on one screen of 24 lines.
"""

from agent_dev.errors import UsageError

HELP = """\
agent-dev: run a coding agent on a copy-on-write view of a repository and apply
the changes that you select

run       AGENT [ARGS…]       run an agent, such as claude, codex or bash
          -- COMMAND [ARGS…]  run a command
          tx -- COMMAND       apply the changes of a command if it succeeds
review    merge [SESSION]     apply selected changes; --commits imports commits
          undo                revert the last merge; `merges` lists all
          status              list the changes of a session, with risks
          diff                print the changes as a patch
          commits             list the agent's commits
sessions  sessions            list sessions; watch shows a running one live
          resume              run the agent of a session again
          stop                stop a running session
          discard             move a session to the trash
          rollback N          set a session back to checkpoint N
settings  init                ask for settings and write config.yaml
          install AGENT       install an agent in the agent home
          show AGENT          show the sandbox and the settings of a run
          doctor              test what this machine supports

help --all lists all subcommands and options; SUBCOMMAND --help describes one
example:  cd ~/src/shop && agent-dev claude; without an account: agent-dev demo
"""

ALL = """\
agent-dev: run a coding agent on a copy-on-write view of a repository and apply
the changes that you select

run
  [OPTIONS] AGENT [ARGS…]    run an agent: a profile, or a listed program
  [OPTIONS] -- COMMAND       run a command
  [OPTIONS] run NAME         run a profile that is named like a subcommand
  run --direct[=PROVIDER]    run in the real tree, after a snapshot
  restore [SNAPSHOT]         restore the tree from before a run with --direct
  tx [OPTIONS] -- COMMAND    apply the changes of a command if it succeeds
  tx --many FILE --on HOST,… run a list of commands on other machines
  tx --best N --score CMD    run N attempts and propose the best one
  work                       run a task of another machine; `tx --on` starts it

review
  merge [SESSION]            select and apply changes (--all, --take PATH)
  merge --commits [BRANCH]   import commits with their files
  merge --html FILE          write the review as a static page
  undo [MERGE]               revert a merge
  redo [MERGE]               apply an undone merge again
  merges                     list the merges and their state
  status [SESSION]           list the changes of a session, with risks
  diff [SESSION] [PATH…]     print the changes as a patch
  commits [SESSION]          list the agent's commits; --decline declines them
  worktrees [SESSION]        list the work trees that the agent made

sessions
  sessions                   list running and waiting sessions; --all
  watch [SESSION]            show live what a running session does
  exec [SESSION] -- COMMAND  run a command in a session, even an ended one
  shell [SESSION]            open your shell in a session
  attach [SESSION]           attach the terminal to a detached session
  sessions rename S NAME     rename a session that has ended
  resume [SESSION]           run the agent of a session again
  fork [SESSION]             copy an ended session; --name names the copy
  bundle [SESSION] FILE      write a session as one file; --show FILE checks one
  import FILE                create a session from a bundle; --signed-by WHO
  stop [SESSION]             stop a running session
  discard [SESSION…]         move sessions to the trash
  undiscard [SESSION]        restore a session from the trash
  checkpoint                 record the state of a session
  checkpoints                list the checkpoints of a session
  rollback CHECKPOINT        roll a session or some paths back
  deleted                    list deleted files; --restore PATH restores one
  log                        show the log; --commands, --network, --changes
  approve [NUMBER]           approve or deny commands and connections that wait

settings and maintenance
  init                       ask for settings and write config.yaml
  install AGENT…             install agents in the agent home; --list
  outdated                   list agents that have a newer version
  why PATH|HOST|COMMAND      say why an agent sees, reaches or runs it, or not
  learn AGENT                run an agent (or -- COMMAND), note what it misses
  show AGENT                 show the sandbox and the settings of a run
  profiles                   list the profiles
  config [AGENT]             show the settings that differ from the defaults
  doctor                     test what this machine supports
  policy check -- COMMAND    show the policy's decision on a command
  trust                      trust .agent-dev.yaml; --show, --revoke
  home                       show the agent home; --diff, --reset, --import
  clean                      remove old trash, merges and caches
  backup once|every DIR --to DIR
                             back up a directory once or periodically
  completion bash|zsh|fish   print the completion script of a shell

options, before AGENT
  -C DIR               work in DIR
  --home DIR           the agent home (~/aihome)
  --net host|none|allow|ask|learn
                       the host's network (host), no network, only what rules
                       allow, also what you approve, or every public name, to
                       learn rules
  --allow RULE         with a network by rules: reach NAME[:PORT,…] (443),
                       *.NAME, ADDRESS[/BITS], localhost:PORT or unix:PATH
  --deny RULE          do not reach what a rule names; wins over --allow
  --publish [OUTSIDE:]PORT|auto
                       make servers of the agent reachable on the loopback
                       of this machine
  --ro PATH            mount PATH read-only
  --rw PATH            mount PATH writable, without review
  --overlay PATH       mount PATH with an overlay; review changes to it
  --env NAME[=VALUE]   pass a variable through
  --share NAME         pass a socket through: ssh-agent, gpg-agent, dbus,
                       display, docker; or clipboard-images
  --containers         let the agent run containers, with podman
  --limit NAME=VALUE   limit tmp, memory, processes, file-size, open-files,
                       time or free-disk
  --no-merge           do not open the review screen afterwards
  --detachable         let Ctrl-\\ d or a closed terminal detach the session
  --detach             start detached; agent-dev attach shows the screen
  -p, --prompt PROMPT  give the agent this prompt
  --name NAME          name the session
  --worktree NAME      work in a new git work tree, on the branch NAME
  --profile FILE       use a profile from a file
  --config FILE        use another config.yaml
  --record FILE        record what the terminal shows as an asciicast
  --plain              without AGENT: print the state, show no menu
  -q, --quiet          print no notices, progress or confirmations
  --debug              print each external command before it runs
  --version, --help

SUBCOMMAND --help describes one subcommand
"""

RUN = """\
usage: agent-dev [OPTIONS] run AGENT [ARGS…]
       agent-dev [OPTIONS] run -- COMMAND [ARGS…]
       agent-dev [OPTIONS] run --direct[=PROVIDER] AGENT [ARGS…]
       agent-dev [OPTIONS] run --detach AGENT [ARGS…]

Run an agent as `agent-dev AGENT` does, even if its profile is named like a
subcommand (agent-dev profiles lists them).

  --direct[=PROVIDER]  run in the real tree, after a snapshot that agent-dev
                       restore returns to; PROVIDER is btrfs, snapper, reflink
                       or copy (default: the best available)
  --detach             start detached: agent-dev attach shows the screen

OPTIONS come before `run`: agent-dev help --all lists them

example:  agent-dev run --direct claude
"""


def resolve_help(argv: list[str], known: tuple[str, ...]) -> list[str]:
    """Return the arguments that `help ARGUMENTS` stands for. Raises UsageError."""
    if not argv or argv[0].startswith("-"):
        return ["--help"]
    if argv[0] not in known:
        from agent_dev.cli import suggestions  # only for the error

        similar = suggestions.similar_word(argv[0], known)
        suggestion = f" (did you mean {similar}?)" if similar else ""
        raise UsageError(message=f"help: no subcommand {argv[0]}{suggestion}", hint="agent-dev --help lists them")
    return [argv[0], "--help"]
