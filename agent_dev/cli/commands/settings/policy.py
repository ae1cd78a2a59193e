"""The subcommand `policy`."""

import os
import shlex

from agent_dev.cli.parser import make_parser
from agent_dev.cli.render.format import print_json, print_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UsageError
from agent_dev.policy import load as policy_load
from agent_dev.policy.command_rules import Command, decide
from agent_dev.sanitize import visible
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `policy`."""
    about = "Show the policy's decision on a command, and the rule that decides. The command is not run."
    parser = make_parser("policy", about, "agent-dev policy check -- git reset --hard")
    parser.usage = "agent-dev policy check [--set NAME] [--json] -- COMMAND [ARGS…]"
    parser.add_argument("what", choices=["check"], metavar="check", help="show the decision on a command")
    default = context.profile.policy if context.profile.policy != "off" else "guard"
    parser.add_argument("--set", default=default, metavar="NAME", help=f"a policy set: guard, strict, off ({default})")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    index = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:index])
    command = argv[index + 1 :]
    if not command:
        raise UsageError(message="policy check needs a command", hint=parser.usage)
    home = os.path.realpath(context.environ.get("HOME", "/"))
    policy = policy_load.load_policy(args.set, home, context.environ)
    found = decide(policy, Command(command[0], tuple(command), context.cwd, home))
    if args.json:
        print_json(
            {
                "version": 1,
                "set": policy.name,
                "command": command,
                "cwd": context.cwd,
                "decision": found.decision,
                "rule": found.rule or None,
                "origin": found.origin or None,
                "message": found.message or None,
            }
        )
        return SUCCESS
    rule = (
        f"rule {visible(found.rule)} ({visible(found.origin)})"
        if found.rule
        else f"no rule of the set {visible(policy.name)} matches"
    )
    print_line(f"{found.decision}: {visible(shlex.join(command))}: {rule}")
    if found.message:
        print_line(f"message to the agent: {visible(found.message)}")
    return SUCCESS
