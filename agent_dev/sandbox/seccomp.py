"""The system calls that are refused inside, as one table, and the filter made of it for `bwrap --seccomp` (seccomp(2)).

A refusal of a call that programs try and can do without is ENOSYS, as from an older kernel; of one that means harm EPERM.
What is in no row is allowed. Rows are looked at in order, the first that meets a call decides; `program(more=…)` puts
further ones in front. Why a list of refusals, and why assembled here: docs/decisions/0012-filter.md.
"""

import os

from agent_dev.linux import bpf
from agent_dev.value import Value

_EPERM, _ENOSYS, _EAFNOSUPPORT, _EPROTONOSUPPORT = map(bpf.errno, (1, 38, 97, 93))

# machine → (AUDIT_ARCH, the column of NUMBERS)
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_X32 = 0x40000000  # from here on x86_64 has its calls again, in another numbering

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_ROUTE = 0  # the protocol of netlink that lists interfaces and addresses
_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEWTIME = 0x80  # of unshare(2) alone; in clone(2) these bits are a signal


class Check(Value):
    """What the low half of an argument must be, shifted to the right by `shift` before: some value, no value, some bit."""

    argument: int
    one_of: tuple[int, ...] = ()
    none_of: tuple[int, ...] = ()
    some_bit: int = 0
    shift: int = 0

    def around(self, then: bytes) -> bytes:
        """Return the piece that runs `then` when this is met."""
        if self.one_of:
            then = bpf.if_one_of(self.one_of, then)
        if self.none_of:
            then = bpf.if_none_of(self.none_of, then)
        if self.some_bit:
            then = bpf.if_some_bit(self.some_bit, then)
        return bpf.load(bpf.argument(self.argument)) + (bpf.shift(self.shift) if self.shift else b"") + then


class Rule(Value):
    """A verdict on calls whose arguments meet every check."""

    name: str
    verdict: int
    calls: tuple[str, ...]
    checks: tuple[Check, ...] = ()


NUMBERS = {  # call: its number on x86_64 and on aarch64; -1: there is none
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "execve": (59, 221),
    "execveat": (322, 281),
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
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "uselib": (134, -1),
}

ALWAYS = (
    # TIOCSTI and TIOCLINUX type into the terminal, TIOCSETD kills it for good, TIOCEXCL locks it.
    Rule("terminal", _EPERM, ("ioctl",), (Check(1, one_of=(0x5412, 0x541C, 0x5423, 0x540C)),)),
    # 0x4Bxx and 0x56xx: fonts, keys and switching of the Linux console. Nothing above the second byte may be set, or
    # 0x80045600 would be taken for one of them.
    Rule("console", _EPERM, ("ioctl",), (Check(1, one_of=(0x4B, 0x56), shift=8),)),
    # The keyring of the user's session has no namespace.
    Rule("keyring", _ENOSYS, ("add_key", "request_key", "keyctl")),
    # It does file and socket work that no filter sees.
    Rule("io_uring", _ENOSYS, ("io_uring_setup", "io_uring_enter", "io_uring_register")),
    Rule("bpf", _ENOSYS, ("bpf",)),
    Rule("perf", _ENOSYS, ("perf_event_open",)),
    Rule("userfaultfd", _ENOSYS, ("userfaultfd",)),  # stops the kernel in the middle of a copy
    Rule("kexec", _ENOSYS, ("kexec_load", "kexec_file_load")),
    Rule("modules", _ENOSYS, ("init_module", "finit_module", "delete_module")),
    Rule("machine", _ENOSYS, ("acct", "quotactl", "quotactl_fd", "reboot", "swapon", "swapoff", "iopl", "ioperm")),
    Rule("old", _ENOSYS, ("lookup_dcookie", "uselib")),
    Rule("kernel log", _EPERM, ("syslog",)),
    Rule("file handles", _EPERM, ("open_by_handle_at",)),  # opens by inode number, past what is mounted
    Rule("socket families", _EAFNOSUPPORT, ("socket",), (Check(0, none_of=(_UNIX, _INET, _INET6, _NETLINK)),)),
    Rule("netlink", _EPROTONOSUPPORT, ("socket",), (Check(0, one_of=(_NETLINK,)), Check(2, none_of=(_ROUTE,)))),
    Rule("socket pairs", _EAFNOSUPPORT, ("socketpair",), (Check(0, none_of=(_UNIX,)),)),
)

# Only where the profile says `nested: false`: agents that sandbox their own commands, and browsers, need these.
NESTED = (
    Rule("mounts", _EPERM, ("mount", "umount2", "pivot_root", "chroot")),
    # ENOSYS: programs then use the older calls, which are refused, or whose flags can be seen.
    Rule(
        "new mounts",
        _ENOSYS,
        ("open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    ),
    Rule("clone3", _ENOSYS, ("clone3",)),  # its flags lie in memory
    Rule("namespaces", _EPERM, ("clone",), (Check(0, some_bit=_NAMESPACES),)),
    Rule("leaving namespaces", _EPERM, ("unshare",), (Check(0, some_bit=_NAMESPACES | _NEWTIME),)),
    Rule("entering namespaces", _EPERM, ("setns",)),
)


def program(machine: str = "", *, nested: bool = True, more: tuple[Rule, ...] = ()) -> bytes:
    """Return the filter for a machine (this one unless named); empty for one that is not known."""
    known = _MACHINES.get(machine or os.uname().machine)
    if known is None:
        return b""
    architecture, column = known
    rules = (*more, *ALWAYS, *(() if nested else NESTED))
    return b"".join(
        (
            bpf.load(bpf.ARCHITECTURE),
            bpf.if_none_of((architecture,), bpf.answer(_ENOSYS)),
            bpf.load(bpf.NUMBER),
            bpf.if_at_least(_X32, bpf.answer(_ENOSYS)),
            *_judged(rules, column),
            *(_piece(rule.calls, bpf.answer(rule.verdict), column) for rule in rules if not rule.checks),
            bpf.answer(bpf.ALLOW),
        )
    )


def column(machine: str = "") -> int:
    """Return where a machine's numbers stand in NUMBERS."""
    return _MACHINES[machine or os.uname().machine][1]


def watching(machine: str) -> bytes:
    """Return the filter that tells of each execve; empty for a machine that is not known.

    Calls of a foreign architecture are left to the other filter, which refuses them.
    """
    known = _MACHINES.get(machine)
    if known is None:
        return b""
    numbers = tuple(NUMBERS[call][known[1]] for call in ("execve", "execveat"))
    return b"".join(
        (
            bpf.load(bpf.ARCHITECTURE),
            bpf.if_none_of((known[0],), bpf.answer(bpf.ALLOW)),
            bpf.load(bpf.NUMBER),
            bpf.if_one_of(numbers, bpf.answer(bpf.NOTIFY)),
            bpf.answer(bpf.ALLOW),
        )
    )


def _judged(rules: tuple[Rule, ...], column: int) -> tuple[bytes, ...]:
    """Return a piece for each call that is judged by its arguments, with all rows that are about it.

    They come first and decide by themselves: the kernel runs the filter for these calls alone, and remembers the others' verdict.
    """
    calls = dict.fromkeys(call for rule in rules if rule.checks for call in rule.calls)
    looks = {call: b"".join(_look(rule) for rule in rules if call in rule.calls) for call in calls}
    return tuple(_piece((call,), look + bpf.answer(bpf.ALLOW), column) for call, look in looks.items())


def _look(rule: Rule) -> bytes:
    then = bpf.answer(rule.verdict)
    for check in reversed(rule.checks):
        then = check.around(then)
    return then


def _piece(calls: tuple[str, ...], then: bytes, column: int) -> bytes:
    numbers = tuple(number for call in calls if (number := NUMBERS[call][column]) >= 0)
    return bpf.load(bpf.NUMBER) + bpf.if_one_of(numbers, then) if numbers else b""
