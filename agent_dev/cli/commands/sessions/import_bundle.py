"""The subcommand `import`, which creates a session from a bundle."""

import os
import sys

from agent_dev.bundle import importing
from agent_dev.cli.commands.sessions.bundle import open_bundle, open_input
from agent_dev.cli.console import notify, warn
from agent_dev.cli.options import check_session_name
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import bundle as output
from agent_dev.cli.render.format import print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, BadBundle, UsageError
from agent_dev.sanitize import visible
from agent_dev.session import session_names
from agent_dev.session.origin import UNKNOWN_KEY
from agent_dev.session.sessions import CommandContext

_IMPORT = """\
Create a session from a bundle in this repository. It can be reviewed, merged and resumed like any other."""


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `import`."""
    parser = make_parser("import", _IMPORT, "agent-dev import fix-login.bundle --signed-by ada@example.org")
    parser.add_argument("file", metavar="FILE", help="the bundle; -: stdin")
    parser.add_argument("--name", default="", metavar="NAME", help="the name of the session; default: as in the bundle")
    parser.add_argument(
        "--signed-by", default="", metavar="WHO", help="refuse the bundle unless WHO, one of git's allowed signers, signed it"
    )
    args = parser.parse_args(argv)
    name = args.name or options.name
    if name:
        check_session_name(name, "--name ", "--name second-try")
    with open_input(args.file) as file:
        bundle = open_bundle(file, context)
        if args.signed_by and (bundle.signer != args.signed_by or bundle.signer == UNKNOWN_KEY):
            raise BadBundle(reason=f"it is {output.describe_signer(bundle.signer)}, not by {visible(args.signed_by)}")
        wanted = name or str(bundle.manifest["session"]["name"])
        claim = _claim(wanted, context, is_required=bool(name))
        try:
            request = importing.ImportRequest(wanted if claim >= 0 else "", options.overlay)
            session = importing.import_bundle(bundle, context, request)
        finally:
            if claim >= 0:
                os.close(claim)
    shown = request.name or session.id
    print_outcome(f"session {shown} imported, {output.describe_signer(bundle.signer)}, from {visible(bundle.host)}")
    for text in bundle.manifest["left_out"]:
        warn(f"not in the bundle: {visible(text)}")
    sys.stdout.flush()  # before the hint on stderr
    notify(f"hint: agent-dev merge {shown}")
    return SUCCESS


def _claim(name: str, context: CommandContext, *, is_required: bool) -> int:
    """Claim a session's name; -1 for no name, or if the name comes from the bundle and is in use. Raises UsageError."""
    if not name:
        return -1
    options = RunOptions(name=name, directory=context.root)
    try:
        return session_names.claim_name(context.store.path, context.root, options, context.environ)
    except UsageError:
        if is_required:
            raise
        warn(f"an open session is already named {name}; the imported session has no name")
        return -1
