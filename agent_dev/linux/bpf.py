"""Classic BPF for seccomp (linux/filter.h, linux/seccomp.h): a filter is put together from whole pieces, without labels.

A piece is bytes. What does not match falls out at its end, into the piece that comes next, so pieces can be nested and
joined, and every jump is known from lengths alone. Only the low half of an argument is ever looked at: for what the
kernel takes as an int the upper half is no part of the value, and a comparison of all 64 bits could be slipped past
(CVE-2019-10063).
"""

ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
NUMBER, ARCHITECTURE = 0, 4  # offsets in seccomp_data

_LOAD, _SHIFT, _EQUAL, _AT_LEAST, _SOME_BIT, _RETURN = 0x20, 0x74, 0x15, 0x35, 0x45, 0x06
_FARTHEST = 255  # instructions that a conditional jump can skip


def errno(number: int) -> int:
    """Return the verdict that makes a call fail with an error number."""
    return 0x00050000 | number


def argument(index: int) -> int:
    """Return the offset of the low half of an argument (both machines that are known are little-endian)."""
    return 16 + 8 * index


def load(offset: int) -> bytes:
    """Take up 32 bits of seccomp_data; all conditions look at what was taken up last."""
    return _step(_LOAD, offset)


def shift(bits: int) -> bytes:
    """Shift what was taken up to the right."""
    return _step(_SHIFT, bits)


def answer(verdict: int) -> bytes:
    """End the filter with a verdict."""
    return _step(_RETURN, verdict)


def if_one_of(values: tuple[int, ...], then: bytes) -> bytes:
    """Run `then` for one of the values."""
    last = len(values) - 1
    tests = (_step(_EQUAL, value, last - n, len(then) // 8 if n == last else 0) for n, value in enumerate(values))
    return b"".join((*tests, then))


def if_none_of(values: tuple[int, ...], then: bytes) -> bytes:
    """Run `then` for all but the values."""
    last = len(values) - 1
    return b"".join((*(_step(_EQUAL, value, last - n + len(then) // 8) for n, value in enumerate(values)), then))


def if_some_bit(mask: int, then: bytes) -> bytes:
    """Run `then` when any bit of the mask is set."""
    return _step(_SOME_BIT, mask, 0, len(then) // 8) + then


def if_at_least(value: int, then: bytes) -> bytes:
    """Run `then` for the value and everything above."""
    return _step(_AT_LEAST, value, 0, len(then) // 8) + then


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    if max(if_true, if_false) > _FARTHEST:
        raise ValueError(f"a piece of {max(if_true, if_false)} instructions cannot be jumped over")
    return code.to_bytes(2, "little") + bytes((if_true, if_false)) + value.to_bytes(4, "little")
