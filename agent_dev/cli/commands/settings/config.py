"""The subcommand `config`."""

from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import home as output
from agent_dev.cli.screen.screen_settings import screen_problems
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, InvalidConfiguration, UnknownAgent, UsageError
from agent_dev.risk.load import tx_allow_problems
from agent_dev.run import config_report
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `config`."""
    about = "Show the settings of a run of AGENT that differ from the defaults, with their origins."
    parser = make_parser("config", about, "agent-dev config claude")
    parser.add_argument(
        "agent", nargs="?", default="", metavar="AGENT", help="a profile; default: the settings of a command without a profile"
    )
    parser.add_argument("--all", action="store_true", help="also show the defaults")
    parser.add_argument("--json", action="store_true", help="print all as one JSON document")
    args = parser.parse_args(argv)
    problems = (*screen_problems(context), *tx_allow_problems(context.profile.tx_allow, context.origins, context.environ))
    if problems:
        raise InvalidConfiguration(message="\n".join(problems))
    try:
        values = config_report.effective_values(context, options, args.agent)
    except UnknownAgent as error:
        raise UsageError(message=error.message, hint="agent-dev profiles") from None
    output.print_config(values, as_json=args.json, with_defaults=args.all)
    return SUCCESS
