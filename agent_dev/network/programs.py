"""Find the program of a connection: the kernel gives the socket's inode (sock_diag(7)), /proc gives the process that has it."""

import os
import socket
import struct
from collections.abc import Iterator
from ipaddress import ip_address

from agent_dev.network import netlink

_RECENT = 8
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_INODE_OFFSET = 16 + 68  # header, then inet_diag_msg up to idiag_inode


class ProgramFinder:
    """Finds programs in one network namespace; `diag` is a sock_diag socket that was created in it."""

    def __init__(self, diag: socket.socket) -> None:
        diag.settimeout(0.2)
        self._diag = diag
        self.namespace = 0  # its inode, once a program has been found in it
        self._recent: tuple[str, ...] = ()  # pids found recently

    def find(self, client: socket.socket, address: str, port: int) -> tuple[int, str]:
        """Return pid and name of the program at the other end of a connection to an address and port; (0, "") if unknown."""
        try:
            wanted = f"socket:[{self._inode(client, address, port)}]"
            pid, name = next(filter(None, (self._holder(entry, wanted) for entry in self._candidates())))
        except (OSError, StopIteration):
            return 0, ""
        self._recent = (str(pid), *(one for one in self._recent if one != str(pid)))[:_RECENT]
        return pid, name

    def _candidates(self) -> Iterator[str]:
        """Yield the pids to search: those found recently, then all, the newest first, because reading all takes several ms."""
        yield from self._recent
        yield from reversed([name for name in os.listdir("/proc") if name.isdecimal()])

    def _inode(self, client: socket.socket, address: str, port: int) -> int:
        """Return the inode of the socket at the other end. Raises OSError."""
        source, source_port = client.getpeername()[:2]
        ends = b"".join(ip_address(one).packed.ljust(16, b"\0") for one in (source, address))
        body = struct.pack("=BBBxI", client.family, socket.IPPROTO_TCP, 0, 0xFFF)
        body += struct.pack(">HH", source_port, port) + ends + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
        self._diag.sendto(netlink.message(_BY_FAMILY, netlink.REQUEST, body), (0, 0))
        answer = self._diag.recv(8192)
        if struct.unpack_from("=H", answer, 4)[0] != _BY_FAMILY:
            raise ProcessLookupError
        return int(struct.unpack_from("=I", answer, _INODE_OFFSET)[0])

    def _holder(self, pid: str, wanted: str) -> tuple[int, str] | None:
        try:
            namespace = os.stat(f"/proc/{pid}/ns/net").st_ino
            if self.namespace and namespace != self.namespace:
                return None
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == wanted:
                    self.namespace = namespace
                    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                        return int(pid), file.read().strip()
        except OSError:
            return None  # it has ended, or belongs to another user
        return None
