"""Answer the sandbox's DNS queries (RFC 1035) locally: no query leaves the machine. Pure.

A name has one A record, its stand-in address, and a PTR record for that address. All other types have no data: an HTTPS record
could contain keys that hide the server's name in TLS.
"""

import struct
from ipaddress import IPv4Address

from agent_dev.config.network_rules import canonical_name
from agent_dev.network.names import NameTable

_HEADER = struct.Struct(">HHHHHH")
_A, _PTR = 1, 12
_QUERY, _RESPONSE, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x7800, 0x8000, 0x0100, 0x0080  # _QUERY: the opcode's bits
_FORMAT_ERROR, _SERVER_FAILURE, _NO_NAME, _NOT_IMPLEMENTED = 1, 2, 3, 4
_POINTER, _TTL = 0xC00C, 60
_REVERSE = ".in-addr.arpa"
_MAX_QUERY = 4096


def answer_query(query: bytes, table: NameTable) -> bytes | None:
    """Return the response to a query; None if the data is not a query."""
    if not _HEADER.size <= len(query) <= _MAX_QUERY:
        return None
    number, flags, questions, *_ = _HEADER.unpack_from(query)
    if flags & _RESPONSE:
        return None
    asked = _question(query) if questions == 1 else None
    reply = _RESPONSE | _RECURSION_AVAILABLE | (flags & _RECURSION_DESIRED)
    if flags & _QUERY or asked is None:
        return _HEADER.pack(number, reply | (_NOT_IMPLEMENTED if flags & _QUERY else _FORMAT_ERROR), 0, 0, 0, 0)
    name, kind, end = asked
    code, record = _answer(name, kind, table)
    body = struct.pack(">HHHIH", _POINTER, kind, 1, _TTL, len(record)) + record if record else b""
    return _HEADER.pack(number, reply | code, 1, 1 if record else 0, 0, 0) + query[_HEADER.size : end] + body


def _question(query: bytes) -> tuple[str, int, int] | None:
    """Return name, type and end of the question; None if it is malformed or compressed."""
    labels, at = [], _HEADER.size
    while at < len(query) and query[at]:
        size = query[at]
        label = query[at + 1 : at + 1 + size]
        if size > 63 or len(label) < size:
            return None
        labels.append(label)
        at += 1 + size
    if at + 5 > len(query):
        return None
    return b".".join(labels).decode("latin-1"), struct.unpack_from(">H", query, at + 1)[0], at + 5


def _answer(text: str, kind: int, table: NameTable) -> tuple[int, bytes]:
    """Return the response code and the record's data, b"" for none."""
    if kind == _PTR and text.lower().endswith(_REVERSE):
        return _pointer(text, table)
    try:
        name = canonical_name(text) if text.isascii() else ""
    except ValueError:
        name = ""
    if not name or kind != _A:
        return (0 if name else _NO_NAME), b""
    if name.split(".")[-1] == "localhost":
        return 0, bytes((127, 0, 0, 1))
    address = table.address_of(name)
    return (0, address.packed) if address else (_SERVER_FAILURE, b"")


def _pointer(text: str, table: NameTable) -> tuple[int, bytes]:
    try:
        name = table.name_of(IPv4Address(".".join(reversed(text[: -len(_REVERSE)].split(".")))))
    except ValueError:
        name = ""
    labels = name.split(".") if name else []
    return (0, b"".join(bytes((len(one),)) + one.encode() for one in labels) + b"\0") if labels else (_NO_NAME, b"")
