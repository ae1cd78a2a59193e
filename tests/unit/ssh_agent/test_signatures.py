"""Signatures of SSH host keys."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agent_dev.ssh_agent.messages import pack
from agent_dev.ssh_agent.signatures import is_signed

DATA = b"session identifier"


def blob_of(key: Any) -> bytes:
    return base64.b64decode(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])


def ed25519_signature() -> tuple[bytes, bytes]:
    key = ed25519.Ed25519PrivateKey.generate()
    return blob_of(key), pack(b"ssh-ed25519") + pack(key.sign(DATA))


def ecdsa_signature() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP384R1())
    r, s = utils.decode_dss_signature(key.sign(DATA, ec.ECDSA(hashes.SHA384())))
    numbers = b"".join(pack(number.to_bytes(number.bit_length() // 8 + 1, "big")) for number in (r, s))
    return blob_of(key), pack(b"ecdsa-sha2-nistp384") + pack(numbers)


def rsa_signature(name: bytes = b"rsa-sha2-512", digest: Any = hashes.SHA512) -> tuple[bytes, bytes]:
    key = rsa.generate_private_key(65537, 2048)
    return blob_of(key), pack(name) + pack(key.sign(DATA, padding.PKCS1v15(), digest()))


@pytest.mark.parametrize("make", [ed25519_signature, ecdsa_signature, rsa_signature])
def test_only_the_signed_data_and_the_signing_key_verify(make: Any) -> None:
    key, signature = make()
    assert is_signed(key, signature, DATA)
    assert not is_signed(key, signature, DATA + b"x")
    assert not is_signed(make()[0], signature, DATA)
    assert not is_signed(key, signature + b"x", DATA)
    assert not is_signed(key, signature[:-1], DATA)


def test_a_signature_by_sha1_is_refused() -> None:
    assert not is_signed(*rsa_signature(b"ssh-rsa", hashes.SHA1), DATA)


@pytest.mark.parametrize(
    "key", [b"", b"x", pack(b"ssh-ed25519"), pack(b"ssh-dss") + pack(b"x"), pack(b"sk-ssh-ed25519@openssh.com")]
)
def test_another_key_is_refused(key: bytes) -> None:
    assert not is_signed(key, pack(b"ssh-ed25519") + pack(bytes(64)), DATA)
