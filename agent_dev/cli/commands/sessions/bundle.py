"""The subcommand `bundle`, which writes a session to one file for another clone of the repository, or checks such a file."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from agent_dev.bundle import importing, signature
from agent_dev.bundle.export import Collected, SessionExport
from agent_dev.cli.commands.open_session import locked_session
from agent_dev.cli.console import warn
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import bundle as output
from agent_dev.cli.render.format import print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, Refused, SessionBusy, UsageError
from agent_dev.git import repository
from agent_dev.git.user_refs import UserGit
from agent_dev.linux import programs
from agent_dev.overlay.labels import format_size
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext

_BUNDLE = """\
Write an ended session to one file: its changes, commits, logs and base versions. `agent-dev import` creates a session from it in
any clone of the repository."""


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `bundle`."""
    parser = make_parser("bundle", _BUNDLE, "agent-dev bundle fix-login fix-login.bundle --sign")
    parser.usage = "agent-dev bundle [-h] [--sign] [SESSION] FILE|-\n       agent-dev bundle [--json] --show FILE|-"
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help="an id or --name; default: the newest here")
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="the bundle; -: stdout")
    parser.add_argument("--sign", action="store_true", help="sign with git's user.signingKey, an ssh key")
    parser.add_argument("--show", default="", metavar="FILE", help="check a bundle and print what it contains; -: stdin")
    parser.add_argument("--json", action="store_true", help="with --show: print one JSON document")
    args = parser.parse_args(argv)
    if args.show:
        if args.session or args.sign:
            raise UsageError(message="bundle: --show takes only a file", hint="agent-dev bundle --show FILE")
        return _show(args.show, context, as_json=args.json)
    name, path = (args.session, args.file) if args.file else ("", args.session)
    if not path or args.json:
        raise UsageError(
            message="bundle: name a file, or - for stdout" if not path else "bundle: --json needs --show",
            hint="agent-dev bundle --help",
        )
    one = sessions.find_session(context, name, (store.WAITING, store.KILLED))
    if one.state not in (store.WAITING, store.KILLED):
        hint = f"agent-dev stop {one.name}" if one.state == store.RUNNING else "agent-dev sessions"
        what = f"{one.state}: only a session with changes to review can be bundled"
        raise SessionBusy(session=one.name, what=what, hint=hint)
    with locked_session(one) as session:
        export = SessionExport(session, store.read_record(session), context.environ)
        try:
            collected = export.collect()
            signed = _sign(collected, context) if args.sign else b""
            with _output(path, collected.size) as file:
                export.write(collected, signed, file)
        finally:
            export.close()
    for text in collected.left_out:
        warn(f"not in the bundle: {text}")
    if path != "-":
        print_outcome(
            f"session {one.name} written to {visible(path)}, {format_size(collected.size)}{', signed' if signed else ''}"
        )
    return SUCCESS


def _sign(collected: Collected, context: CommandContext) -> bytes:
    program = signature.find_ssh_keygen(context.environ, (context.root,))
    return signature.sign(collected.manifest, _git_config(context), program, context.environ)


def _git_config(context: CommandContext) -> dict[str, str]:
    """Return git's configuration in this repository, or the user's configuration outside of a repository."""
    git = repository.find_git_dir(context.root)
    program = programs.find_program("git", context.environ, (context.root,))
    if program is None:
        return {}
    return UserGit(git.folder if git else os.devnull, program, context.environ).read_config()


@contextmanager
def _output(path: str, size: int) -> Iterator[BinaryIO]:
    """Open stdout, or a bundle's file, which is renamed to its path when complete. Raises Refused if there is no space."""
    if path == "-":
        sys.stdout.flush()
        with os.fdopen(os.dup(1), "wb", buffering=1 << 20) as file:
            yield file
        return
    folder = os.path.dirname(os.path.abspath(path))
    try:
        found = os.statvfs(folder)
    except OSError as error:
        raise UsageError(message=f"bundle: {path}: {error.strerror}") from None
    if size > found.f_bavail * found.f_frsize:
        raise Refused(
            message=f"the bundle needs {format_size(size)}, but {folder} has only {format_size(found.f_bavail * found.f_frsize)}"
        )
    partial = f"{path}.{os.urandom(4).hex()}.partial"
    try:
        with open(partial, "xb", buffering=1 << 20) as file:
            yield file
        os.rename(partial, path)
    except OSError as error:
        raise UsageError(message=f"bundle: {path}: {error.strerror}") from None
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)


@contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    """Open the file of a bundle, or stdin. Raises UsageError."""
    if path == "-":
        with os.fdopen(os.dup(0), "rb", buffering=1 << 20) as file:
            yield file
        return
    try:
        file = open(path, "rb", buffering=1 << 20)  # noqa: SIM115  (the body's own errors are not the file's)
    except OSError as error:
        raise UsageError(message=f"{path}: {error.strerror}") from None
    with file:
        yield file


def open_bundle(file: BinaryIO, context: CommandContext) -> importing.OpenBundle:
    """Return a bundle after checking its manifest. Raises BadBundle."""

    def find_signer(data: bytes, signed: bytes) -> str:
        program = signature.find_ssh_keygen(context.environ, (context.root,))
        return signature.find_signer(data, signed, _git_config(context), program, context.environ)

    return importing.open_bundle(file, find_signer)


def _show(path: str, context: CommandContext, *, as_json: bool) -> int:
    with open_input(path) as file:
        bundle = open_bundle(file, context)
        bundle.read_members(None)
    output.print_bundle(bundle, as_json=as_json)
    return SUCCESS
