"""Classic BPF for seccomp (linux/filter.h, linux/seccomp.h): filters are assembled from pieces, without labels.

A piece is bytes. When its condition fails, control continues after its end, so pieces can be nested and joined, and every jump
follows from lengths alone. Only the low half of an argument is compared: the kernel ignores the upper half of an int, so a
comparison of all 64 bits could be bypassed (CVE-2019-10063).
"""

ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
NUMBER, ARCHITECTURE = 0, 4  # offsets in seccomp_data

_LOAD, _SHIFT, _EQUAL, _AT_LEAST, _SOME_BIT, _RETURN = 0x20, 0x74, 0x15, 0x35, 0x45, 0x06
_MAX_JUMP = 255  # instructions: the limit of a conditional jump


def errno_verdict(number: int) -> int:
    """Return the verdict that makes a call fail with an error number."""
    return 0x00050000 | number


def argument_offset(index: int) -> int:
    """Return the offset of the low half of an argument (both supported machines are little-endian)."""
    return 16 + 8 * index


def load(offset: int) -> bytes:
    """Load 32 bits of seccomp_data into the accumulator, on which all conditions work."""
    return _instruction(_LOAD, offset)


def shift(bits: int) -> bytes:
    """Shift the accumulator to the right."""
    return _instruction(_SHIFT, bits)


def return_verdict(verdict: int) -> bytes:
    """Return a verdict; this ends the filter."""
    return _instruction(_RETURN, verdict)


def if_one_of(values: tuple[int, ...], then: bytes) -> bytes:
    """Run `then` if the accumulator is one of the values."""
    last = len(values) - 1
    tests = (_instruction(_EQUAL, value, last - n, len(then) // 8 if n == last else 0) for n, value in enumerate(values))
    return b"".join((*tests, then))


def if_none_of(values: tuple[int, ...], then: bytes) -> bytes:
    """Run `then` if the accumulator is none of the values."""
    last = len(values) - 1
    return b"".join((*(_instruction(_EQUAL, value, last - n + len(then) // 8) for n, value in enumerate(values)), then))


def if_some_bit(mask: int, then: bytes) -> bytes:
    """Run `then` if any bit of the mask is set."""
    return _instruction(_SOME_BIT, mask, 0, len(then) // 8) + then


def if_at_least(value: int, then: bytes) -> bytes:
    """Run `then` if the accumulator is at least the value."""
    return _instruction(_AT_LEAST, value, 0, len(then) // 8) + then


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    if max(if_true, if_false) > _MAX_JUMP:
        raise ValueError(f"cannot jump over {max(if_true, if_false)} instructions")
    return code.to_bytes(2, "little") + bytes((if_true, if_false)) + value.to_bytes(4, "little")
