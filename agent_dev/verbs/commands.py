"""The words about the commands that an agent starts."""

import os
import shlex

from agent_dev.commands.prepare import Options
from agent_dev.commands.sessions import Here
from agent_dev.core.policy import Command, decide
from agent_dev.errors import DONE, UsageError
from agent_dev.host import load
from agent_dev.output.words import as_document, line
from agent_dev.text import visible
from agent_dev.verbs.parser import Verb, parser_of


def _policy(words: list[str], where: Here, _options: Options) -> int:
    about = "Say what becomes of a command, and which rule decides. It is not run."
    parser = parser_of("policy", about, "agent-dev policy check -- git reset --hard")
    parser.usage = "agent-dev policy check [--set NAME] [--json] -- COMMAND [ARGS…]"
    parser.add_argument("what", choices=["check"], help="what to do")
    parser.add_argument("--set", default="guard", metavar="NAME", help="of the sets of policy.yaml: guard, strict, off")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    at = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:at])
    command = words[at + 1 :]
    if not command:
        raise UsageError(message="policy check: which command?", hint=parser.usage)
    home = os.path.realpath(where.environ.get("HOME", "/"))
    policy = load.policy(args.set, home, where.environ)
    found = decide(policy, Command(command[0], tuple(command), where.cwd, home))
    if args.json:
        as_document(
            {
                "version": 1,
                "set": policy.name,
                "command": command,
                "cwd": where.cwd,
                "decision": found.decision,
                "rule": found.rule or None,
                "origin": found.origin or None,
                "message": found.message or None,
            }
        )
        return DONE
    rule = f"rule {visible(found.rule)} ({visible(found.origin)})" if found.rule else f"no rule of {visible(policy.name)}"
    line(f"{found.decision}: {visible(shlex.join(command))}: {rule}")
    if found.message:
        line(f"the agent is told: {visible(found.message)}")
    return DONE


VERBS: dict[str, Verb] = {"policy": _policy}
