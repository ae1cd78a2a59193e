"""The user's terminal, and the pty that replaces it in the sandbox (docs/decisions/0030-pty-relay.md).

Loaded at every start; `relay`, which copies between the two, runs in its own process.
"""

import os
import termios

from agent_dev.errors import CannotStart
from agent_dev.linux import signals
from agent_dev.sandbox.terminal.foreground import END, FOREGROUND, RESUME, SUSPEND, is_controlling, is_in_foreground


class Terminal:
    """Our controlling terminal, if any; if a standard stream refers to it, also the sandbox's pty and the relay."""

    is_detachable = False  # then a stopped agent does not stop the launcher, and SIGHUP does not end it

    def __init__(self) -> None:
        self._fd = self._open_user_side()
        self._standard = tuple(fd for fd in range(3) if is_controlling(fd)) if self._fd >= 0 else ()
        self._master = self._slave = -1
        self._relay = 0
        self._command_fd = self._reply_fd = -1
        self.may_copy = True  # whether the agent may write to the terminal's clipboard
        self._recording = -1  # descriptor of the file of a recording, until the relay has it
        # If False, the agent starts in the background of its pty and stops when it reads: other programs of a pipeline need
        # the user's terminal unchanged, and a job in the background must stop as usual.
        self.starts_in_foreground = {0, 1} <= {*self._standard} and is_in_foreground(self._fd)
        self._is_foreground = self.starts_in_foreground
        if self._standard:
            self._open()

    def _open_user_side(self) -> int:
        """Return a descriptor of our controlling terminal, -1 if there is none."""
        try:  # reopened: O_NONBLOCK belongs to the open file description, which others share
            return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return -1

    def _open(self) -> None:
        try:
            self._master, self._slave = os.openpty()
            termios.tcsetwinsize(self._slave, termios.tcgetwinsize(self._fd))
            if is_in_foreground(self._fd):  # otherwise these are the modes of a shell's line editor
                termios.tcsetattr(self._slave, termios.TCSANOW, termios.tcgetattr(self._fd))
        except (OSError, termios.error) as error:
            self._close()
            reason = error.args[-1]
            message = f"cannot open a terminal for the sandbox: {reason}"
            raise CannotStart(message=message, hint="mount devpts at /dev/pts, or redirect stdin, stdout and stderr") from None

    def exists(self) -> bool:
        """Return whether we have a controlling terminal."""
        return self._fd >= 0

    def use_sandbox_side(self) -> None:
        """Use the sandbox's side, in a session leader: its pty becomes the controlling terminal and the standard streams."""
        if self._fd >= 0:
            os.close(self._fd)
        if self._slave >= 0:
            os.close(self._master)
            reopened = os.open(f"/proc/self/fd/{self._slave}", os.O_RDWR)  # without O_NOCTTY: becomes the controlling terminal
            for fd in self._standard:
                os.dup2(reopened, fd)
            os.close(reopened)
            os.close(self._slave)

    def close_sandbox_side(self) -> None:
        """Close the sandbox's side in the launcher; the setup process has it."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    @property
    def standard_streams(self) -> tuple[int, ...]:
        """Return the standard streams that are our terminal, which the sandbox's pty replaces."""
        return self._standard

    def use_master(self, fd: int) -> None:
        """Relay to another pty than the one that we opened, given its master, before the relay starts."""
        os.dup2(fd, self._master, inheritable=False)
        os.close(fd)

    def is_relayed(self) -> bool:
        """Return whether a standard stream is our terminal, so that the sandbox has a pty of its own."""
        return bool(self._standard)

    def record_to(self, fd: int) -> None:
        """Give the file of a recording (asciicast) to the relay, which is not started yet."""
        self._recording = fd

    def take_recording(self) -> int:
        """Return the descriptor of the file of a recording that did not begin, -1 for none; the caller must close it."""
        fd, self._recording = self._recording, -1
        return fd

    def start_relay(self, setup_pid: int, group: int) -> None:
        """Start the relay for the sandbox's process group, which the setup process moves to the foreground on SIGUSR1."""
        if self._master < 0:
            return
        commands, self._command_fd = os.pipe()
        self._reply_fd, replies_w = os.pipe()
        launcher = os.getpid()
        self._relay = os.fork()
        if self._relay == 0:
            try:
                self._run_relay((commands, replies_w), (launcher, setup_pid, group))
            finally:
                os._exit(1)
        for fd in (commands, replies_w, self._master):
            os.close(fd)
        if self._recording >= 0:
            os.close(self.take_recording())
        self._master = -1  # only the relay has it: when that exits, the terminal inside is hung up

    def _run_relay(self, pipes: tuple[int, int], processes: tuple[int, int, int]) -> None:
        """Relay, in the relay's process. `pipes`: for commands and replies; `processes`: launcher, setup process, group."""
        from agent_dev.sandbox.terminal import relay  # not in the launcher, to start faster

        ends = relay.RelayDescriptors(self._fd, self._master, *pipes, self._recording)
        relay.run(ends, relay.RelayProcesses(*processes, self._is_foreground, self.may_copy))

    def describe_session(self, folder: str, name: str) -> None:
        """Tell a detachable session's terminal the session's folder and name, before the relay starts."""

    def open_user_terminal(self) -> int:
        """Return a descriptor of a standard stream that is a terminal, else -1."""
        return next((fd for fd in range(3) if os.isatty(fd)), -1)

    def confirm_start(self) -> None:
        """Report to the first client of a detachable session that the agent is running."""

    @property
    def relay_pid(self) -> int:
        """Return the pid of the relay, 0 for none."""
        return self._relay

    def move_to_foreground(self) -> bool:
        """Move an agent that is in the background to the foreground, if we are there; return whether it was moved."""
        if self._is_foreground or not self._relay or not is_in_foreground(self._fd):
            return False
        self._is_foreground = self._send_command(FOREGROUND)
        return self._is_foreground

    def suspend(self) -> None:
        """Reset the user's terminal before we stop."""
        self._send_command(SUSPEND)

    def resume(self) -> None:
        """Resume relaying after a stop."""
        self._send_command(RESUME)

    def has_relay_exited(self) -> bool:
        """Return whether the relay exited early: the terminal was hung up, or the relay was killed."""
        if self._relay and os.waitid(os.P_PID, self._relay, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self.finish()
            return True
        return False

    def finish(self) -> None:
        """Relay the remaining output, reset the user's terminal and end the relay."""
        if self._relay:
            self._send_command(END)
            os.waitpid(self._relay, 0)
            self._relay = 0
        self._close()

    def _close(self) -> None:
        for fd in (self._master, self._slave, self._command_fd, self._reply_fd):
            if fd >= 0:
                os.close(fd)
        self._master = self._slave = self._command_fd = self._reply_fd = -1

    def _send_command(self, command: bytes) -> bool:
        """Send the relay a command and wait for its reply; return whether it replied."""
        if not self._relay:
            return False
        action = signals.ignore(signals.PIPE)
        try:
            os.write(self._command_fd, command)
        except OSError:
            return False  # it exited
        finally:
            signals.restore(signals.PIPE, action)
        return bool(os.read(self._reply_fd, 1))
