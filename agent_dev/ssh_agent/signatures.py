"""Verify the signature of an SSH host key (RFC 4253, RFC 5656, RFC 8332, RFC 8709)."""

import base64

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from agent_dev.ssh_agent.messages import Malformed, Reader

_CURVES: dict[bytes, type[hashes.HashAlgorithm]] = {
    b"ecdsa-sha2-nistp256": hashes.SHA256,
    b"ecdsa-sha2-nistp384": hashes.SHA384,
    b"ecdsa-sha2-nistp521": hashes.SHA512,
}
_RSA: dict[bytes, type[hashes.HashAlgorithm]] = {b"rsa-sha2-256": hashes.SHA256, b"rsa-sha2-512": hashes.SHA512}


def is_signed(key: bytes, signature: bytes, data: bytes) -> bool:
    """Return whether a host key signed data; False for hardware keys (sk-…) and certificates, which are not supported."""
    try:
        kind = Reader(key).string()
        reader = Reader(signature)
        algorithm, blob = reader.string(), reader.string()
        reader.end()
        public = load_ssh_public_key(kind + b" " + base64.b64encode(key))
        _verify(public, (kind, algorithm), blob, data)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def _verify(public: object, names: tuple[bytes, bytes], blob: bytes, data: bytes) -> None:
    """Raise InvalidSignature or ValueError unless the signature is valid."""
    kind, algorithm = names
    match public:
        case ed25519.Ed25519PublicKey() if algorithm == kind == b"ssh-ed25519":
            public.verify(blob, data)
        case ec.EllipticCurvePublicKey() if algorithm == kind and kind in _CURVES:
            numbers = Reader(blob)
            r, s = (int.from_bytes(numbers.string(), "big") for _ in range(2))
            numbers.end()
            public.verify(utils.encode_dss_signature(r, s), data, ec.ECDSA(_CURVES[kind]()))
        case rsa.RSAPublicKey() if kind == b"ssh-rsa" and algorithm in _RSA:
            public.verify(blob, data, padding.PKCS1v15(), _RSA[algorithm]())
        case _:
            raise Malformed("not a known kind of signature")
