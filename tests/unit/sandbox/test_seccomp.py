"""The seccomp filter, run instruction by instruction: what it refuses on each machine, and that it allows everything else."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.linux import bpf
from agent_dev.sandbox.seccomp import BASE_RULES, NO_NESTING_RULES, NUMBERS, ArgumentCheck, Rule, refusal_filter
from tests.harness.bpf import ALLOW, MACHINES, parse, run, run_counted

I386 = 0x40000003
COLUMN = {"x86_64": 0, "aarch64": 1}
EPERM, ENOSYS, EAFNOSUPPORT, EPROTONOSUPPORT = "EPERM", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT"
TIOCSTI, TIOCLINUX, TIOCSETD, TIOCEXCL = 0x5412, 0x541C, 0x5423, 0x540C
NEW_NAMESPACES = {"CLONE_NEWNS": 0x20000, "NEWCGROUP": 1 << 25, "NEWUTS": 1 << 26, "NEWIPC": 1 << 27}
NEW_NAMESPACES |= {"NEWUSER": 1 << 28, "NEWPID": 1 << 29, "NEWNET": 1 << 30}
THREAD = 0x3D0F00  # the flags with which pthread_create calls clone
FORK = 0x01200011


@pytest.fixture(params=list(MACHINES))
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


FILTERS = {(name, nested): refusal_filter(name, nested=nested) for name in MACHINES for nested in (True, False)}


def verdict(machine: str, call: str, *arguments: int, nested: bool = True) -> str:
    return run(FILTERS[machine, nested], machine, NUMBERS[call][COLUMN[machine]], *arguments)


def console() -> Iterator[int]:
    for high in (0x4B, 0x56):
        yield from (high << 8, high << 8 | 0x3A, high << 8 | 0xFF)


@pytest.mark.parametrize("nested", [True, False])
def test_the_filter_has_whole_instructions_forward_jumps_and_an_end(machine: str, *, nested: bool) -> None:
    code = parse(FILTERS[machine, nested])

    assert code[-1].code == 0x06
    assert len(code) < 4096
    assert all(
        place + 1 + max(step.if_true, step.if_false) < len(code)
        for place, step in enumerate(code)
        if step.code in (0x15, 0x35, 0x45)
    )


# The table


@pytest.mark.parametrize(
    "rule", [rule for rule in (*BASE_RULES, *NO_NESTING_RULES) if not rule.checks], ids=lambda rule: rule.name
)
def test_a_row_without_checks_refuses_its_calls_with_any_arguments(machine: str, rule: Rule) -> None:
    expected = errno.errorcode[rule.verdict & 0xFFFF]
    calls = [call for call in rule.calls if NUMBERS[call][COLUMN[machine]] >= 0]

    assert {verdict(machine, call, *given, nested=False) for call in calls for given in ((), (2**64 - 1,) * 6)} <= {expected}


@pytest.mark.parametrize("rule", NO_NESTING_RULES, ids=lambda rule: rule.name)
def test_calls_of_nested_sandboxes_are_allowed_unless_forbidden(machine: str, rule: Rule) -> None:
    assert {verdict(machine, call, 2**64 - 1) for call in rule.calls} == {ALLOW}


def test_every_call_has_a_number_and_every_number_is_used_once(machine: str) -> None:
    named = {call for rule in (*BASE_RULES, *NO_NESTING_RULES) for call in rule.calls}
    numbers = [numbers[COLUMN[machine]] for numbers in NUMBERS.values() if numbers[COLUMN[machine]] >= 0]

    assert named <= set(NUMBERS)
    assert len(numbers) == len(set(numbers))


HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}


def test_the_numbers_match_the_kernel_headers_if_installed(machine: str) -> None:
    path = next(filter(Path.is_file, map(Path, HEADERS[machine])), None)
    words = [line.split() for line in path.read_text().splitlines()] if path else []
    known = {
        row[1].removeprefix("__NR3264_").removeprefix("__NR_"): int(row[2])
        for row in words
        if len(row) > 2 and row[0] == "#define" and row[1].startswith("__NR") and row[2].isdigit()
    }
    known |= {row[1].removeprefix("__NR_"): known[row[2].removeprefix("__NR3264_")] for row in words if _is_alias(row, known)}
    ours = {call: numbers[COLUMN[machine]] for call, numbers in NUMBERS.items()}

    assert {call: number for call, number in ours.items() if known.get(call, number) != number} == {}
    assert not known or all(call in known for call, number in ours.items() if number >= 0 and call != "open_tree_attr")


def _is_alias(row: list[str], known: dict[str, int]) -> bool:
    """Return whether a line names a call whose number has another name: `#define __NR_newfstatat __NR3264_fstatat`."""
    return (
        len(row) > 2
        and row[0] == "#define"
        and row[1].startswith("__NR_")
        and row[2].removeprefix("__NR3264_") in known
        and row[2].startswith("__NR3264_")
    )


# Terminals


@pytest.mark.parametrize("request_", [TIOCSTI, TIOCLINUX, TIOCSETD, TIOCEXCL, *console()], ids=hex)
@pytest.mark.parametrize("upper", [0, 1, 0xDEADBEEF, 0xFFFFFFFF], ids=hex)
def test_terminal_injection_ioctls_are_refused_whatever_the_upper_half(machine: str, request_: int, upper: int) -> None:
    assert verdict(machine, "ioctl", 0, upper << 32 | request_) == EPERM


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
def test_ioctls_of_editors_shells_and_tmux_are_allowed(machine: str, name: str) -> None:
    assert verdict(machine, "ioctl", 0, ORDINARY[name]) == ALLOW


@given(st.integers(0, 2**64 - 1))
def test_only_the_listed_ioctl_requests_are_refused(request_: int) -> None:
    low = request_ & 0xFFFFFFFF
    is_refused = low in (TIOCSTI, TIOCLINUX, TIOCSETD, TIOCEXCL) or low >> 8 in (0x4B, 0x56)

    assert verdict("x86_64", "ioctl", 0, request_) == (EPERM if is_refused else ALLOW)


# Sockets


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_only_the_listed_socket_families_are_allowed(family: int, upper: int) -> None:
    expected = ALLOW if family in (1, 2, 10, 16) else EAFNOSUPPORT

    assert verdict("aarch64", "socket", upper << 32 | family, 1, 0) == expected


@pytest.mark.parametrize("protocol", range(1, 23))
def test_only_route_netlink_sockets_are_allowed(machine: str, protocol: int) -> None:
    assert verdict(machine, "socket", 16, 3, protocol) == EPROTONOSUPPORT
    assert verdict(machine, "socket", 16, 3, 0) == ALLOW


def test_a_protocol_of_another_family_is_not_mistaken_for_netlink(machine: str) -> None:
    assert verdict(machine, "socket", 2, 1, 6) == ALLOW


def test_only_unix_socket_pairs_are_allowed(machine: str) -> None:
    assert [verdict(machine, "socketpair", family) for family in (1, 2, 30)] == [ALLOW, EAFNOSUPPORT, EAFNOSUPPORT]


# Nested sandboxes


@pytest.mark.parametrize("flag", NEW_NAMESPACES.values(), ids=NEW_NAMESPACES)
@pytest.mark.parametrize("call", ["clone", "unshare"])
def test_without_nested_sandboxes_no_namespace_can_be_created(machine: str, call: str, flag: int) -> None:
    assert verdict(machine, call, FORK | flag, nested=False) == EPERM


@pytest.mark.parametrize("flags", [FORK, THREAD, 0x400], ids=["fork", "thread", "CLONE_FILES"])
def test_without_nested_sandboxes_processes_and_threads_can_be_created(machine: str, flags: int) -> None:
    assert verdict(machine, "clone", flags, nested=False) == ALLOW


def test_clone3_fails_so_that_programs_use_clone(machine: str) -> None:
    assert verdict(machine, "clone3", nested=False) == ENOSYS


# Foreign system call numbers, other filters


def refused_always(machine: str) -> set[int]:
    return {NUMBERS[call][COLUMN[machine]] for rule in BASE_RULES for call in rule.calls}


@given(st.integers(0, 0x3FFFFFFF), st.integers(0, 2**64 - 1))
def test_an_unlisted_call_is_allowed_with_any_arguments(number: int, argument: int) -> None:
    if number not in refused_always("x86_64"):
        assert run(FILTERS["x86_64", True], "x86_64", number, argument) == ALLOW


@pytest.mark.parametrize("number", [0, 16, 54, 0x40000010])
@pytest.mark.parametrize("foreign", [I386, 0, 0xFFFFFFFF, "the other"])
def test_system_calls_of_a_foreign_architecture_do_not_exist(machine: str, number: int, foreign: int | str) -> None:
    other = MACHINES["aarch64" if machine == "x86_64" else "x86_64"]
    architecture = other if isinstance(foreign, str) else foreign

    assert run(FILTERS[machine, True], architecture, number, 0, TIOCSTI) == ENOSYS


@pytest.mark.parametrize("number", [0, 16, 514])
def test_the_x32_variants_of_all_calls_do_not_exist(number: int) -> None:
    assert run(FILTERS["x86_64", True], "x86_64", 0x40000000 | number, 0, TIOCSTI) == ENOSYS


def test_a_negative_call_number_does_not_exist(machine: str) -> None:
    assert run(FILTERS[machine, True], machine, -1) == ENOSYS


@pytest.mark.parametrize("call", ["ioctl", "socket", "socketpair"])
def test_a_call_checked_by_arguments_leaves_the_filter_early(machine: str, call: str) -> None:
    reported, count = run_counted(FILTERS[machine, True], machine, NUMBERS[call][COLUMN[machine]], 1, 0x5413)

    assert reported == ALLOW
    assert count <= 20


def test_an_added_rule_is_checked_first(machine: str) -> None:
    more = (
        Rule("commands", bpf.NOTIFY, ("execve",), (ArgumentCheck(1, none_of=(0,)),)),
        Rule("own", bpf.errno_verdict(1), ("io_uring_setup",)),
    )
    made = refusal_filter(machine, more=more)
    execve, setup = (NUMBERS[call][COLUMN[machine]] for call in ("execve", "io_uring_setup"))

    assert [run(made, machine, execve, 0, given) for given in (1, 0)] == [hex(bpf.NOTIFY), ALLOW]
    assert run(made, machine, setup) == EPERM


def test_an_unknown_machine_has_no_filter() -> None:
    assert refusal_filter("riscv64") == b""
