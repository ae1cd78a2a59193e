"""Files of a session with the CA certificates that its programs trust: the system's, the user's, and the session's own.

The launcher creates them empty and mounts them; the gateway writes them before the agent starts.
"""

import os

from agent_dev.network.upstream import certificates
from agent_dev.sandbox.plan import Bind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.network.broker.authority import Authority

BUNDLE, JAVA_STORE = "ca-bundle.crt", "java-cacerts"  # in the session's folder
_JAVA = ("/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts", "/etc/pki/java/cacerts")


def create_files(folder: str) -> None:
    """Create the files, empty, in a session's folder."""
    for name in (BUNDLE, *((JAVA_STORE,) if _java_stores() else ())):
        os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644))


def trust_mounts(folder: str) -> tuple[Bind, ...]:
    """Return the mounts of the files."""
    return (*certificates.trust_mounts(f"{folder}/{BUNDLE}"), *(Bind(path, f"{folder}/{JAVA_STORE}") for path in _java_stores()))


def write_files(folder: str, authority: "Authority", upstream_ca: str) -> None:
    """Write the files. Raises OSError."""
    extra = certificates.read_file(upstream_ca) if upstream_ca else b""
    bundle = certificates.bundle_with(extra + b"\n" + authority.pem)
    _write(f"{folder}/{BUNDLE}", bundle)
    if _java_stores():
        _write(f"{folder}/{JAVA_STORE}", _java_store(bundle))


def _java_store(bundle: bytes) -> bytes:
    """Return the certificates as a PKCS#12 file without a password, which Java reads instead of its own trust store."""
    from cryptography import x509  # only with Java
    from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

    found = x509.load_pem_x509_certificates(bundle)
    named = [pkcs12.PKCS12Certificate(one, b"%d" % number) for number, one in enumerate(found)]
    return pkcs12.serialize_java_truststore(named, NoEncryption())


def _java_stores() -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in _JAVA if os.path.isfile(path)))


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(fd, "wb", 0) as file:
        file.write(data)
