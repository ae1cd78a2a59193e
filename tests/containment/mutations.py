"""Remove each protection in turn; a containment test must fail each time: `python -m tests.containment.mutations [NAME…]`.

A mutation changes the running program's data (a row of the filter, a mount or an argument of the plan), not its source: the
tests start a program that runs this module first (AGENT_DEV_TEST_PROGRAM); AGENT_DEV_TEST_MUTATION names the mutation.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from agent_dev.clipboard import images
from agent_dev.control import protocol
from agent_dev.fs import disk_space
from agent_dev.git import nested_repositories, secret_removal
from agent_dev.home import network_lease
from agent_dev.home.network_lease import SharedPaths
from agent_dev.linux import cgroups, syscalls, user_limits
from agent_dev.run import services
from agent_dev.sandbox import bwrap, credentials, landlock_probe, launch, plan, seccomp, setup_process, tool_credentials
from agent_dev.sandbox import landlock as rules
from agent_dev.sandbox.attaching.host_terminal import HostTerminal
from agent_dev.sandbox.containers import requirements
from agent_dev.sandbox.plan import Bind, Mask, MaskedView, Overlay, SandboxPlan, Tmpfs
from agent_dev.sandbox.sandbox_monitor import SandboxMonitor
from agent_dev.sandbox.terminal import clipboard, modes, pty, reset
from agent_dev.supervisor import directory_renames
from agent_dev.supervisor.directory_renames import RenameHandler
from agent_dev.supervisor.overlay_directory import OverlayDirectory
from tests.containment.support.network_mutations import NETWORK_MUTATIONS

FOLDER = Path(__file__).parent
PROGRAM = """#!{python}
import runpy, sys
sys.path.insert(0, {root!r})
runpy.run_module("tests.containment.mutations", run_name="__main__")
"""
_FILES = (
    "runtime/test_a_terminal",
    "runtime/test_a_own_terminal",
    "runtime/test_b_sockets",
    "runtime/test_c_processes",
    "files/test_d_mounts",
    "files/test_landlock",
    "runtime/test_control_socket",
    "git/test_git_direct",
    "git/test_git_secrets",
    "files/test_tool_secrets",
    "runtime/test_c_renames",
    "runtime/test_c_containers",
    "runtime/test_b_clipboard",
)
A, OWN, B, C, D, LANDLOCK, CONTROL, DIRECT, SECRETS, TOOLS, RENAMES, CONTAINERS, CLIPBOARD = (
    f"tests/containment/{name}.py" for name in _FILES
)


def _built(change: Callable[[SandboxPlan], SandboxPlan]) -> Callable[[], None]:
    build = plan.build_plan

    def apply() -> None:
        plan.build_plan = lambda *parts: change(build(*parts))

    return apply


def _mounts(change: Callable[[Any], Any]) -> Callable[[], None]:
    return _built(lambda built: built.replace(mounts=tuple(filter(None, map(change, built.mounts)))))


def _unmasked(mount: Any) -> Any:
    if isinstance(mount, MaskedView):
        return Bind(mount.target, mount.target)
    return None if isinstance(mount, Mask) else mount


def _host_mount(target: str) -> Callable[[], None]:
    """Mount the directory of the host instead of an empty one."""
    return _mounts(lambda mount: Bind(target, target, writable=True) if mount.target == target else mount)


def _unprotected(end: str) -> Callable[[], None]:
    """Remove the mount over a path of the real tree."""
    return _mounts(lambda mount: None if isinstance(mount, Bind) and mount.target.endswith(end) else mount)


def _without_arguments(*removed: str) -> Callable[[], None]:
    arguments = bwrap.bwrap_options

    def without(*parts: Any) -> tuple[str | int, ...]:
        argv = list(arguments(*parts))
        at = next(n for n in range(len(argv)) if tuple(argv[n : n + len(removed)]) == removed)
        return tuple(argv[:at] + argv[at + len(removed) :])

    return lambda: setattr(bwrap, "bwrap_options", without)


def _returning(module: Any, name: str, result: Any = None) -> Callable[[], None]:
    return lambda: setattr(module, name, lambda *_, **__: result)


def _without_rule(table: str, name: str) -> Callable[[], None]:
    return lambda: setattr(seccomp, table, tuple(rule for rule in getattr(seccomp, table) if rule.name != name))


def _without_landlock() -> None:
    vars(landlock_probe)["add_landlock"] = lambda built: built


def _without_own_terminal() -> None:
    vars(pty)["is_controlling"] = vars(launch)["is_other_terminal"] = lambda _: False


def _without_method_of_relay(name: str) -> Callable[[], None]:
    def apply() -> None:
        from agent_dev.sandbox.terminal.relay import TerminalRelay  # deferred, as in the relay process

        setattr(TerminalRelay, name, lambda *_: None)

    return apply


def _without_own_session() -> None:
    vars(os)["setsid"] = lambda: None


def _with_whole_environment() -> None:
    vars(plan)["allowed_env"] = lambda _, environ: tuple(environ.items())


def _without_credential_names() -> None:
    credentials.REPLACEMENTS.clear()


def _with_tokens() -> None:
    vars(secret_removal)["remove_secrets"] = lambda _, data: (data, ())


def _with_stash() -> None:
    vars(secret_removal).update(STASH="refs/none", remove_stash=lambda packed: packed)


def _replace(owner: type, **methods: Callable[..., Any]) -> None:
    for name, value in methods.items():
        setattr(owner, name, value)


def _with_unresolved_renames() -> None:
    """Use the path of a rename unresolved, follow symlinks on the host, and never remove a mark."""
    from agent_dev.supervisor import copy_up  # deferred, as in the supervisor

    def place(_: RenameHandler, pid: int, __: int, path: bytes) -> OverlayDirectory:
        status = os.stat(b"/proc/%d/cwd/%b" % (pid, path))
        return OverlayDirectory(0, path, (status.st_dev, status.st_ino))

    def is_directory(_: RenameHandler, pid: int, __: int, path: bytes) -> bool:
        return os.path.isdir(b"/proc/%d/cwd/%b" % (pid, path))

    vars(syscalls)["_RESOLVE"] = 0
    vars(copy_up).update(_remove_mark=lambda *_: None, _TRIES=1)
    _replace(RenameHandler, _is_directory=is_directory, _is_pure=lambda *_: False, _locate=place)


def _with_inherited_listener() -> None:
    """Leave the descriptor of the rename listener open in the sandbox."""
    listen = syscalls.install_listener

    def listened(program: bytes) -> int:
        fd = listen(program)
        os.set_inheritable(os.dup(fd), True)
        return fd

    syscalls.install_listener = listened


def _without_rename_workers() -> None:
    """Let the supervisor prepare directories in its own process."""
    from agent_dev.supervisor import copy_up  # deferred, as in the supervisor

    def begin(service: Any, move: Any, places: Any) -> None:
        child = os.fork()
        if child == 0:
            copy_up.make_independent(service._sandbox, places)
            os._exit(0)
        os.waitpid(child, 0)
        service._listener.allow(move.id)

    _replace(RenameHandler, _start_worker=begin)


def _with_session_folder(built: SandboxPlan) -> SandboxPlan:
    upper = next(mount.upper for mount in built.mounts if isinstance(mount, Overlay))
    return built.replace(mounts=(*built.mounts, Bind("/tmp/session", upper.partition("/roots/")[0], writable=True)))


# The removed protection → how to remove it, and the tests of which at least one must fail.
MUTATIONS: dict[str, tuple[Callable[[], None], str]] = {
    "free space monitoring": (_returning(disk_space.FreeSpace, "check", 0), f"{C} -k c24"),  # first: it takes half a minute
    "IPC namespace": (_built(lambda built: built.replace(unshare=tuple(n for n in built.unshare if n != "ipc"))), f"{B} -k b17"),
    "network namespace": (
        _built(lambda built: built.replace(unshare=tuple(n for n in built.unshare if n != "net"))),
        f"{B} -k b11",
    ),
    "private /tmp": (_host_mount("/tmp"), f"{B} -k b02"),
    "private /var/tmp": (_host_mount("/var/tmp"), f"{B} -k b02"),
    "size limit of /tmp": (_mounts(lambda m: m.replace(size=1 << 40) if isinstance(m, Tmpfs) else m), f"{C} -k c23"),
    "masks": (_mounts(_unmasked), f"{D} -k d12"),
    "masks of a direct run": (_mounts(_unmasked), "tests/containment/files/test_masking.py -k d14_masks_hold"),
    "read-only root": (_without_arguments("--remount-ro", "/"), f"{D} -k d10"),
    "environment allow list": (_with_whole_environment, f"{D} -k d13"),
    "Landlock scopes": (_returning(syscalls, "restrict_scopes"), f"{B} -k b01"),
    "Landlock": (_without_landlock, f"{LANDLOCK} -k d10"),
    "Landlock file rules": (_returning(rules, "landlock_rules", ("w/",)), f"{LANDLOCK} -k d10"),
    "parsing of control requests": (
        _returning(protocol, "parse_request", protocol.ControlRequest(protocol.CHECKPOINT)),
        f"{CONTROL} -k b21",
    ),
    "images of the clipboard alone": (_returning(images, "is_image", result=True), f"{CLIPBOARD} -k b27"),
    "fixed requests for the clipboard": (_returning(images, "parse_request", "image/png"), f"{CLIPBOARD} -k b27"),
    "paths below a root": (lambda: setattr(syscalls, "_RESOLVE", 0), f"{CONTROL} -k b23"),
    "pipes for redirected files": (_returning(launch, "open_streams"), f"{B} -k b15"),
    "own terminal": (_without_own_terminal, f"{OWN} -k a25"),
    "own terminal of a stopped job": (_without_own_terminal, f"{OWN} -k a26"),
    "own terminal for settings": (_without_own_terminal, f"{OWN} -k a27"),
    "own session": (_without_own_session, f"{OWN} -k a24"),
    "read-only sandbox program": (_returning(setup_process, "_protect_program"), f"{C} -k c40"),
    "clipboard filter": (_returning(clipboard, "_may_start"), f"{OWN} -k a32"),
    "terminal reset": (_returning(reset, "reset_sequences", b""), f"{OWN} -k a28"),
    "terminal reset when stopped": (_without_method_of_relay("_restore"), f"{OWN} -k a29"),
    "terminal modes when stopped": (_without_method_of_relay("_set"), f"{OWN} -k a29"),
    "terminal reset after a kill": (_without_method_of_relay("_restore_after_launcher"), f"{OWN} -k a30"),
    "terminal modes after a shell's": (_returning(modes, "restore_after_shell"), f"{OWN} -k a31"),
    "private git directories in direct mode": (_unprotected("vendor/lib/.git"), f"{DIRECT} -k f29"),
    "private git directory of the root in direct mode": (_unprotected("shop/.git"), f"{DIRECT} -k f34"),
    "read-only .git files": (_unprotected("module/.git"), f"{DIRECT} -k f30"),
    "disabling of new repositories": (_returning(nested_repositories, "disable_new_repositories", ((), ())), f"{DIRECT} -k f31"),
    "read-only included settings": (_unprotected("/.gitconfig"), f"{DIRECT} -k f32"),
    "git directories without tokens": (_with_tokens, f"{SECRETS} -k d31"),
    "git directories without the stash": (_with_stash, f"{SECRETS} -k d32"),
    "credentials of tools by name": (_without_credential_names, f"{TOOLS} -k d33"),
    "git tokens in caches": (_returning(tool_credentials, "remove_secrets", (b"", ())), f"{TOOLS} -k d34"),
    "process limits": (_returning(syscalls, "set_limit"), f"{C} -k c25"),
}
if os.getuid() == 0:
    MUTATIONS["dropped capabilities"] = (_without_arguments("--cap-drop", "ALL"), f"{C} -k c07")
    MUTATIONS["own control groups"] = (
        _returning(cgroups, "join_new", result=True),
        "tests/containment/runtime/test_c_groups.py -k c30",
    )
    MUTATIONS["private /run"] = (_host_mount("/run"), f"{B} -k b02")
MUTATIONS["half of the per-user limits"] = (
    _returning(user_limits, "halve_limits"),
    "tests/containment/runtime/test_c_shared.py -k c37",
)
MUTATIONS["one network per home"] = (
    _returning(network_lease, "_find_conflict", result=("", "")),
    "tests/containment/runtime/test_b_home.py -k b25",
)
MUTATIONS["one network per written directory"] = (
    _returning(services, "SharedPaths", SharedPaths()),
    "tests/containment/runtime/test_b_home.py -k b26",
)
MUTATIONS["end of the sandbox with the agent"] = (
    _returning(SandboxMonitor, "_end_with_agent"),
    "tests/containment/runtime/test_c_shared.py -k c39",
)
MUTATIONS["renames below a root"] = (_with_unresolved_renames, f"{RENAMES} -k c31")
MUTATIONS["private rename listener"] = (_with_inherited_listener, f"{RENAMES} -k c32")
MUTATIONS["rename workers"] = (_without_rename_workers, f"{RENAMES} -k c33")
MUTATIONS["limit on rename workers"] = (lambda: setattr(directory_renames, "_MAX_WORKERS", 64), f"{RENAMES} -k c33")
MUTATIONS["hidden attach socket"] = (
    _built(_with_session_folder),
    "tests/containment/runtime/test_c_attach.py -k c50",
)
MUTATIONS["standard streams from the session's own terminal"] = (
    _returning(HostTerminal, "use_sandbox_side"),
    "tests/containment/runtime/test_c_attach.py -k c51",
)
_TESTS = {
    "tracing of pid 1": "tests/containment/runtime/test_c_shared.py -k c38",
    "terminal": f"{A} -k a01",
    "console": f"{A} -k a22",
    "keyring": f"{B} -k b18",
}
_TESTS |= dict.fromkeys(("socket families", "netlink", "socket pairs"), f"{B} -k b20")
MUTATIONS |= {
    f"filter: {r.name}": (_without_rule("ALWAYS", r.name), _TESTS.get(r.name, f"{C} -k c27")) for r in seccomp.BASE_RULES
}
MUTATIONS |= {f"filter: {r.name}": (_without_rule("NESTED", r.name), f"{C} -k c09") for r in seccomp.NO_NESTING_RULES}
MUTATIONS["filter: terminal of a joined command"] = (
    _without_rule("ALWAYS", "terminal"),
    "tests/containment/runtime/test_c_joined.py -k c45",
)
MUTATIONS |= NETWORK_MUTATIONS
if os.getuid() != 0:  # root's agents have no containers
    MUTATIONS |= {
        "check of tun interfaces": (_returning(requirements, "attachable_interface", ""), f"{CONTAINERS} -k c95"),
        "empty control groups": (_host_mount("/sys/fs/cgroup"), f"{CONTAINERS} -k c96"),
    }
# Without the row, many kernels return the same error, because they lack the call.
UNDETECTED_ON_MANY_KERNELS = ("filter: kernel log", "filter: kexec", "filter: modules", "filter: old", "filter: userfaultfd")
RUNS = 10  # some tests observe a race, which the mutation may win on a busy machine


def apply_mutation(name: str) -> None:
    """Apply a mutation to this process."""
    MUTATIONS[name][0]()


def main(names: list[str]) -> int:
    """Run the tests of each mutation; return 1 if one was not detected."""
    parent = os.environ.get("PYTEST_DEBUG_TEMPROOT")  # set by .ci/in-memory
    with tempfile.TemporaryDirectory(prefix="agent-dev-mutations-", dir=parent) as folder:
        os.chmod(folder, 0o755)  # noqa: S103  (tests also run it as an ordinary user)
        program = f"{folder}/agent-dev"
        with open(program, "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(python=sys.executable, root=str(FOLDER.parents[1])))
        os.chmod(program, 0o755)  # noqa: S103
        return _run_all(names, program)


def _run_all(names: list[str], program: str) -> int:
    undetected = []
    selected = [name for name in MUTATIONS if not names or name in names]
    import hypothesis  # noqa: F401  now, and not once in each process
    import pexpect  # noqa: F401
    import pytest  # noqa: F401

    count = 3 * len(os.sched_getaffinity(0))  # they wait most of the time
    with multiprocessing.get_context("fork").Pool(count, maxtasksperchild=1) as pool:
        for name, code in zip(selected, pool.imap(partial(_exit_code, program), selected), strict=True):
            is_expected = code == 0 and name in UNDETECTED_ON_MANY_KERNELS
            sys.stdout.write(
                f"{'same on this kernel' if is_expected else 'detected' if code == 1 else 'NOT DETECTED'}: without {name}\n"
            )
            sys.stdout.flush()
            if code != 1 and not is_expected:
                undetected.append(name)
    return bool(undetected)


def _exit_code(program: str, name: str) -> int:
    """Return pytest's exit code for the tests of a mutation, run in this process: 1 if one fails."""
    import pytest  # only here: the mutated program also runs this module

    argv = ["-q", "-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is loaded
    argv += [f"--basetemp={program}-{list(MUTATIONS).index(name)}"]
    os.environ.update(AGENT_DEV_TEST_PROGRAM=program, AGENT_DEV_TEST_MUTATION=name)
    os.chdir(FOLDER.parents[1])
    with open(os.devnull, "r+b") as null:
        for stream in (0, 1, 2):
            os.dup2(null.fileno(), stream)
    for _ in range(1 if name in UNDETECTED_ON_MANY_KERNELS else RUNS):
        code = int(pytest.main([*argv, *MUTATIONS[name][1].split()]))
        if code:
            break
    return code


if __name__ == "__main__":
    mutation = os.environ.get("AGENT_DEV_TEST_MUTATION")
    if mutation is None:
        sys.exit(main(sys.argv[1:]))
    apply_mutation(mutation)
    from agent_dev.cli.main import main as agent_dev

    agent_dev()
