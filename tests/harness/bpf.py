"""An interpreter of seccomp filters, limited to what the kernel accepts (kernel/seccomp.c, seccomp_check_filter)."""

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


class Instruction(NamedTuple):
    """An instruction: struct sock_filter."""

    code: int
    if_true: int
    if_false: int
    value: int


def parse(program: bytes) -> list[Instruction]:
    """Return the instructions; an incomplete one is an error."""
    return [Instruction(*fields) for fields in struct.iter_unpack("<HBBI", program)]


def run(program: bytes, machine: str | int, number: int, *arguments: int) -> str:
    """Return the filter's result for a system call of an architecture (a name, or an AUDIT_ARCH)."""
    return run_counted(program, machine, number, *arguments)[0]


def run_counted(program: bytes, machine: str | int, number: int, *arguments: int) -> tuple[str, int]:
    """Return the result, and the number of instructions executed."""
    called = MACHINES[machine] if isinstance(machine, str) else machine
    given = [argument & (2**64 - 1) for argument in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, called, 0, *given)
    taken = position = count = 0
    code = parse(program)
    while True:
        step = code[position]
        position, count = position + 1, count + 1
        match step.code:
            case 0x20:
                (taken,) = struct.unpack_from("<I", data, step.value)
            case 0x74:
                taken >>= step.value
            case 0x15:
                position += step.if_true if taken == step.value else step.if_false
            case 0x35:
                position += step.if_true if taken >= step.value else step.if_false
            case 0x45:
                position += step.if_true if taken & step.value else step.if_false
            case 0x06:
                return _VERDICTS.get(step.value, hex(step.value)), count
            case _:
                raise AssertionError(f"instruction {step.code:#x}")
