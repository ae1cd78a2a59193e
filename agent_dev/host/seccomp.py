"""The system-call filter of the terminal, as BPF for `bwrap --seccomp` (seccomp(2), linux/filter.h).

Refused with EPERM, on the low 32 bits of the request (CVE-2019-10063): typing into the terminal (TIOCSTI, TIOCLINUX),
changing its line discipline (TIOCSETD kills it for good), locking it (TIOCEXCL), and the console's 0x4Bxx and 0x56xx.
Calls of a foreign architecture and x32 get ENOSYS, since their numbers would pass unseen.
"""

import os

# machine → (AUDIT_ARCH, number of ioctl)
_ARCHITECTURES = {"x86_64": (0xC000003E, 16), "aarch64": (0xC00000B7, 29)}
_X32 = 0x40000000
_TERMINAL = (0x5412, 0x541C, 0x5423, 0x540C)  # TIOCSTI, TIOCLINUX, TIOCSETD, TIOCEXCL
_CONSOLE = (0x4B, 0x56)  # the request's second byte

_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_LOAD, _AND, _SHIFT, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x74, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _REQUEST = 0, 4, 24  # offsets in seccomp_data; the low half of args[1] on little-endian


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return code.to_bytes(2, "little") + bytes((if_true, if_false)) + value.to_bytes(4, "little")


def program(machine: str = "") -> bytes:
    """Return the filter for a machine (this one unless named); empty for one that is not known."""
    known = _ARCHITECTURES.get(machine or os.uname().machine)
    if known is None:
        return b""
    architecture, ioctl = known
    refusals = [_step(_EQUAL, request, 0, 1) + _step(_RETURN, _EPERM) for request in _TERMINAL]
    console = [_step(_EQUAL, byte, 0, 1) + _step(_RETURN, _EPERM) for byte in _CONSOLE]
    return b"".join(
        (
            _step(_LOAD, _ARCHITECTURE),
            _step(_EQUAL, architecture, 1, 0),
            _step(_RETURN, _ENOSYS),
            _step(_LOAD, _NUMBER),
            _step(_AT_LEAST, _X32, 0, 1),
            _step(_RETURN, _ENOSYS),
            _step(_EQUAL, ioctl, 1, 0),
            _step(_RETURN, _ALLOW),
            _step(_LOAD, _REQUEST),
            *refusals,
            _step(_AND, 0xFFFFFF00),
            _step(_SHIFT, 8),
            *console,
            _step(_RETURN, _ALLOW),
        )
    )
