"""The system-call filter, run instruction by instruction: what it refuses, and nothing else."""

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.host.seccomp import program

X86_64, AARCH64, I386 = 0xC000003E, 0xC00000B7, 0x40000003
IOCTL = {"x86_64": 16, "aarch64": 29}
ARCHITECTURE = {"x86_64": X86_64, "aarch64": AARCH64}
ALLOW, EPERM, ENOSYS = "allow", "EPERM", "ENOSYS"
VERDICTS = {0x7FFF0000: ALLOW, 0x00050001: EPERM, 0x00050026: ENOSYS}
TIOCSTI, TIOCLINUX, TIOCSETD, TIOCEXCL = 0x5412, 0x541C, 0x5423, 0x540C

# linux/bpf_common.h and linux/filter.h; only what a seccomp program may hold.
LOAD_WORD, AND, RIGHT, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x74, 0x15, 0x35, 0x06


def steps(machine: str) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("<HBBI", program(machine)))


def verdict(machine: str, number: int, request: int = 0, architecture: int | None = None) -> str:
    """Run the filter on one system call, as the kernel would."""
    called = architecture if architecture is not None else ARCHITECTURE[machine]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, called, 0, 0, request & (2**64 - 1), 0, 0, 0, 0)
    accumulator = 0
    at = iter(range(10_000))
    place = 0
    code = steps(machine)
    while next(at) < 9_999:
        what, if_true, if_false, value = code[place]
        place += 1
        match what:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:
                accumulator &= value
            case 0x74:
                accumulator >>= value
            case 0x15:
                place += if_true if accumulator == value else if_false
            case 0x35:
                place += if_true if accumulator >= value else if_false
            case 0x06:
                return VERDICTS[value]
            case _:
                raise AssertionError(f"instruction {what:#x}")
    raise AssertionError("the program does not end")


def console() -> Iterator[int]:
    for high in (0x4B, 0x56):
        yield from (high << 8, high << 8 | 0x3A, high << 8 | 0xFF)


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_program_is_whole_instructions_that_jump_forward_and_end(machine: str) -> None:
    code = steps(machine)

    assert len(program(machine)) == 8 * len(code)
    assert code[-1][0] == RETURN
    assert all(
        place + 1 + max(if_true, if_false) < len(code)
        for place, (what, if_true, if_false, _) in enumerate(code)
        if what in (EQUAL, AT_LEAST)
    )


@pytest.mark.parametrize("request_", [TIOCSTI, TIOCLINUX, TIOCSETD, TIOCEXCL, *console()], ids=hex)
def test_what_types_locks_or_redisciplines_a_terminal_is_refused(machine: str, request_: int) -> None:
    assert verdict(machine, IOCTL[machine], request_) == EPERM


@pytest.mark.parametrize("request_", [TIOCSTI, TIOCLINUX, TIOCSETD, TIOCEXCL, *console()], ids=hex)
@pytest.mark.parametrize("upper", [1, 0xDEADBEEF, 0xFFFFFFFF], ids=hex)
def test_garbage_in_the_upper_half_of_a_request_opens_nothing(machine: str, request_: int, upper: int) -> None:
    assert verdict(machine, IOCTL[machine], upper << 32 | request_) == EPERM


ORDINARY = {
    "TCGETS": 0x5401,
    "TCSETS": 0x5402,
    "TIOCNXCL": 0x540D,
    "TIOCSCTTY": 0x540E,
    "TIOCGPGRP": 0x540F,
    "TIOCSPGRP": 0x5410,
    "TIOCGWINSZ": 0x5413,
    "TIOCSWINSZ": 0x5414,
    "FIONREAD": 0x541B,
    "TIOCGETD": 0x5424,
    "FIONBIO": 0x5421,
    "TIOCGPTN": 0x80045430,
    "FICLONE": 0x40049409,
    "nothing": 0,
}


@pytest.mark.parametrize("name", ORDINARY)
def test_what_an_editor_a_shell_and_tmux_need_is_allowed(machine: str, name: str) -> None:
    assert verdict(machine, IOCTL[machine], ORDINARY[name]) == ALLOW


@given(st.integers(0, 2**64 - 1))
def test_of_ioctl_only_the_listed_requests_are_refused(request_: int) -> None:
    low = request_ & 0xFFFFFFFF
    is_refused = low in (TIOCSTI, TIOCLINUX, TIOCSETD, TIOCEXCL) or low >> 8 in (0x4B, 0x56)

    assert verdict("x86_64", 16, request_) == (EPERM if is_refused else ALLOW)


@given(st.integers(0, 0x3FFFFFFF), st.integers(0, 2**64 - 1))
def test_every_other_call_is_allowed_whatever_it_is_given(number: int, argument: int) -> None:
    if number != 16:
        assert verdict("x86_64", number, argument) == ALLOW


@pytest.mark.parametrize("number", [0, 16, 54, 0x40000010])
@pytest.mark.parametrize("foreign", [I386, 0, 0xFFFFFFFF, "the other"])
def test_a_call_of_a_foreign_architecture_does_not_exist(machine: str, number: int, foreign: int | str) -> None:
    other = AARCH64 if machine == "x86_64" else X86_64
    architecture = other if isinstance(foreign, str) else foreign

    assert verdict(machine, number, TIOCSTI, architecture) == ENOSYS


@pytest.mark.parametrize("number", [0, 16, 514])
def test_the_x32_twins_of_all_calls_do_not_exist(number: int) -> None:
    assert verdict("x86_64", 0x40000000 | number, TIOCSTI) == ENOSYS


def test_a_negative_number_does_not_exist(machine: str) -> None:
    assert verdict(machine, -1) == ENOSYS


def test_an_unknown_machine_has_no_program() -> None:
    assert program("riscv64") == b""
