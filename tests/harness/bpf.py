"""An interpreter of seccomp filters, as far as the kernel's rules let them go (kernel/seccomp.c, seccomp_check_filter)."""

import struct
from typing import NamedTuple

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW = "allow"
_VERDICTS = {
    0x7FFF0000: ALLOW,
    0x00050001: "EPERM",
    0x00050026: "ENOSYS",
    0x00050061: "EAFNOSUPPORT",
    0x0005005D: "EPROTONOSUPPORT",
}


class Step(NamedTuple):
    """struct sock_filter."""

    code: int
    if_true: int
    if_false: int
    value: int


def steps(program: bytes) -> list[Step]:
    """Return the instructions; a rest that is no whole one is an error."""
    return [Step(*fields) for fields in struct.iter_unpack("<HBBI", program)]


def run(program: bytes, machine: str | int, number: int, *arguments: int) -> str:
    """Return what a filter says to one system call of a machine (a name, or an AUDIT_ARCH)."""
    return followed(program, machine, number, *arguments)[0]


def followed(program: bytes, machine: str | int, number: int, *arguments: int) -> tuple[str, int]:
    """Return what it says, and after how many instructions."""
    called = MACHINES[machine] if isinstance(machine, str) else machine
    given = [argument & (2**64 - 1) for argument in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, called, 0, *given)
    taken = place = count = 0
    code = steps(program)
    while True:
        step = code[place]
        place, count = place + 1, count + 1
        match step.code:
            case 0x20:
                (taken,) = struct.unpack_from("<I", data, step.value)
            case 0x74:
                taken >>= step.value
            case 0x15:
                place += step.if_true if taken == step.value else step.if_false
            case 0x35:
                place += step.if_true if taken >= step.value else step.if_false
            case 0x45:
                place += step.if_true if taken & step.value else step.if_false
            case 0x06:
                return _VERDICTS.get(step.value, hex(step.value)), count
            case _:
                raise AssertionError(f"instruction {step.code:#x}")
