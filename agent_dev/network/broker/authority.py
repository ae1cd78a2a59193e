"""The certificate authority of one session. Its key stays in the gateway's memory; each host's certificate is made on demand."""

import os
import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_EARLIER, _LIFE = timedelta(hours=1), timedelta(days=90)
_NAME = "agent-dev, this session only"


class Authority:
    """Signs certificates for some names; only one sandbox trusts them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """Create the authority; `names`: the only hosts for which it can sign certificates."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
        self._contexts: dict[str, ssl.SSLContext] = {}
        public = self._key.public_key()
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, public).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        builder = builder.add_extension(x509.NameConstraints(list(map(x509.DNSName, names)), None), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """The certificate of the authority."""
        return self.certificate.public_bytes(Encoding.PEM)

    def context(self, host: str) -> ssl.SSLContext:
        """Return the server's TLS context for a host; a handshake for another name fails."""
        if host not in self._contexts:
            self._contexts[host] = self._make_context(host)
        return self._contexts[host]

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        begin = datetime.now(UTC) - _EARLIER
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + _LIFE)
        )

    def _make_context(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
        builder = self._builder(subject, key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
        _load(context, pair)
        context.set_alpn_protocols(["http/1.1"])

        def require_name(_tls: object, name: str | None, _context: object) -> int | None:
            if name is None or name.lower().removesuffix(".") == host:
                return None
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

        context.sni_callback = require_name
        return context


def _load(context: ssl.SSLContext, pair: bytes) -> None:
    """Load a key and its certificate from memory, through a memfd: the library reads only files."""
    fd = os.memfd_create("leaf", os.MFD_CLOEXEC)
    try:
        os.write(fd, pair)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
