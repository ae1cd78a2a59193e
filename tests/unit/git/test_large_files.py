"""Git LFS pointers in blobs that an agent wrote."""

import pytest

from agent_dev.git.formats.lfs_pointer import LfsPointer, parse_pointer

START = b"version https://git-lfs.github.com/spec/v1\n"
OID = "0f" * 32


def test_a_pointer_identifies_its_content() -> None:
    assert parse_pointer(START + f"oid sha256:{OID}\nsize 12\n".encode()) == LfsPointer(OID, 12)
    assert parse_pointer(START + f"ext-0-x sha256:{OID[::-1]}\noid sha256:{OID}\nsize 12\n".encode()) == LfsPointer(OID, 12)


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "size 12\n",
        f"oid sha256:{OID}\n",
        f"oid sha256:{OID[:-1]}\nsize 12\n",
        f"oid sha256:{OID.upper()}\nsize 12\n",
        f"oid sha256:../../{OID[6:]}\nsize 12\n",
        f"oid md5:{OID}\nsize 12\n",
        f"oid sha256:{OID}\nsize -1\n",
        f"oid sha256:{OID}\nsize {'9' * 30}\n",
        f"oid sha256:{OID}\nsize 12\n" + "x" * 1000,
    ],
)
def test_an_invalid_pointer_identifies_nothing(rest: str) -> None:
    assert parse_pointer(START + rest.encode()) is None
    assert parse_pointer(rest.encode()) is None
