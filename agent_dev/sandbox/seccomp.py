"""The table of system calls refused in the sandbox, and its filter for `bwrap --seccomp` (seccomp(2)).

A call for which programs have a fallback fails with ENOSYS, as on an older kernel; a harmful call fails with EPERM. A call
without a rule is allowed. Rules apply in order, the first match decides; `program(more=…)` puts further rules first. Why a
denylist, and why it is assembled here: docs/decisions/0012-system-call-filter.md.
"""

import os

from agent_dev.linux import bpf
from agent_dev.value import Value

_EPERM, _ENOSYS, _EAFNOSUPPORT, _EPROTONOSUPPORT = map(bpf.errno_verdict, (1, 38, 97, 93))

# machine → (AUDIT_ARCH, the column of NUMBERS)
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_X32 = 0x40000000  # x86_64 numbers from here on are the x32 calls

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_ROUTE = 0  # NETLINK_ROUTE: lists interfaces and addresses
_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEWTIME = 0x80  # only in unshare(2); in clone(2) these bits are a signal


class ArgumentCheck(Value):
    """A condition on the low half of an argument after a right shift: one of values, none of values, or any bit of a mask."""

    argument: int
    one_of: tuple[int, ...] = ()
    none_of: tuple[int, ...] = ()
    any_bit: int = 0
    shift: int = 0

    def guard(self, then: bytes) -> bytes:
        """Return the piece that runs `then` if the condition holds."""
        if self.one_of:
            then = bpf.if_one_of(self.one_of, then)
        if self.none_of:
            then = bpf.if_none_of(self.none_of, then)
        if self.any_bit:
            then = bpf.if_some_bit(self.any_bit, then)
        return bpf.load(bpf.argument_offset(self.argument)) + (bpf.shift(self.shift) if self.shift else b"") + then


class Rule(Value):
    """A verdict on system calls whose arguments meet every check."""

    name: str
    verdict: int
    calls: tuple[str, ...]
    checks: tuple[ArgumentCheck, ...] = ()


NUMBERS = {  # call: number on x86_64 and on aarch64; -1: none
    "access": (21, -1),
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "execve": (59, 221),
    "execveat": (322, 281),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "lstat": (6, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "newfstatat": (262, 79),
    "open": (2, -1),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "readlink": (89, -1),
    "readlinkat": (267, 78),
    "reboot": (169, 142),
    "rename": (82, -1),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "request_key": (249, 218),
    "setns": (308, 268),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "stat": (4, -1),
    "statx": (332, 291),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "uselib": (134, -1),
}

BASE_RULES = (
    # TIOCSTI and TIOCLINUX inject input, TIOCSETD makes the terminal unusable, TIOCEXCL locks it.
    Rule("terminal", _EPERM, ("ioctl",), (ArgumentCheck(1, one_of=(0x5412, 0x541C, 0x5423, 0x540C)),)),
    # 0x4Bxx and 0x56xx: fonts, keys and switching of the Linux console. The higher bytes must be zero, or 0x80045600 would match.
    Rule("console", _EPERM, ("ioctl",), (ArgumentCheck(1, one_of=(0x4B, 0x56), shift=8),)),
    # A tracer could prevent init from noticing the end of the agent; 0 is TRACEME, which has no pid.
    Rule("tracing of pid 1", _EPERM, ("ptrace",), (ArgumentCheck(0, none_of=(0,)), ArgumentCheck(1, one_of=(1,)))),
    # The keyring of the user's session has no namespace.
    Rule("keyring", _ENOSYS, ("add_key", "request_key", "keyctl")),
    # Does file and socket operations that no filter sees.
    Rule("io_uring", _ENOSYS, ("io_uring_setup", "io_uring_enter", "io_uring_register")),
    Rule("bpf", _ENOSYS, ("bpf",)),
    Rule("perf", _ENOSYS, ("perf_event_open",)),
    Rule("userfaultfd", _ENOSYS, ("userfaultfd",)),  # can pause the kernel during a copy
    Rule("kexec", _ENOSYS, ("kexec_load", "kexec_file_load")),
    Rule("modules", _ENOSYS, ("init_module", "finit_module", "delete_module")),
    Rule("machine", _ENOSYS, ("acct", "quotactl", "quotactl_fd", "reboot", "swapon", "swapoff", "iopl", "ioperm")),
    Rule("old", _ENOSYS, ("lookup_dcookie", "uselib")),
    Rule("kernel log", _EPERM, ("syslog",)),
    Rule("file handles", _EPERM, ("open_by_handle_at",)),  # opens by inode number, outside the mounts
    Rule("socket families", _EAFNOSUPPORT, ("socket",), (ArgumentCheck(0, none_of=(_UNIX, _INET, _INET6, _NETLINK)),)),
    Rule("netlink", _EPROTONOSUPPORT, ("socket",), (ArgumentCheck(0, one_of=(_NETLINK,)), ArgumentCheck(2, none_of=(_ROUTE,)))),
    Rule("socket pairs", _EAFNOSUPPORT, ("socketpair",), (ArgumentCheck(0, none_of=(_UNIX,)),)),
)

# Only with `nested: false`: agents that sandbox their own commands, and browsers, need these.
NO_NESTING_RULES = (
    Rule("mounts", _EPERM, ("mount", "umount2", "pivot_root", "chroot")),
    # ENOSYS: programs fall back to the older calls, which are refused or have visible flags.
    Rule(
        "new mounts",
        _ENOSYS,
        ("open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    ),
    Rule("clone3", _ENOSYS, ("clone3",)),  # its flags are in memory
    Rule("namespaces", _EPERM, ("clone",), (ArgumentCheck(0, any_bit=_NAMESPACES),)),
    Rule("leaving namespaces", _EPERM, ("unshare",), (ArgumentCheck(0, any_bit=_NAMESPACES | _NEWTIME),)),
    Rule("entering namespaces", _EPERM, ("setns",)),
)

# If a mount of control groups would show more than the sandbox's own group (linux/cgroups.py).
NO_CGROUPS_RULES = (
    Rule("clone3 of control groups", _ENOSYS, ("clone3",)),  # as in NO_NESTING_RULES
    Rule("control groups", _EPERM, ("clone", "unshare"), (ArgumentCheck(0, any_bit=0x02000000),)),  # CLONE_NEWCGROUP
)


def refusal_filter(machine: str = "", *, nested: bool = True, more: tuple[Rule, ...] = ()) -> bytes:
    """Return the filter for a machine (default: this one); empty for an unknown machine."""
    known = _MACHINES.get(machine or os.uname().machine)
    if known is None:
        return b""
    architecture, column = known
    rules = (*more, *BASE_RULES, *(() if nested else NO_NESTING_RULES))
    return b"".join(
        (
            bpf.load(bpf.ARCHITECTURE),
            bpf.if_none_of((architecture,), bpf.return_verdict(_ENOSYS)),
            bpf.load(bpf.NUMBER),
            bpf.if_at_least(_X32, bpf.return_verdict(_ENOSYS)),
            *_pieces_with_checks(rules, column),
            *(_calls_piece(rule.calls, bpf.return_verdict(rule.verdict), column) for rule in rules if not rule.checks),
            bpf.return_verdict(bpf.ALLOW),
        )
    )


def number_column(machine: str = "") -> int:
    """Return the column of a machine in NUMBERS."""
    return _MACHINES[machine or os.uname().machine][1]


COMMANDS = ("execve", "execveat")
RENAMES = ("rename", "renameat", "renameat2")
LOOKUPS = {  # calls that look for a path: the number of its argument
    **dict.fromkeys(("open", "stat", "lstat", "access", "readlink"), 0),
    **dict.fromkeys(("openat", "openat2", "newfstatat", "statx", "faccessat", "faccessat2", "readlinkat"), 1),
}


def notify_filter(machine: str, calls: tuple[str, ...] = COMMANDS) -> bytes:
    """Return the filter that notifies of calls; empty for an unknown machine.

    Calls of a foreign architecture are left to the other filter, which refuses them.
    """
    known = _MACHINES.get(machine)
    if known is None:
        return b""
    numbers = tuple(number for call in calls if (number := NUMBERS[call][known[1]]) >= 0)
    return b"".join(
        (
            bpf.load(bpf.ARCHITECTURE),
            bpf.if_none_of((known[0],), bpf.return_verdict(bpf.ALLOW)),
            bpf.load(bpf.NUMBER),
            bpf.if_one_of(numbers, bpf.return_verdict(bpf.NOTIFY)),
            bpf.return_verdict(bpf.ALLOW),
        )
    )


def _pieces_with_checks(rules: tuple[Rule, ...], column: int) -> tuple[bytes, ...]:
    """Return one piece per call whose arguments are checked, with all rules for it.

    They come first and return a verdict themselves: the kernel caches the verdict of all other calls and skips the filter.
    """
    calls = dict.fromkeys(call for rule in rules if rule.checks for call in rule.calls)
    pieces = {call: b"".join(_rule_piece(rule) for rule in rules if call in rule.calls) for call in calls}
    return tuple(_calls_piece((call,), piece + bpf.return_verdict(bpf.ALLOW), column) for call, piece in pieces.items())


def _rule_piece(rule: Rule) -> bytes:
    then = bpf.return_verdict(rule.verdict)
    for check in reversed(rule.checks):
        then = check.guard(then)
    return then


def _calls_piece(calls: tuple[str, ...], then: bytes, column: int) -> bytes:
    numbers = tuple(number for call in calls if (number := NUMBERS[call][column]) >= 0)
    return bpf.load(bpf.NUMBER) + bpf.if_one_of(numbers, then) if numbers else b""
