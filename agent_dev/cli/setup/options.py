"""The options of `agent-dev init`, and the settings that they stand for."""

import argparse
import os
from collections.abc import Iterable, Sequence

from agent_dev import paths
from agent_dev.agents import catalogue
from agent_dev.cli.options import from_options
from agent_dev.cli.parser import make_parser
from agent_dev.cli.setup.questions import HOMES
from agent_dev.config import load, validators
from agent_dev.config.new_config import NewSettings
from agent_dev.config.options import RunOptions, parse_limit_option
from agent_dev.config.profile import NETS, OFF, SHARES
from agent_dev.errors import UsageError
from agent_dev.git import repository
from agent_dev.linux import users
from agent_dev.policy.load import load_policy
from agent_dev.sandbox import plan
from agent_dev.sandbox.unsafe_paths import AGENT_HOME, ProtectedPaths, RequestedPath, refusal_reason
from agent_dev.session.sessions import CommandContext


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the arguments of `init`. Raises UsageError."""
    about = "Ask for the settings of all agents and write them to config.yaml, with comments. Options are the first answers."
    parser = make_parser("init", about, "agent-dev init --non-interactive --agent claude --home project")
    parser.add_argument("--agent", action="append", default=[], metavar="AGENT", help="an agent that you use; repeatable")
    parser.add_argument(
        "--home", default="", metavar="HOME", help="the agent home: common, agent or project (one for each), or a path"
    )
    parser.add_argument("--net", default="", choices=NETS, help="the network of the agents")
    parser.add_argument("--limit", action="append", default=[], metavar="NAME=VALUE", help="a limit of a run; repeatable")
    parser.add_argument("--policy", default="", metavar="SET", help="the command policy: guard, strict, off or a set of your own")
    parser.add_argument("--env", action="append", default=[], metavar="NAME", help="pass a variable through; repeatable")
    parser.add_argument(
        "--share", action="append", default=[], choices=SHARES, metavar="NAME", help="pass a socket through; repeatable"
    )
    parser.add_argument("--ro", action="append", default=[], metavar="PATH", help="mount PATH read-only; repeatable")
    parser.add_argument("--update", action="store_true", help="change an existing config.yaml; else config.yaml.new is written")
    parser.add_argument("--dry-run", action="store_true", help="print config.yaml, write nothing")
    parser.add_argument("--non-interactive", action="store_true", help="ask nothing")
    parser.add_argument("--plain", action="store_true", help="ask line by line instead of on the screen")
    return parser.parse_args(argv)


def answers_with_options(args: argparse.Namespace, before: NewSettings, environ: dict[str, str]) -> NewSettings:
    """Return the settings with those of the options. Raises UsageError."""
    from_options([("--env", name) for name in args.env])  # checks them
    if valued := [name for name in args.env if "=" in name]:
        name = valued[0].partition("=")[0]
        raise UsageError(message=f"--env {name}: the value is taken from your environment", hint=f"agent-dev init --env {name}")
    home = users.home_directory(environ)
    for path in args.ro:
        if not os.path.lexists(paths.expand(path, home)):
            raise UsageError(message=f"--ro {path}: does not exist", hint="agent-dev init --ro PATH")
    limits = dict(before.limits) | dict(map(parse_limit_option, args.limit))
    answers = NewSettings(
        home=HOMES.get(args.home, args.home and _below_home(args.home, home)) or before.home,
        net=args.net or before.net,
        limits=tuple(limits.items()),
        policy=args.policy or before.policy,
        env=_united(before.env, args.env),
        share=_united(before.share, args.share),
        ro=_united(before.ro, (_below_home(path, home) for path in args.ro)),
    )
    if answers.policy != OFF:
        load_policy(answers.policy, home, environ)  # raises InvalidConfiguration for an unknown set
    return answers


def check_home(args: argparse.Namespace, answers: NewSettings, context: CommandContext) -> None:
    """Raise UsageError if --home names a home with which runs in the user's repository would be refused."""
    if not args.home:
        return
    home = users.home_directory(context.environ)
    own = os.path.realpath(plan.agent_home_path(context.profile.replace(home=answers.home), home, context.root))
    in_repository = repository.find_location(context.cwd).git is not None and not paths.is_below(home, context.root)
    wanted = [RequestedPath("the repository", context.root)] if in_repository else []
    protected = ProtectedPaths(
        home=home,
        own_directories=(("the state directory", context.store.path), (AGENT_HOME, own)),
        trusted_files=load.settings_paths(home, context.environ),
    )
    if refusal := refusal_reason((*wanted, RequestedPath(AGENT_HOME, own, is_writable=True)), protected):
        raise UsageError(message=f"--home {args.home}: {refusal[0]}", hint="agent-dev init --home ~/aihome")


def selected_agents(args: argparse.Namespace, options: RunOptions, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the agents of the options. Raises UsageError for one that cannot be installed."""
    known = [agent.name for agent in catalogue.list_agents(options, environ)] if args.agent else []
    for name in args.agent:
        if name not in known:
            message = f"--agent {name}: no such agent{validators.did_you_mean(name, known)}"
            raise UsageError(message=message, hint="agent-dev install --list")
    return tuple(dict.fromkeys(args.agent))


def _below_home(path: str, home: str) -> str:
    """Return a path as config.yaml has it: absolute, with `~` for the home."""
    full = paths.absolute(paths.expand(path, home))
    return f"~{full.removeprefix(home)}" if full.startswith(f"{home}/") else full


def _united(before: Sequence[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *more)))
