"""The subcommands `bundle` and `import`: a session as one file, for another clone of the repository."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from agent_dev.bundle import importing, signature
from agent_dev.bundle.export import Collected, SessionExport
from agent_dev.cli.commands.open_session import locked_session
from agent_dev.cli.console import notify, warn
from agent_dev.cli.options import check_session_name
from agent_dev.cli.parser import Verb, make_parser
from agent_dev.cli.render import bundle as output
from agent_dev.cli.render.format import print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, BadBundle, Refused, UsageError
from agent_dev.git import repository
from agent_dev.git.user_refs import UserGit
from agent_dev.linux import programs
from agent_dev.overlay.labels import format_size
from agent_dev.sanitize import visible
from agent_dev.session import session_names, sessions, store
from agent_dev.session.sessions import CommandContext

_BUNDLE = """\
Write an ended session as one file: its changes, commits, logs and base versions. `agent-dev import` makes a session of it over
any clone of the repository."""
_IMPORT = """\
Make a session of a bundle, over the repository here; it is reviewed, merged and resumed like any other."""


def _bundle(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    parser = make_parser("bundle", _BUNDLE, "agent-dev bundle fix-login fix-login.bundle --sign")
    parser.usage = "agent-dev bundle [-h] [--sign] [SESSION] FILE|-\n       agent-dev bundle [--json] --show FILE|-"
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help="an id or --name; default: the newest here")
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="the bundle; -: stdout")
    parser.add_argument("--sign", action="store_true", help="sign with git's user.signingKey, an ssh key")
    parser.add_argument("--show", default="", metavar="FILE", help="check a bundle and print what it holds; -: stdin")
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
        raise UsageError(message=f"session {one.name} is {one.state}: only one with changes to review is bundled", hint=hint)
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
    """Return git's configuration in the repository here, or the user's own without one."""
    git = repository.find_git_dir(context.root)
    program = programs.find_program("git", context.environ, (context.root,))
    if program is None:
        return {}
    return UserGit(git.folder if git else os.devnull, program, context.environ).read_config()


@contextmanager
def _output(path: str, size: int) -> Iterator[BinaryIO]:
    """Open the file of a bundle, which appears when it is complete, or stdout. Raises Refused if there is no space."""
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
            message=f"the bundle needs {format_size(size)}, but {folder} has {format_size(found.f_bavail * found.f_frsize)}"
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
def _input(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        with os.fdopen(os.dup(0), "rb", buffering=1 << 20) as file:
            yield file
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(message=f"{path}: {error.strerror}") from None
    with os.fdopen(fd, "rb", buffering=1 << 20) as file:
        yield file


def _open(file: BinaryIO, context: CommandContext) -> importing.OpenBundle:
    def find_signer(data: bytes, signed: bytes) -> str:
        program = signature.find_ssh_keygen(context.environ, (context.root,))
        return signature.find_signer(data, signed, _git_config(context), program, context.environ)

    return importing.open_bundle(file, find_signer)


def _show(path: str, context: CommandContext, *, as_json: bool) -> int:
    with _input(path) as file:
        bundle = _open(file, context)
        bundle.read_members(None)
    output.print_bundle(bundle, as_json=as_json)
    return SUCCESS


def _import(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    parser = make_parser("import", _IMPORT, "agent-dev import fix-login.bundle --signed-by ada@example.org")
    parser.add_argument("file", metavar="FILE", help="the bundle; -: stdin")
    parser.add_argument("--name", default="", metavar="NAME", help="the name of the session; default: as in the bundle")
    parser.add_argument("--signed-by", default="", metavar="WHO", help="refuse it unless WHO signed it, by git's allowed signers")
    args = parser.parse_args(argv)
    name = args.name or options.name
    if name:
        check_session_name(name, "--name ", "--name second-try")
    with _input(args.file) as file:
        bundle = _open(file, context)
        if args.signed_by and (bundle.signer != args.signed_by or bundle.signer == signature.UNKNOWN_KEY):
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
    notify(f"hint: agent-dev merge {shown}")
    return SUCCESS


def _claim(name: str, context: CommandContext, *, is_required: bool) -> int:
    """Claim a session's name; -1 if there is none, or one that only the bundle asked for is in use. Raises UsageError."""
    if not name:
        return -1
    options = RunOptions(name=name, directory=context.root)
    try:
        return session_names.claim_name(context.store.path, context.root, options, context.environ)
    except UsageError:
        if is_required:
            raise
        warn(f"an open session is named {name}: this one has no name")
        return -1


VERBS: dict[str, Verb] = {"bundle": _bundle, "import": _import}
