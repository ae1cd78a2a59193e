"""Netlink messages: encoding, acknowledgements, and the rules."""

import errno
import struct

from agent_dev.network import netlink
from agent_dev.network.packet_rules import ruleset

NFT_BATCH_BEGIN, NFT_BATCH_END, NEW_TABLE, NEW_CHAIN, NEW_RULE = 0x10, 0x11, 0xA00, 0xA03, 0xA06


def test_attributes_are_padded_but_their_size_excludes_padding() -> None:
    assert netlink.attribute(7, b"abc") == struct.pack("=HH3sx", 7, 7, b"abc")
    assert netlink.text(1, "nat") == struct.pack("=HH4s", 8, 1, b"nat\0")
    assert netlink.nested(2, netlink.number(1, 5)) == struct.pack("=HHHH4s", 12, 0x8002, 8, 1, b"\0\0\0\5")


def test_acknowledgements_report_errors() -> None:
    def reply(number: int) -> bytes:
        return netlink.message(2, 0, struct.pack("=i16x", -number))

    assert netlink.errors(reply(0) + reply(errno.EPERM)) == [0, errno.EPERM]
    assert netlink.errors(b"short") == []


def test_the_rules_are_one_batch_that_ends_with_a_refusal() -> None:
    messages = ruleset()
    kinds = [struct.unpack_from("=H", one, 4)[0] for one in messages]
    assert kinds[:4] == [NFT_BATCH_BEGIN, NEW_TABLE, NEW_CHAIN, NEW_CHAIN]
    assert set(kinds[4:-1]) == {NEW_RULE}
    assert kinds[-1] == NFT_BATCH_END
    assert all(struct.unpack_from("=I", one)[0] == len(one) for one in messages)
    assert [b"reject\0" in one for one in messages[4:-1]] == [False] * (len(messages) - 6) + [True]
