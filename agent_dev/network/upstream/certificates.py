"""CA certificates that programs in the sandbox trust in addition to the system's: one bundle, and the variables that name it."""

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
    """Return a file with the system's certificates and those of `extra`, in PEM format; it is kept in a cache folder.

    Raises OSError.
    """
    bundle = bundle_with(extra)
    path = f"{folder}/ca-{hashlib.sha256(bundle).hexdigest()[:16]}.crt"
    try:
        os.utime(path)  # as `clean` removes unused caches
    except OSError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(f"{path}.{os.getpid()}", "wb", 0) as file:
            file.write(bundle)
        os.rename(f"{path}.{os.getpid()}", path)
    return path


def bundle_with(extra: bytes) -> bytes:
    """Return the system's certificates and those of `extra`, in PEM format."""
    system = next(filter(None, map(read_file, _SYSTEM)), b"")
    return system.rstrip() + b"\n" + extra.strip() + b"\n"


def trust_mounts(bundle: str) -> tuple[Bind, ...]:
    """Return the mounts of a bundle: at BUNDLE, and over the files that programs read without a variable."""
    replaced = dict.fromkeys(os.path.realpath(path) for path in _SYSTEM if os.path.isfile(path))
    return Bind(BUNDLE, bundle), *(Bind(path, bundle) for path in replaced if path.startswith("/etc/"))


def trust_variables() -> tuple[tuple[str, str], ...]:
    """Return the variables that name the bundle."""
    return tuple((name, BUNDLE) for name in _VARIABLES)


def read_file(path: str) -> bytes:
    """Return a file's content, b"" if it cannot be read."""
    try:
        with open(path, "rb", 0) as file:
            return file.read()
    except OSError:
        return b""
