"""The relay process, which copies between the user's terminal and the sandbox's pty.

It belongs to the launcher's process group, so the kernel applies job control to it: it reads only in the foreground, and with
TOSTOP it writes only there. It outlives a killed launcher, to reset the terminal.
"""

import os
import select
import termios
import time

from agent_dev.linux import process, signals
from agent_dev.sandbox.terminal.bell import OutputEnd
from agent_dev.sandbox.terminal.clipboard import ClipboardFilter
from agent_dev.sandbox.terminal.foreground import END, FOREGROUND, RESUME, SUSPEND, is_in_foreground
from agent_dev.sandbox.terminal.modes import INPUT, Modes, as_raw, restore_after_shell
from agent_dev.sandbox.terminal.reset import SAVE_TITLE, OutputScanner, TerminalState, reset_sequences
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.sandbox.terminal.recording import Recording

_CHUNK = 1 << 16
_FULL_READ = 4000  # bytes: a read returns at most 4096, and after a full one more is likely
_MAX_CHUNKS = 16  # chunks copied before other events are handled
_CHECK_INTERVAL = 60  # ms between checks for the foreground, which no event reports
_TIMEOUT = 1.0  # seconds to wait for the last output, or for the setup process
_IUTF8 = 0o040000
_BELL_PATIENCE = 5.0  # seconds that a bell waits for a pause in the output


class RelayDescriptors(Value):
    """File descriptors: the user's terminal, the pty's master, the pipes from and to the launcher, the file of a recording."""

    user: int
    inner: int
    commands: int
    replies: int
    recording: int = -1


class RelayProcesses(Value):
    """The launcher, the setup process, the sandbox's process group; whether the agent starts in the foreground.

    `may_copy`: the agent may write to the clipboard of the user's terminal.
    """

    launcher: int
    setup_process: int
    group: int
    in_foreground: bool
    may_copy: bool = True


def run(
    ends: RelayDescriptors,
    job: RelayProcesses,
    make: "Callable[[RelayDescriptors, RelayProcesses, int, int], TerminalRelay] | None" = None,
    more: frozenset[int] = frozenset(),
) -> None:
    """Relay until the launcher ends it or exits itself. Never returns.

    `make`: creates a relay of a class other than TerminalRelay; `more`: descriptors that stay open.
    """
    for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM, signals.TSTP, signals.PIPE):
        signals.ignore(number)
    launcher = os.pidfd_open(job.launcher)
    if os.getppid() != job.launcher:
        os._exit(1)
    process.close_all_but({ends.user, ends.inner, ends.commands, ends.replies, launcher, *more} | ({ends.recording} - {-1}))
    os.set_blocking(ends.inner, False)
    wakeup_fd, wakeup_w = os.pipe()
    relay = (make or TerminalRelay)(ends, job, launcher, wakeup_fd)
    signals.set_wakeup_fd(wakeup_w)
    signals.catch(signals.WINCH, lambda *_: relay.copy_size())
    signals.catch(signals.URG, lambda *_: relay.request_bell())  # harmless if it arrives earlier: it is ignored by default
    try:
        relay.relay()
        relay.finish_recording()
    finally:
        os._exit(0)


class TerminalRelay:
    """Copies both ways. The user's terminal is raw exactly while input goes to the sandbox."""

    def __init__(self, ends: RelayDescriptors, job: RelayProcesses, launcher: int, wakeup_fd: int) -> None:
        self._ends, self._job, self._launcher, self._wakeup_fd = ends, job, launcher, wakeup_fd
        self._wants_input = job.in_foreground
        self._is_suspended = False  # until the launcher resumes: it is about to stop, and the shell will take the terminal back
        self._user_modes: Modes | None = None  # the user's modes, while the terminal is raw
        self._input = b""  # input, not yet written
        self._buffer = bytearray(_CHUNK)
        self._views = (memoryview(self._buffer),)
        self._pending_output: memoryview | bytes = b""  # may be a view of the buffer, which is not reused before it is written
        self._output = OutputScanner()
        self._output_end = OutputEnd()
        self._clipboard = ClipboardFilter(may_write=job.may_copy)
        self._bell_deadline = 0.0  # set while a bell waits for a pause
        self._is_over = False  # no process has the sandbox's terminal open any more
        self._deadline = 0.0  # set when the launcher ends the relay
        self._size = termios.tcgetwinsize(ends.user)
        self._poll = select.poll()
        for fd in (ends.commands, launcher, wakeup_fd):
            self._poll.register(fd, select.POLLIN)
        self._only_output = [(ends.inner, select.POLLIN)]
        self._waits_for: tuple[int, int, bool] | None = None
        self._recording: Recording | None = None
        if ends.recording >= 0:
            from agent_dev.sandbox.terminal import recording  # imports json, for few runs

            self._recording = recording.Recording(ends.recording, self._size)

    def relay(self) -> None:
        """Relay until the end."""
        while not self._is_done():
            if self._waits_for_foreground() and is_in_foreground(self._ends.user):
                self._make_raw()
            found = self._wait()
            if found == self._only_output:
                self._copy_output()
                continue
            ready = dict(found)
            command = os.read(self._ends.commands, 1) if self._ends.commands in ready else None
            if command == b"" or self._launcher in ready:  # launcher killed: the pipe closes before the shell is notified
                self._restore_after_launcher()
                return
            if ready.get(self._ends.user, 0) & select.POLLHUP:
                return
            if self._wakeup_fd in ready:
                os.read(self._wakeup_fd, 64)
                self._record_size()
            self._copy(ready)
            if command:
                self._run_command(command)
        self._restore()
        self._reply()

    def _is_done(self) -> bool:
        """Return whether the end was requested and all output is written. A pty that stays open delays it by a second."""
        if not self._deadline or self._pending_output:
            return False
        return self._is_over or time.monotonic() > self._deadline

    def _wait(self) -> list[tuple[int, int]]:
        can_read = self._user_modes and self._wants_input and not self._input
        user = (select.POLLOUT if self._pending_output else 0) | (select.POLLIN if can_read else 0)
        inner = (select.POLLOUT if self._input else 0) | (0 if self._pending_output else select.POLLIN)
        if (user, inner, self._is_over) != self._waits_for:
            self._waits_for = user, inner, self._is_over
            self._poll.register(self._ends.user, user)
            if inner and not self._is_over:
                self._poll.register(self._ends.inner, inner)
            else:
                self._ignore_inner()
        is_checking = self._deadline or self._bell_deadline or self._waits_for_foreground()
        return self._poll.poll(_CHECK_INTERVAL if is_checking else None)

    def _waits_for_foreground(self) -> bool:
        return self._wants_input and not self._user_modes and not self._is_suspended

    def _ignore_inner(self) -> None:
        """Stop polling the sandbox's pty: once no process has it open, it would always be ready."""
        try:
            self._poll.unregister(self._ends.inner)
        except KeyError:
            return  # not registered

    def _copy(self, ready: dict[int, int]) -> None:
        if self._bell_deadline and not ready:
            self._ring()
        if ready.get(self._ends.user, 0) & select.POLLIN:
            self._read_user()
        if self._input:
            self._input = self._input[_write(self._ends.inner, self._input) :]
        if self._pending_output:
            self._write_user()
        elif ready.get(self._ends.inner, 0) & (select.POLLIN | select.POLLHUP):
            self._copy_output()

    def _read_user(self) -> None:
        if not is_in_foreground(self._ends.user):
            self._user_modes = None  # another process group has it, with its own modes
            return
        try:
            self._input = os.read(self._ends.user, _CHUNK)
        except OSError:
            return  # nothing to read, or hung up, which the next poll reports

    def _copy_output(self) -> None:
        """Copy the sandbox's output chunk by chunk: each is written before the next is read."""
        for _ in range(_MAX_CHUNKS):
            size = self._read_inner()
            self._write_user()
            if size < _FULL_READ or self._pending_output:
                return

    def _read_inner(self) -> int:
        """Read one chunk of output; return its size, 0 if there is none."""
        try:
            size = os.readv(self._ends.inner, self._views)
        except BlockingIOError:
            return 0
        except OSError:  # EIO: no process has it open
            self._is_over = True
            return 0
        self._output_end.add(self._buffer, size)
        had_sequences = self._output.has_sequences
        self._output.scan(self._buffer, size)
        self._pending_output = self._views[0][:size]
        if self._clipboard.concerns(self._buffer, size):
            self._pending_output = self._clipboard.filter(bytes(self._pending_output))
        if self._recording:
            self._recording.add_output(bytes(self._pending_output))
        if self._user_modes is None:
            self._pending_output = bytes(self._pending_output).replace(b"\r\n", b"\n")  # the user's terminal adds the CR again
        if self._output.has_sequences and not had_sequences:
            self._pending_output = SAVE_TITLE + self._pending_output
        return size

    def _write_user(self) -> None:
        written = _write(self._ends.user, self._pending_output)
        self._pending_output = self._pending_output[written:] if written < len(self._pending_output) else b""

    # the bell

    def request_bell(self) -> None:
        """Ring the bell of the user's terminal at the next pause of the output (session/alerts)."""
        self._bell_deadline = time.monotonic() + _BELL_PATIENCE

    def _ring(self) -> None:
        """Ring the bell, unless the output stopped within a sequence, which a BEL could end; then retry later."""
        is_too_late = time.monotonic() > self._bell_deadline or not is_in_foreground(self._ends.user)
        can_ring = not self._pending_output and self._output_end.can_ring()
        if is_too_late or (can_ring and _write(self._ends.user, b"\a")):
            self._bell_deadline = 0.0

    # the launcher's commands

    def _run_command(self, command: bytes) -> None:
        if command == SUSPEND:
            self._flush()
            for _ in range(_MAX_CHUNKS):
                if not self._read_inner():
                    break
                self._flush()
            self._restore()
            self._is_suspended = True
        elif command == RESUME:
            self._is_suspended = False
            if self._wants_input and is_in_foreground(self._ends.user):
                self._make_raw()
                self._redraw()
        elif command == FOREGROUND:
            self._move_to_foreground()
        elif command == END:
            self._deadline = time.monotonic() + _TIMEOUT
            self._wants_input = False
            return  # replied to at the end
        self._reply()

    def _reply(self) -> None:
        try:
            os.write(self._ends.replies, b".")
        except BrokenPipeError:
            return

    def _move_to_foreground(self) -> None:
        end = time.monotonic() + _TIMEOUT
        while time.monotonic() < end and os.tcgetpgrp(self._ends.inner) != self._job.group:
            os.kill(self._job.setup_process, signals.USR1)
            time.sleep(0.002)
        self._wants_input = True
        self._make_raw()

    # the user's terminal

    def _make_raw(self) -> None:
        """Make the terminal raw (cfmakeraw(3)) and copy its size."""
        try:
            self._user_modes = termios.tcgetattr(self._ends.user)
            termios.tcsetattr(self._ends.user, termios.TCSANOW, as_raw(self._user_modes))
        except termios.error:
            self._user_modes = None  # hung up
        self.copy_size()
        self._record_size()

    def _record_size(self) -> None:
        """Record the size of the user's terminal; not in the signal handler, which could run within another event."""
        if self._recording:
            try:
                self._recording.add_size(termios.tcgetwinsize(self._ends.user))
            except termios.error:
                return  # hung up

    def finish_recording(self) -> None:
        """Finish the recording, if there is one."""
        if self._recording:
            self._recording.finish()

    def copy_size(self) -> None:
        """Copy the size of the user's terminal to the sandbox's; the kernel sends SIGWINCH to the foreground group inside."""
        try:
            termios.tcsetwinsize(self._ends.inner, termios.tcgetwinsize(self._ends.user))
        except termios.error:
            return

    def _redraw(self) -> None:
        try:
            os.killpg(os.tcgetpgrp(self._ends.inner), signals.WINCH)
        except OSError:
            return

    def _flush(self) -> None:
        """Write all pending output. The kernel refuses it while the terminal is full, or another process writes to it."""
        poll = select.poll()
        poll.register(self._ends.user, select.POLLOUT)
        while self._pending_output and not poll.poll()[0][1] & select.POLLHUP:
            self._write_user()

    def _restore(self) -> None:
        """Reset the terminal and restore the user's modes, if we are in the foreground."""
        if not is_in_foreground(self._ends.user):
            self._user_modes = None
            return
        self._pending_output = bytes(self._pending_output) + self._reset()
        self._flush()
        if self._user_modes is not None:
            self._set(self._user_modes)
        self._user_modes = None

    def _restore_after_launcher(self) -> None:
        """Reset the terminal after the launcher was killed. A shell may own it already: modes that it set stay."""
        user_modes = self._user_modes
        if user_modes is None:
            return
        is_first = self._set_in_foreground(user_modes)  # before anything else: a shell that finds the terminal raw keeps it so
        signals.ignore(signals.TTOU)
        self._continue_output()
        self._pending_output = self._reset()
        self._flush()
        if not is_first:
            try:
                restore_after_shell(self._ends.user, user_modes)
            except termios.error:
                return  # hung up

    def _set_in_foreground(self, modes: Modes) -> bool:
        """Set the modes if our process group is in the foreground; return whether it is.

        The kernel checks that: it refuses a background process that does not ignore SIGTTOU. Between a check of our own and the
        call, a shell could take the terminal back and set the modes for its prompt, which the call would overwrite.
        """
        signals.catch_and_drop(signals.TTOU)
        try:
            termios.tcsetattr(self._ends.user, termios.TCSANOW, modes)
        except termios.error:
            return False
        return True

    def _set(self, modes: Modes) -> None:
        try:
            termios.tcsetattr(self._ends.user, termios.TCSANOW, modes)
        except termios.error:
            return
        self._continue_output()

    def _continue_output(self) -> None:
        """Continue output that a program suspended."""
        try:
            termios.tcflow(self._ends.user, termios.TCOON)
        except termios.error:
            return

    def _reset(self) -> bytes:
        try:
            now = termios.tcgetwinsize(self._ends.user)
            modes = self._user_modes or termios.tcgetattr(self._ends.user)
        except termios.error:
            return b""
        flags = modes[INPUT]
        is_utf8 = isinstance(flags, int) and bool(flags & _IUTF8)
        target = TerminalState(
            is_utf8=is_utf8, is_console=os.environ.get("TERM") == "linux", start_size=self._size, current_size=now
        )
        reset = reset_sequences(self._output, target)
        self._output = OutputScanner()
        if self._recording:
            self._recording.add_output(reset)
        return reset


def _write(fd: int, data: memoryview | bytes) -> int:
    """Write as much as fits and return its size; all of it counts as written after a hangup."""
    try:
        return os.write(fd, data)
    except BlockingIOError:
        return 0
    except OSError:
        return len(data)
