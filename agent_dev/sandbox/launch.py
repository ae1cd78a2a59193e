"""Start bubblewrap behind a setup process and wait until every process of the sandbox is gone."""

import errno
import os
import select

from agent_dev import debug
from agent_dev.errors import AgentDevError, CannotStart, SandboxSetupFailed
from agent_dev.linux import cgroups, process, signals, streams
from agent_dev.sandbox import bwrap, seccomp, setup_process
from agent_dev.sandbox.plan import File, Mask, Overlay, SandboxPlan
from agent_dev.sandbox.terminal.foreground import is_other_terminal
from agent_dev.sandbox.terminal.pty import Terminal
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.sandbox.cgroup_limits import LimitGroups
    from agent_dev.sandbox.redirected_streams import RedirectedStreams
    from agent_dev.sandbox.supervisor_interface import ClipboardImages, NetworkGateway, SshAgentFilter, SupervisorHandle

_SET_UID = 0o4000
_KIND, _FILES = 0o170000, (0o100000, 0o040000, 0o060000)  # file, directory, block device


class Sandbox(Value):
    """A sandbox that is built and blocked before the agent starts, or running."""

    setup_pid: int  # pid of the setup process, our child
    init_pid: int  # pid, in our namespace, of the recorded pid namespace's init; leads the sandbox's process group
    init_fd: int  # its pidfd, readable when the namespace's last process is gone
    pid_namespace: int  # inode
    status_fd: int  # bubblewrap's JSON: child pid and exit code
    hold_fd: int  # write to it to start the agent
    process_group: int  # the sandbox's process group
    has_own_namespaces: bool
    cgroup_name: str  # name of its control groups


class SetupProcess:
    """A setup process, started early, that waits for its spec; kill it if there will be none."""

    def __init__(self, *, namespaces: bool = True, terminal: Terminal | None = None) -> None:
        """`terminal`: one for all standard streams, instead of the user's."""
        self.given_terminal = terminal
        self.streams = None if terminal else open_streams()  # before all pipes and the terminal: they must not be inherited
        try:
            self.terminal = terminal or Terminal()
        except BaseException:
            self.finish_streams()
            raise
        spec, self._spec = os.pipe()
        go, self._go = os.pipe()
        self._report, report = os.pipe()
        hold, self._hold = _hold_pipe()
        self._status, status = os.pipe()
        self._cgroups, cgroups_w = os.pipe()
        self._open = {self._spec, self._go, self._report, self._hold, self._status, self._cgroups}
        self.cgroup_name = cgroups.new_name()  # name of the sandbox's own control groups
        self.has_namespaces = namespaces
        self.supervisor: SupervisorHandle | None = None  # None without policy and directory renames
        self.gateway: NetworkGateway | None = None  # only with a network of its own, or published ports
        self.ssh_filter: SshAgentFilter | None = None  # only with `ssh`
        self.clipboard: ClipboardImages | None = None  # only with `share: clipboard-images`
        self.limit_groups: LimitGroups | None = None  # control groups for limits on the whole sandbox
        self.join_socket = ""  # where commands ask to join the sandbox
        self.while_building: Callable[[], None] | None = None  # called while the sandbox is built; may raise
        launcher = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            if self.streams:
                self.streams.use_sandbox_side()
            self.terminal.use_sandbox_side()
            for fd in self._open:
                os.close(fd)
            pipes, in_foreground = (
                setup_process.Pipes(spec, go, report, hold, status, cgroups_w),
                self.terminal.starts_in_foreground,
            )
            setup_process.run(pipes, launcher, self.cgroup_name, namespaces=namespaces, in_foreground=in_foreground)
        for fd in (spec, go, report, hold, status, cgroups_w):
            os.close(fd)
        self.terminal.close_sandbox_side()
        if self.streams:
            self.streams.close_sandbox_side()

    def finish_streams(self) -> None:
        """Wait until all output is in the user's files, once the sandbox has ended."""
        if self.streams:
            self.streams.finish()
            self.streams = None

    def kill(self) -> None:
        """Kill a setup process that is not needed."""
        if self.pid:
            os.kill(self.pid, signals.KILL)
            os.waitpid(self.pid, 0)
            cgroups.remove_finished(self.cgroup_name, self.pid)
            self.pid = 0
            self._close(*self._open)
        self.terminal.finish()
        self.finish_streams()

    def kill_helpers(self) -> None:
        """Kill the supervisor, the gateway, the filter of the ssh-agent and the server of the clipboard."""
        for helper in (self.supervisor, self.gateway, self.ssh_filter, self.clipboard):
            if helper is not None:
                helper.kill()

    def has_own_cgroups(self) -> bool:
        """Return whether the sandbox has its own group in each hierarchy that it could write to; waits for the setup process."""
        is_alone = os.read(self._cgroups, 1) == b"y"
        self._close(self._cgroups)
        return is_alone

    def _close(self, *fds: int) -> None:
        """Close ends of pipes that are still open: a closed one's number may belong to a pipe of the terminal's relay by now."""
        for fd in self._open.intersection(fds):
            self._open.discard(fd)
            os.close(fd)

    def build(self, spec: setup_process.SetupSpec) -> Sandbox:
        """Build the sandbox up to the moment before the agent starts. Raises SandboxSetupFailed, with nothing left behind."""
        try:
            streams.write_all(self._spec, spec.encode())
        except BrokenPipeError:
            pass  # the setup process exited; its report, or the end of that, says so
        self._close(self._spec)
        try:
            if self.while_building:
                self.while_building()
        except BaseException:
            self.kill()
            raise
        try:
            sandbox = self._sandbox()
        except (OSError, AgentDevError) as error:
            self.kill()
            if isinstance(error, OSError):
                raise SandboxSetupFailed(reason=str(error), number=error.errno or 0) from None
            raise
        self.pid = 0
        return sandbox

    def _sandbox(self) -> Sandbox:
        report = self._read_report()
        group, listener = map(int, report.replace(setup_process.READY, b"").split())
        if self.limit_groups:  # before the first process execs bubblewrap and has children, and before the terminal is raw
            self.limit_groups.add_process(group, self.cgroup_name)
        self.terminal.start_relay(self.pid, group)
        if self.supervisor is not None:
            self.supervisor.attach(group, listener, self.terminal.relay_pid)
        if self.clipboard is not None:
            self.clipboard.attach(self.terminal.relay_pid)
        init_facts = _describe_init(group) if self.has_namespaces else None  # while it waits: it may exit immediately afterwards
        self._wait_for_init(report)
        os.write(self._go, b"x")
        self._close(self._go)
        init, init_fd, namespace = init_facts or _describe_init(_child_of_bwrap(self._status))
        status, hold = self._status, self._hold
        return Sandbox(self.pid, init, init_fd, namespace, status, hold, group, self.has_namespaces, self.cgroup_name)

    def _read_report(self) -> bytes:
        """Return the report of the setup process, maybe with that of init. Raises SandboxSetupFailed."""
        report = b""
        while b"\n" not in report:
            chunk = os.read(self._report, 4096)
            report += chunk
            if not chunk or setup_process.FAILED in report:
                raise _failure(report)
        return report

    def _wait_for_init(self, report: bytes) -> None:
        """Wait until init dies with the setup process, and see that this is alive. Raises SandboxSetupFailed."""
        self._open.discard(self._report)
        report += streams.read_to_end(self._report)
        has_exited = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if setup_process.FAILED in report or setup_process.READY not in report or has_exited:
            raise _failure(report, is_retried=False)


def _failure(report: bytes, *, is_retried: bool = True) -> SandboxSetupFailed:
    """Return a failure, with its errno if another sandbox may be tried: not once the supervisor is attached to this one."""
    number, _, reason = report.partition(setup_process.FAILED)[2].decode(errors="surrogateescape").partition("\0")
    return SandboxSetupFailed(reason=reason or "the setup process exited", number=int(number or 0) if is_retried else 0)


def _hold_pipe() -> tuple[int, int]:
    """Return a pipe on which bubblewrap waits before it starts the agent; the end to read can also be written to.

    Bubblewrap takes the end of the file for the byte that it waits for. So its end must keep the pipe open: otherwise it would
    start the agent if the launcher died, or killed the sandbox and closed the pipe. Bubblewrap closes it before the agent starts.
    """
    read_end, write_end = os.pipe()
    hold = os.open(f"/proc/self/fd/{read_end}", os.O_RDWR | os.O_CLOEXEC)
    os.close(read_end)
    return hold, write_end


def _describe_init(init: int) -> tuple[int, int, int]:
    """Return the sandbox's init, its pidfd, and its pid namespace. Raises OSError when it is gone."""
    return init, os.pidfd_open(init), os.stat(f"/proc/{init}/ns/pid").st_ino


def open_streams() -> "RedirectedStreams | None":
    """Return the pipes between the agent and redirected files; None if nothing is redirected."""
    for fd in range(3):
        try:
            mode = os.fstat(fd).st_mode & _KIND
        except OSError:
            continue  # closed
        if mode in _FILES or is_other_terminal(fd):
            from agent_dev.sandbox.redirected_streams import RedirectedStreams  # rare: most runs use a terminal or pipes

            return RedirectedStreams()
    return None


def _wait_for_servers(setup: SetupProcess) -> None:
    """Wait until the filter of the ssh-agent and the clipboard's server serve. Raises CannotStart, with nothing left behind."""
    for server in (setup.ssh_filter, setup.clipboard):
        if server is None:
            continue
        try:
            server.wait_until_ready()
        except BaseException:
            setup.kill()
            raise


def build_sandbox(plan: SandboxPlan, program: str, overlays: str, empty: str, setup: SetupProcess) -> Sandbox:
    """Build the sandbox and block it before the agent starts. Raises SandboxSetupFailed or CannotStart and leaves nothing."""
    command = plan.command
    if not plan.nested:
        from agent_dev.sandbox import landlock_probe  # few profiles set `nested: false`

        plan = landlock_probe.add_landlock(plan)
    has_landlock_step = plan.command != command
    split = bwrap.split_mounts(plan, overlays)
    data_mounts = [mount for mount in split.bwrap if isinstance(mount, File | Mask)]
    numbers = {mount.target: number for number, mount in enumerate(data_mounts)}
    files = tuple(mount.data if isinstance(mount, File) else b"" for mount in data_mounts)
    _check_size(data_mounts, dict(plan.limits).get("file-size", 0))
    options = bwrap.bwrap_options(plan, split.bwrap, numbers)
    debug.print_command((program, *map(str, options), "--", *plan.command))
    spec = setup_process.SetupSpec(
        program=program,
        bwrap_arguments=(
            *options,
            "--block-fd",
            setup_process.HOLD_FD,
            "--json-status-fd",
            setup_process.STATUS_FD,
            "--seccomp",
            len(files),
        ),
        command=(*plan.step, *plan.command),
        files=(*files, _syscall_filter(nested=plan.nested, is_alone=setup.has_own_cgroups())),
        mounts=split.setup,
        home=plan.home,
        agent_home=plan.agent_home,
        empty=empty,
        notify_filter=_notify_filter(plan, setup.supervisor, program) if setup.supervisor is not None else b"",
        is_listener_required=setup.supervisor is not None and setup.supervisor.has_policy,
        limits=plan.limits,
        early_binds=split.early_binds,
        early_overlays=tuple((one.target, one.lower, one.upper, one.work) for one in plan.early_overlays),
        env=plan.env,
        join_socket=setup.join_socket,
        has_landlock_step=has_landlock_step,
    )
    return setup.build(spec)


def _check_size(mounts: "list[File | Mask]", limit: int) -> None:
    """Refuse a `file-size` limit that bubblewrap itself would reach: it would silently truncate the files that it writes."""
    for mount in mounts:
        if limit and isinstance(mount, File) and len(mount.data) > limit:
            message = (
                f"the limit file-size={limit} is below the {len(mount.data)} bytes of {mount.target}, which the sandbox needs"
            )
            raise CannotStart(message=message, hint="set a higher limit: --limit file-size=…")


def _syscall_filter(*, nested: bool, is_alone: bool) -> bytes:
    program = seccomp.refusal_filter(nested=nested, more=() if is_alone else seccomp.NO_CGROUPS_RULES)
    if not program:
        raise CannotStart(message=f"no system-call filter for {os.uname().machine}", hint="supported: x86_64, aarch64")
    return program


def _notify_filter(plan: SandboxPlan, supervisor: "SupervisorHandle", bwrap: str) -> bytes:
    """Return the filter for supervised system calls; empty when there are none.

    A set-uid bubblewrap would lose its privileges by a filter: there, renames are not supervised.
    """
    if supervisor.has_renames and not os.stat(bwrap).st_mode & _SET_UID:
        supervisor.overlays = tuple((mount.target, mount.upper) for mount in plan.mounts if isinstance(mount, Overlay))
    calls = (
        *(seccomp.COMMANDS if supervisor.has_policy else ()),
        *(seccomp.RENAMES if supervisor.overlays else ()),
        *(seccomp.LOOKUPS if supervisor.has_lookups else ()),
    )
    program = seccomp.notify_filter(os.uname().machine, calls) if calls else b""
    if not program and supervisor.has_policy:
        raise CannotStart(message=f"commands cannot be supervised on {os.uname().machine}", hint="set `policy: off`")
    return program


def close_inherited() -> None:
    """Prevent the sandbox from inheriting descriptors that our parent left open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                continue  # the descriptor of listdir itself


def _child_of_bwrap(status: int) -> int:
    """Return the pid of the sandbox's init, which bubblewrap reports once it has cloned it."""
    output = b""
    while b"}" not in output:
        chunk = os.read(status, 4096)
        if not chunk:
            raise CannotStart(message="bubblewrap exited before it had built the sandbox")
        output += chunk
    return int(output.split(b'"child-pid":')[1].split(b",")[0].split(b"}")[0])


def attach_gateway(sandbox: Sandbox, gateway: "NetworkGateway | None", terminal: Terminal) -> None:
    """Give a gateway the network of a sandbox that is built, and the relay of its terminal.

    Raises CannotStart, with nothing left of the sandbox.
    """
    if gateway is None:
        return
    try:
        child = _child_in_namespace(sandbox)
        if child:  # otherwise bubblewrap failed; the run reports it when it ends
            gateway.attach(child, terminal.relay_pid)
    except BaseException:
        kill_sandbox(sandbox)
        os.close(sandbox.hold_fd)
        exit_code(sandbox)
        reap(sandbox)
        raise


def _child_in_namespace(sandbox: Sandbox) -> int:
    """Return the pid of the process that bubblewrap cloned into its namespaces; 0 if it failed before."""
    if not sandbox.has_own_namespaces:
        return sandbox.init_pid
    return process.first_child(sandbox.init_pid) if os.read(sandbox.status_fd, 1) else 0


def start_agent(sandbox: Sandbox) -> None:
    """Start the agent."""
    try:
        os.write(sandbox.hold_fd, b"x")
    except BrokenPipeError:
        pass  # bubblewrap failed; the run reports it when it ends
    os.close(sandbox.hold_fd)


def has_sandbox_ended(sandbox: Sandbox, timeout: float | None = None) -> bool:
    """Return whether every process of the sandbox is gone, waiting at most `timeout` ms."""
    return has_process_ended(sandbox.init_fd, timeout)


def has_process_ended(pidfd: int, timeout: float | None = 0) -> bool:
    """Return whether a process has ended, waiting at most `timeout` ms."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout))


def exit_code(sandbox: Sandbox) -> int | None:
    """Return the agent's exit code (128 + n for a signal) when the sandbox has ended; None when it never started."""
    status = streams.read_to_end(sandbox.status_fd)
    os.close(sandbox.init_fd)
    if b'"exit-code"' not in status:
        return None
    return int(status.split(b'"exit-code":')[1].split(b"}")[0].split(b",")[0])


def reap(sandbox: Sandbox) -> int:
    """Wait for the setup process, which still unmounts (8 ms for an overlay); return bubblewrap's exit code."""
    _, status = os.waitpid(sandbox.setup_pid, 0)
    remove_cgroups(sandbox)
    return os.waitstatus_to_exitcode(status)


def remove_cgroups(sandbox: Sandbox) -> None:
    """Remove the control groups of an ended sandbox once its setup process has exited."""
    cgroups.remove_finished(sandbox.cgroup_name, sandbox.setup_pid)


def kill_sandbox(sandbox: Sandbox) -> None:
    """Kill every process of the sandbox."""
    signals.pidfd_send_signal(sandbox.init_fd, signals.KILL)


def build_with_fallback(
    plan: SandboxPlan, program: str, version: tuple[int, int, int], empty: str, setup: SetupProcess
) -> Sandbox:
    """Start the sandbox; retry without our own namespaces where only bubblewrap may create them and it is new enough.

    Raises SandboxSetupFailed with a hint that explains the failure on this machine.
    """
    _wait_for_servers(setup)
    overlays = os.environ.get("AGENT_DEV_OVERLAY") or bwrap.default_overlay_mode(version)
    try:
        return build_sandbox(plan, program, overlays, empty, setup)
    except SandboxSetupFailed as error:
        is_refused = error.values.get("number") in (errno.EPERM, errno.EACCES)
        if is_refused and version >= bwrap.SAFE_OVERLAY and not plan.early_overlays:
            bare = SetupProcess(namespaces=False, terminal=setup.given_terminal)
            bare.supervisor, bare.limit_groups, bare.join_socket = setup.supervisor, setup.limit_groups, setup.join_socket
            bare.clipboard = setup.clipboard
            bare.terminal.record_to(setup.terminal.take_recording())
            setup.streams, setup.terminal = bare.streams, bare.terminal
            return build_sandbox(plan, program, bwrap.BY_BWRAP, empty, bare)
        from agent_dev.sandbox import failure_hints  # only after a failure

        raise failure_hints.explain_setup_failure(error, plan) from None
