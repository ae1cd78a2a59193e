"""A company's registry: npm and PyPI packages over TLS on 127.0.0.1, with a certificate authority that no system knows."""

import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.harness.agents.registry import Registry

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
_SIGNED = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE")


class CompanyRegistry(Registry):
    """The registry as a context manager; `authority` is the file with the certificate that its clients need."""

    def __init__(self, folder: Path, npm: Mapping[str, list[str]], pypi: Mapping[str, list[str]]) -> None:
        """`folder`: an empty directory for keys and certificates."""
        super().__init__(npm, pypi)
        self.authority = folder / "authority.pem"
        self._listener.socket = _tls(folder, self.authority).wrap_socket(
            self._listener.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = self.url.replace("http:", "https:")


def _tls(folder: Path, authority: Path) -> ssl.SSLContext:
    key, own_key, own = folder / "authority.key", folder / "server.key", folder / "server.pem"
    request = ("openssl", "req", "-x509", *_KEY)
    by_authority = ("-CA", authority, "-CAkey", key)
    for words in (
        (*request, "-subj", "/CN=Company", "-keyout", key, "-out", authority),
        (*request, "-subj", "/CN=registry", "-keyout", own_key, "-out", own, *_SIGNED, *by_authority),
    ):
        subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, own_key)
    return context
