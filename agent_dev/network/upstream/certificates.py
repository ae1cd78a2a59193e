"""Authorities that programs in the sandbox trust besides the system's: one bundle, and the variables that lead to it."""

import hashlib
import os

from agent_dev.paths import RUN
from agent_dev.sandbox.plan import Bind

BUNDLE = f"{RUN}/ca-bundle.crt"
# Files of distributions that programs read without a variable.
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)
_VARIABLES = (
    "SSL_CERT_FILE",  # also Python, Ruby and Go
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
)


def make_bundle(extra: bytes, folder: str) -> str:
    """Return a file with the system's certificates and those of `extra`, in PEM format; it is kept below a cache folder.

    Raises OSError.
    """
    system = next(filter(None, map(_read, _SYSTEM)), b"")
    bundle = system.rstrip() + b"\n" + extra.strip() + b"\n"
    path = f"{folder}/ca-{hashlib.sha256(bundle).hexdigest()[:16]}.crt"
    if not os.path.exists(path):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(f"{path}.{os.getpid()}", "wb", 0) as file:
            file.write(bundle)
        os.rename(f"{path}.{os.getpid()}", path)
    return path


def trust_mounts(bundle: str) -> tuple[Bind, ...]:
    """Return the mounts of a bundle: at a path of ours, and over the files that programs read without a variable."""
    replaced = dict.fromkeys(os.path.realpath(path) for path in _SYSTEM if os.path.isfile(path))
    return Bind(BUNDLE, bundle), *(Bind(path, bundle) for path in replaced if path.startswith("/etc/"))


def trust_variables() -> tuple[tuple[str, str], ...]:
    """Return the variables that lead programs to the bundle."""
    return tuple((name, BUNDLE) for name in _VARIABLES)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", 0) as file:
            return file.read()
    except OSError:
        return b""
