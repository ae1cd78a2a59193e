"""Signatures of bundles by ssh-keygen, with git's `user.signingKey` and `gpg.ssh.allowedSignersFile` (git-config(1))."""

import base64
import os
import subprocess
from collections.abc import Mapping
from tempfile import TemporaryDirectory

from agent_dev.errors import BadBundle, Refused
from agent_dev.linux import programs
from agent_dev.session.origin import UNKNOWN_KEY

NAMESPACE = "agent-dev-bundle"
_SECONDS = 60  # a key in hardware waits for a touch
_BEGIN, _END, _LINE = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----", 70
_LITERAL = ("key::", "ssh-", "ecdsa-", "sk-")


def find_ssh_keygen(environ: Mapping[str, str], untrusted: tuple[str, ...]) -> str:
    """Return the path of ssh-keygen. Raises Refused."""
    found = programs.find_program("ssh-keygen", dict(environ), untrusted)
    if found is None:
        raise Refused(message="ssh-keygen is not installed", hint="install openssh-client")
    return found


def sign(data: bytes, config: Mapping[str, str], program: str, environ: Mapping[str, str]) -> bytes:
    """Sign with the key of git's `user.signingKey`: a file, or a literal public key in the ssh-agent. Raises Refused."""
    key = config.get("user.signingkey", "")
    if not key or config.get("gpg.format", "ssh") != "ssh":
        raise Refused(message="git has no ssh key to sign with", hint="git config user.signingKey FILE, and gpg.format ssh")
    with TemporaryDirectory(prefix="agent-dev-sign-") as folder:
        path = os.path.expanduser(key)
        if key.startswith(_LITERAL):
            path = f"{folder}/key.pub"
            _write(path, key.removeprefix("key::").encode() + b"\n")
        code, output, error = _run([program, "-q", "-Y", "sign", "-n", NAMESPACE, "-f", path], data, environ)
    if code or not output:
        raise Refused(message=f"ssh-keygen cannot sign: {error}", hint="git config user.signingKey FILE")
    return output


def find_signer(data: bytes, signature: bytes, config: Mapping[str, str], program: str, environ: Mapping[str, str]) -> str:
    """Return the principal who signed, from git's allowed signers; UNKNOWN_KEY if the key is not among them.

    Raises BadBundle if the signature does not match the data.
    """
    if not _is_canonical(signature):
        raise BadBundle(reason="its signature is damaged")
    signers = os.path.expanduser(config.get("gpg.ssh.allowedsignersfile", ""))
    with TemporaryDirectory(prefix="agent-dev-verify-") as folder:
        path = f"{folder}/signature"
        _write(path, signature)
        code, _, error = _run([program, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", path], data, environ)
        if code:
            raise BadBundle(reason=f"its signature is not valid ({error})")
        if not signers or not os.path.isfile(signers):
            return UNKNOWN_KEY
        code, output, _ = _run([program, "-Y", "find-principals", "-f", signers, "-s", path], b"", environ)
        for who in output.decode("utf-8", "replace").splitlines() if not code else ():
            verify = [program, "-Y", "verify", "-f", signers, "-I", who, "-n", NAMESPACE, "-s", path]
            if not _run(verify, data, environ)[0]:
                return who
    return UNKNOWN_KEY


def _is_canonical(signature: bytes) -> bool:
    """Return whether a signature is armored exactly as ssh-keygen writes it; other forms count as damaged."""
    lines = signature.split(b"\n")
    body = b"".join(lines[1:-2])
    try:
        whole = base64.b64encode(base64.b64decode(body, validate=True))
    except ValueError:
        return False
    wrapped = [whole[at : at + _LINE] for at in range(0, len(whole), _LINE)]
    return lines == [_BEGIN, *wrapped, _END, b""]


def _write(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


def _run(argv: list[str], stdin: bytes, environ: Mapping[str, str]) -> tuple[int, bytes, str]:
    """Run ssh-keygen; return its exit code, its output and the last line of its messages."""
    try:
        done = subprocess.run(argv, input=stdin, env=dict(environ), capture_output=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise Refused(message=f"ssh-keygen timed out after {_SECONDS} s") from None
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return done.returncode, done.stdout, lines[-1] if lines else "no reason given"
